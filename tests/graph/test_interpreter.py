"""The interpreter gives every program its meaning, and fires the nodes that fire in the papers."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.interpreter import interpret
from tests import programs
from tests.engine.helpers import assert_same, cotangents_of, run_interpreter, run_plain
from tests.programs import FEW, PROGRAMS, each

BY_NAME = {item.name: item for item in PROGRAMS}


def forward_counts(graph, interpretation):
    """How often each forward node fired, in the order of the graph's bodies."""
    bodies = graph.bodies.values()
    return [interpretation.fired[node] for body in bodies for node in body.sweeps[0].nodes]


@each(lambda program: not program.has_gradient, few=FEW)
def test_values_of_the_tagged_graph(program):
    found = interpret(program.function.tagged_graph(*program.inputs), program.flat_inputs)
    expected = run_plain(program)
    for output, true in zip(found.outputs, expected.outputs, strict=True):
        np.testing.assert_allclose(output, true, rtol=1e-5)
        assert (output.dtype, output.shape) == (true.dtype, true.shape)
    assert sorted(found.tables) == list(expected.tables)


@pytest.mark.many
@each(
    lambda program: program.has_gradient and not program.is_deep,
    few=FEW,
    many=["call_in_argument", "only_empty_rows", "sum_upto"],
)
def test_gradient_of_the_extended_graph(program):
    """Nothing is computed twice: forward nodes fire as often with the gradient as without.

    A run without cotangents is a partial call of the extended graph, and gives the values.
    """
    extended = program.function.extended_graph(*program.inputs)
    partial = interpret(extended, program.flat_inputs)
    run, full = run_interpreter(program)
    assert_same(run, run_plain(program))
    for output, other in zip(partial.outputs, full.outputs, strict=True):
        np.testing.assert_array_equal(output, other)
    assert full.fired_under_tag == partial.fired_under_tag == 1
    assert forward_counts(extended, full) == forward_counts(extended, partial)
    assert len(partial.sweeps) == 1
    # Where an argument's gradient is zero in a branch, that needs no cotangent.
    assert not any(np.any(item) for item in partial.shared_gradients.values())


@pytest.mark.many
@pytest.mark.parametrize("name", ["fib", "ackermann", "takeuchi", "mccarthy_91", "factorial"])
def test_as_many_tokens_as_calls(name, monkeypatch):
    """Each call sends one token through the body: counted in plain Python."""
    program = BY_NAME[name]
    calls = []
    plain = program.plain

    def counted(*arguments):
        calls.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(programs, plain.__name__, counted)
    for token in zip(*program.inputs, strict=True):
        counted(*token)

    graph = program.function.tagged_graph(*program.inputs)
    found = interpret(graph, program.flat_inputs)
    (body,) = graph.bodies.values()
    assert all(found.fired[node] == len(calls) for node in [*body.parameters, *body.outputs])
    for place in range(len(body.parameters)):
        entered = [found.fired[site.calls[place]] for site in graph.call_sites.values()]
        assert sum(entered) == len(calls)
    for site in graph.call_sites.values():
        assert {found.fired[node] for node in (*site.calls, *site.returns)} == {
            found.fired[site.calls[0]]
        }
    assert found.fired_under_tag == 1


def test_tokens_by_what_they_do():
    graph = programs.factorial.tagged_graph(0)
    fired = interpret(graph, [np.array([4], np.int32)]).fired_by_title()
    assert fired["CALL_0"] == fired["RETURN_0"] == fired["Mul"] == 3
    assert fired["CALL_1"] == fired["RETURN_1"] == 1
    assert fired["Less"] == 4


def test_dead_tokens_go_round_a_call_and_not_into_it():
    graph = programs.fib.tagged_graph(0)
    found = interpret(graph, [np.array([1], np.int32)])
    (body,) = graph.bodies.values()
    for label in (0, 1):
        site = graph.call_sites[label]
        for node in (*site.calls, *site.returns):
            assert (found.fired[node], found.dead[node]) == (0, 1)
    assert (found.fired[body.parameters[0]], found.dead[body.parameters[0]]) == (1, 0)


def test_dead_tokens_cross_a_conditional_inside_a_dead_branch():
    graph = programs.ackermann.tagged_graph(0, 0)
    found = interpret(graph, [np.array([0], np.int32), np.array([5], np.int32)])
    assert found.outputs[0] == [6]
    inner = [
        node
        for node in graph.bodies["ackermann"].nodes
        if node.op == "MERGE" and node.region is not None
    ]
    assert [found.dead[node] for node in inner] == [1]
    assert all(found.dead[site.calls[0]] == 1 for site in graph.call_sites.values() if site.caller)


def test_tables_that_no_token_reaches_are_there():
    @kerasrec.recursive
    def function(number):
        def branch():
            kerasrec.collect("in no order", number)
            kerasrec.collect("by index", [1.0, 2.0], index=number, size=3)
            return number

        return kerasrec.cond(number < 0, branch, lambda: -number)

    expected = function.with_collected([2])[1]
    assert {name: table.shape for name, table in expected.items()} == {
        "in no order": (0,),
        "by index": (3, 2),
    }
    tables = interpret(function.tagged_graph(2), [np.array([2], np.int32)]).tables
    assert tables.keys() == expected.keys()
    for name, table in tables.items():
        np.testing.assert_array_equal(table, expected[name], strict=True)


@pytest.mark.slow
def test_an_argument_without_gradient_gets_none():
    program = BY_NAME["power"]
    given = cotangents_of(run_plain(program))
    extended = program.function.extended_graph(*program.inputs)
    found = interpret(extended, program.flat_inputs, given)
    assert found.gradients[0].shape == (program.num_tokens,)
    assert found.gradients[1] is None


def test_no_argument_has_a_gradient_if_no_float_is_returned():
    @kerasrec.recursive
    def f(x, n):
        return n + 1

    found = interpret(f.extended_graph(2.0, 1), [np.float32([2]), np.int32([1])], [])
    assert found.outputs == [[2]] and found.gradients == [None, None]


def test_a_function_without_arguments_runs_once():
    """Of 2 x x x, which collects x, with its gradient by x."""
    x = tf.Variable(3.0)

    @kerasrec.recursive
    def power(n, value):
        return kerasrec.cond(n < 1, lambda: value, lambda: power(n - 1, value * x))

    @kerasrec.recursive
    def f():
        kerasrec.collect("x", tf.convert_to_tensor(x), 1, 2)
        return power(3, 2.0)

    found = interpret(f.extended_graph(), [], [np.float32([1.0])])
    assert found.outputs == [[54.0]] and found.gradients == [None]
    assert found.tables["x"].tolist() == [0, 3]
    assert sum(found.shared_gradients.values()) == 54
    assert f().numpy() == 54 and f.run_trace().num_calls == 5
