"""From Python functions to function graphs: what is traced, how often, and where it came from."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from kerasrec._src.graph.nodes import Check, Collect, Effect, Put
from kerasrec._src.graph.types import Kind
from tests import golden_programs, programs
from tests.programs import FEW, MORE, PROGRAMS, each
from tests.trace.helpers import answer

LINE = r"test_program\.py:\d+"


def line_of(function: kerasrec.RecursiveFunction, text: str) -> int:
    lines, start = inspect.getsourcelines(function.python_function)
    return start + next(place for place, line in enumerate(lines) if text in line)


@each(few=FEW, many=MORE)
def test_every_node_has_the_users_line(program):
    for function in program.function.function_graphs(*program.inputs):
        for node in function.nodes:
            if node.op not in ("SHARED", "PARAMETER"):
                assert node.source is not None
                assert node.source.file in (programs.__file__, function.source.file)


def test_the_line_is_that_of_the_op_and_not_of_the_function():
    (function,) = golden_programs.fib.function_graphs(3)
    expected = line_of(golden_programs.fib, "return kerasrec.cond")
    found = {node.op: node.source.line for node in function.nodes}
    assert found["CALLSITE"] == found["AddV2"] == found["MERGE"] == expected


@each(few=FEW, many=MORE)
def test_a_value_passes_one_switch_for_a_conditional(program):
    for function in program.function.function_graphs(*program.inputs):
        switches = [tuple(node.inputs) for node in function.nodes if node.op == "SWITCH"]
        assert len(switches) == len(set(switches))


@each(few=FEW, many=MORE)
def test_nothing_is_there_that_nobody_needs(program):
    for function in program.function.function_graphs(*program.inputs):
        used = {value.node for node in function.nodes for value in node.inputs}
        used |= {value.node for value in function.outputs}
        collects = [node for node in function.nodes if isinstance(node, Collect)]
        used |= {node.size.node for node in collects if node.size}
        kept = {*function.parameters, *function.call_sites, *collects}
        kept |= {node for node in function.nodes if isinstance(node, Check | Effect | Put)}
        assert set(function.nodes) <= used | kept


def test_each_function_is_there_once():
    graphs = programs.both_users.function_graphs(1.0)
    assert list(graphs.functions) == ["both_users", "left_user", "right_user", "halve"]


def test_functions_that_call_each_other_need_no_declaration():
    graphs = programs.first.function_graphs(1.0, 2)
    assert sorted(graphs.functions) == ["first", "second", "third"]
    assert [site.callee for site in graphs.functions["third"].call_sites] == ["first"]


@pytest.mark.slow
def test_a_function_is_traced_for_each_signature_it_is_called_with():
    @recursive
    def twice(x):
        return x + x

    @recursive
    def both(n, x):
        return tf.cast(twice(n), x.dtype) + twice(x)

    graphs = both.function_graphs(1, 2.0)
    assert [str(function.parameters[0].types[0]) for function in graphs] == [
        "i32[]",
        "i32[]",
        "f32[]",
    ]
    assert both(3, 4.0) == 14.0


def test_returns_says_what_cannot_be_inferred():
    @recursive(returns={"value": tf.TensorSpec([2], tf.float32)})
    def f(x, n):
        below = f(x, tf.maximum(n - 1, 0))["value"]
        return {"value": cond(n < 1, lambda: x, lambda: below)}

    (function,) = f.function_graphs(np.ones([1, 2], np.float32), [1])
    assert [str(value.type) for value in function.outputs] == ["f32[2]"]


@pytest.mark.slow
def test_a_python_number_takes_the_dtype_of_where_it_goes():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(0.5, 0))

    assert f(tf.constant(2.0, tf.float64), 1).dtype == tf.float64


def test_what_no_token_takes_part_in_is_shared():
    (function,) = programs.captures.function_graphs(programs.some(1, 2), [1])
    kinds = {node.op: node.types[0].kind for node in function.nodes if node.types}
    assert kinds["SHARED"] is kinds["Exp"] is Kind.SHARED
    assert kinds["Mul"] is kinds["MERGE"] is Kind.TOKEN


def test_what_a_nested_function_closes_over_becomes_an_argument():
    graphs = programs.nested.function_graphs(programs.f64(1.0), programs.i32(1))
    names = {function.name: [node.name for node in function.parameters] for function in graphs}
    assert names == {
        "nested": ["x", "n"],
        "uses": ["m", "nested.x", "nested.sine"],
        "without": ["m", "nested.x", "nested.sine"],
    }


def test_variables_are_found_by_themselves_and_read_once_for_all_tokens():
    (function,) = programs.tree_rnn.function_graphs(0)
    shared = [node for node in function.nodes if node.op == "SHARED"]
    names = {node.name for node in shared}
    assert {name.split(":")[0] for name in names} == {"embedding", "kernel", "bias"}
    reads = [node for node in function.nodes if node.op == "ReadVariableOp"]
    assert len(reads) == 3
    assert all(node.types[0].kind is Kind.SHARED for node in reads)


@pytest.mark.slow
def test_a_layer_makes_its_variables_on_the_first_call():
    layer = keras.layers.Dense(2)

    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: layer(f(x, n - 1)))

    x = np.ones([1, 2], np.float32)
    expected = f(x, [2])
    assert len(layer.weights) == 2
    np.testing.assert_allclose(expected, layer(layer(x)), rtol=1e-6)


@pytest.mark.many
@pytest.mark.parametrize("name", ["fib", "tree_rnn", "call_in_argument"])
def test_a_second_call_with_other_sizes_traces_nothing(name):
    program = next(item for item in PROGRAMS if item.name == name)
    function = program.function
    function(*program.inputs)
    traces = function.num_traces
    for size in (1, 2, 5):
        function(*tf.nest.map_structure(lambda item, size=size: item[[0] * size], program.inputs))
    function(*tf.nest.map_structure(lambda item: item[:0], program.inputs))
    assert function.num_traces == traces
    with tf.GradientTape():
        function(*program.inputs)
    assert function.num_traces == traces


@pytest.mark.slow
def test_a_function_without_arguments_runs_for_one_token():
    """The paper's `result = fact(3) + 5` (Kostopoulou et al., section 2.4), as it stands."""

    @recursive
    def fact(n):
        return kerasrec.cond(n < 2, lambda: 1, lambda: n * fact(n - 1))

    @recursive
    def result():
        return fact(3) + 5

    assert int(result()) == 11
    assert int(tf.function(result)()) == 11
    assert result.run_trace().num_calls == 4
    with pytest.raises(kerasrec.SignatureError, match="too many positional arguments"):
        result(3)


