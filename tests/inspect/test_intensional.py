"""The printed intensional program; tests/graph/test_eduction.py runs it."""

import ast

import numpy as np
import tensorflow as tf

import kerasrec
from tests.graph.eduction import evaluate
from tests.programs import fib


def test_the_example_of_the_thesis():
    """Kostopoulou 2018, section 4.2, letter by letter."""

    @kerasrec.recursive
    def g(y):
        return y

    @kerasrec.recursive
    def f(x):
        return g(x + 1)

    @kerasrec.recursive
    def result():
        return f(4) + f(5)

    assert str(result.intensional_program()).splitlines() == [
        "result = call_0(f) + call_1(f)",
        "f = call_0(g)",
        "g = y",
        "x = actuals(4, 5)",
        "y = actuals(x + 1)",
    ]


def test_the_call_from_outside_is_the_last():
    program = fib.intensional_program(10)
    assert str(program).splitlines() == [
        "result = call_2(fib)",
        "fib = n if n < 2 else call_0(fib) + call_1(fib)",
        "n = actuals(n - 1, n - 2, argument_n)",
    ]
    assert program.arguments == ("argument_n",) and program.given == {}


def test_what_nobody_asks_for_is_left_out():
    @kerasrec.recursive
    def f(n, unused):
        fib(n + 2)
        return n * 2

    assert str(f.intensional_program(1, 2)).splitlines() == [
        "result = call_0(f)",
        "f = n * 2",
        "n = actuals(argument_n)",
    ]


def test_literals_have_their_dtypes_and_tensors_are_given():
    table, weight = tf.range(10.0), tf.Variable(2.0, name="weight")

    @kerasrec.recursive
    def f(x, n, name):
        numbers = tf.cast(x, tf.float64) * 0.1 - tf.constant(float("inf"), tf.float64)
        long = n + tf.constant(2**40, tf.int64)
        scaled = (x - 0.1) * weight + tf.gather(table, n)
        return numbers, long, tf.strings.join([name, "é"]), scaled, tf.constant([float("nan")]) + x

    arguments = [np.float32([0.5]), np.int64([3]), np.array([b"a"])]
    program = f.intensional_program(*arguments)
    text = str(program)
    assert "Cast(x, DstT='float64') * float64(0.1) - float64(1e309)" in text
    assert "int64(1099511627776)" in text and "(x - 0.1)" in text and "StringJoin((name, " in text
    assert set(program.given) == {"constant", "GatherV2_params", "weight"}
    found = evaluate(f.function_graphs(*arguments), arguments).outputs
    for one, other in zip(found, f(*arguments), strict=True):
        np.testing.assert_array_equal(one, other.numpy())


def test_names_of_the_user_never_meet_operators():
    @kerasrec.recursive
    def call_0(actuals, row):
        return kerasrec.cond(actuals < 1, lambda: row, lambda: call_0(actuals - 1, row * 2))

    @kerasrec.recursive
    def result(row):
        return call_0(3, row)

    graphs = result.function_graphs(5)
    program = result.intensional_program(5)
    names = [ast.unparse(line.targets[0]) for line in ast.parse(str(program)).body]
    assert len(set(names)) == len(names) and not {"call_0", "actuals", "row"} & set(names)
    assert evaluate(graphs, [np.int32([5])]).outputs == [[40]]