@pytest.mark.slow
def test_other_dtypes_and_shapes_trace_anew():
    @recursive
    def f(x):
        return x + x

    count = []
    for x in (1, 2, [3, 4], 1.0, tf.constant(1.0, tf.float64), [[1.0, 2.0]], [[1.0, 2.0]] * 3):
        f(x)
        count.append(f.num_traces)
    assert count == [1, 1, 1, 2, 3, 4, 4]


@pytest.mark.slow
def test_the_python_function_is_not_run_again():
    runs = []

    @recursive
    def f(n):
        runs.append(n)
        return cond(n < 1, lambda: n, lambda: f(n - 1))

    f(3)
    traced = len(runs)
    f([4, 5])
    f.tagged_graph([1])
    f.extended_graph(2)
    assert len(runs) == traced == 2


def test_a_function_that_returns_none():
    @recursive
    def f(n):
        cond(n < 1, lambda: n, lambda: f(n - 1))

    answer(kerasrec.SignatureError, lambda: f(3), "f ", LINE, "None", "`return`")


def test_returns_other_than_declared():
    @recursive(returns=tf.TensorSpec([], tf.float32))
    def f(n):
        return cond(n < 1, lambda: n, lambda: n + 1)

    answer(kerasrec.SignatureError, lambda: f(3), "f ", LINE, r"i32\[\]", r"f32\[\]", "returns=")


@pytest.mark.many
def test_a_nested_function_after_the_one_around_it():
    kept = []

    @recursive
    def f(n):
        @recursive
        def g(m):
            return m + n

        kept.append(g)
        return g(n)

    assert f(3) == 6
    answer(
        kerasrec.TraceError,
        lambda: kept[-1](3),
        "g ",
        LINE,
        "closes over 'n'",
        "that function has returned",
        "pass the tensor as an argument",
    )


def test_a_layer_that_keeps_a_tensor_of_the_body_that_built_it():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(layer(x), n - 1))

    x = np.float32([[1, 5]])
    layer = keras.layers.Normalization(mean=3.0, variance=4.0)
    for _ in range(2):
        answer(kerasrec.TraceError, lambda: f(x, 1), LINE, "BroadcastTo", "call it once outside")
    layer = keras.layers.Normalization(mean=3.0, variance=4.0)
    layer(x)
    np.testing.assert_allclose(f(x, 1), [[-1, 1]])


def test_a_nested_function_that_closes_over_what_is_across_tokens():
    @recursive
    def f(x):
        total = tf.reduce_sum(x)

        @recursive
        def g(y):
            return y + total

        return g(x)

    answer(kerasrec.TraceError, lambda: f([1.0, 2.0]), "g ", LINE, "across the tokens of another")


def test_a_nested_function_whose_variable_changes():
    @recursive
    def f(x):
        y = tf.sin(x)

        @recursive
        def g(z):
            return z + y

        first = g(x)
        y = tf.cos(x)
        return first + g(x)

    answer(kerasrec.TraceError, lambda: f([1.0, 2.0]), "g ", LINE, "'y'", "another tensor", LINE)


def test_a_nested_function_called_outside_the_branch_of_what_it_closes_over():
    @recursive
    def f(n):
        kept = []

        def first():
            twice = n * 2

            @recursive
            def g(m):
                return m + twice

            kept.append(g)
            return g(n)

        return cond(n < 1, first, lambda: n) + kept[0](n)

    answer(kerasrec.TraceError, lambda: f(3), LINE, "inside one branch")


@pytest.mark.many
def test_functions_that_run_eagerly():
    @kerasrec.recursive
    def count(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: count(n - 1))

    tf.config.run_functions_eagerly(True)
    try:
        with pytest.raises(kerasrec.TraceError, match=r"run_functions_eagerly\(True\): a recursi"):
            count(3)
    finally:
        tf.config.run_functions_eagerly(False)
    assert count(3) == 0
