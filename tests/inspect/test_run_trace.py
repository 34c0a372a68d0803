"""A run's trace counts what the interpreter and plain Python count."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.emit.schedule_run import ScheduleRun
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.inspect.record import Recorder
from kerasrec._src.inspect.scopes import names_in
from kerasrec._src.schedule.translate import counts_tokens, instructions_of
from tests import programs
from tests.engine.helpers import lowered
from tests.golden.compare import assert_golden
from tests.programs import PROGRAMS, each


def fib():
    """A separate function, compiled by no other test."""

    @kerasrec.recursive
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    return fib


def trace_in_queues(program):
    """The trace of the machine for all programs, also for those of one round."""
    inputs = [tf.constant(item) for item in program.flat_inputs]
    specs = [tf.TensorSpec([None, *item.shape[1:]], item.dtype) for item in inputs]
    return Recorder(lowered(program, by_queues=True), specs).record(inputs)


def assert_counts(trace, program):
    """Calls of each function and tokens fired by each node are those of the interpreter."""
    graph = program.function.extended_graph(*program.inputs)
    names = names_in(graph.scopes())
    found = interpret(graph, program.flat_inputs).fired
    nodes = [node for body in graph.bodies.values() for node in body.sweeps[0].nodes]
    assert trace.fired == {names[node]: found[node] for node in nodes if node in found}
    assert trace.calls == {name: found[body.parameters[0]] for name, body in graph.bodies.items()}
    assert sum(step.tokens for step in trace.waves) == trace.num_calls
    in_steps = sum((Counter(step.fired) for step in trace.steps), Counter())
    assert in_steps == {name: trace.fired[name] for name in in_steps}
    assert set(trace.fired) - without_step(graph) == set(in_steps)


def without_step(graph):
    """Names of nodes that run wherever they are read, or of which only the size is read."""
    names = names_in(graph.scopes())
    nodes = [(name, node) for name, body in graph.bodies.items() for node in body.sweeps[0].nodes]
    read = {value.node for _, node in nodes if not counts_tokens(node) for value in node.inputs}
    measured = {value.node for _, node in nodes if counts_tokens(node) for value in node.inputs}
    return {
        names[node]
        for name, node in nodes
        if node in measured - read or any(one.at_use for one in instructions_of(name, node))
    }


@pytest.mark.slow
@each(lambda program: not program.is_deep, few=["tree_rnn"], many=["ackermann"])
def test_counts_of_the_interpreter(program):
    assert_counts(program.function.run_trace(*program.inputs), program)


@pytest.mark.slow
@each(
    lambda program: program.num_rounds == 1 and not program.is_deep,
    few=[],
    many=["child_sum"],
)
def test_counts_of_the_interpreter_in_queues(program):
    assert_counts(trace_in_queues(program), program)


def plain_calls(program, *functions):
    """How many calls plain Python makes, by (function, depth of nesting)."""
    names = {item.__code__: item.__name__.removeprefix("plain_") for item in functions}
    calls, depth = Counter(), -1

    def watch(frame, event, _):
        nonlocal depth
        name = names.get(frame.f_code)
        if name and event == "call":
            depth += 1
            calls[(name, depth)] += 1
        elif name and event == "return":
            depth -= 1

    for row in range(program.num_tokens):
        token = [item[row].item() for item in program.flat_inputs]
        sys.setprofile(watch)
        try:
            program.plain(*token)
        finally:
            sys.setprofile(None)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize(
    "run", [lambda item: item.function.run_trace(*item.inputs), trace_in_queues]
)
@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("is_even", [programs.plain_is_even, programs.plain_is_odd]),
        pytest.param(
            "mutual_in_arguments",
            [programs.plain_stern, programs.plain_hofstadter],
            marks=pytest.mark.slow,
        ),
        pytest.param("fib", [programs.plain_fib], marks=pytest.mark.slow),
        pytest.param("ackermann", [programs.plain_ackermann], marks=pytest.mark.many),
        pytest.param("takeuchi", [programs.plain_takeuchi], marks=pytest.mark.slow),
    ],
)
def test_calls_at_each_depth_are_those_of_plain_python(name, functions, run):
    (program,) = [item for item in PROGRAMS if item.name == name]
    trace = run(program)
    found = Counter()
    for step in trace.waves:
        found[(step.function, step.depth)] += step.tokens
    expected = plain_calls(program, *functions)
    assert trace.max_depth == 1 + max(depth for _, depth in expected)
    if program.num_rounds > 1:  # Tokens of several depths run together.
        found, expected = by_function(found), by_function(expected)
    assert found == expected
    assert trace.parallelism == expected.total() / len(trace.waves)


def by_function(calls):
    """Calls at all depths."""
    found = Counter()
    for (function, _), count in calls.items():
        found[function] += count
    return found


def test_steps_are_in_the_order_of_the_run():
    """Down the tree, leaves for all at once, up the tree."""
    trace = programs.tree_rnn.run_trace([0, 7, 4])
    assert [(step.step, step.stage, step.depth) for step in trace.steps] == [
        (0, "loop 0", 0),
        (1, "loop 0", 1),
        (2, "loop 0", 2),
        (3, "loop 0", 3),
        (4, "hoisted 0", None),
        (5, "loop 1", 3),
        (6, "loop 1", 2),
        (7, "loop 1", 1),
        (8, "loop 1", 0),
    ]
    assert [step.tokens for step in trace.steps[:5]] == [3, 4, 2, 2, 11]
    assert trace.steps[4].fired == {
        "tree_rnn/cond/true/GatherV2": 7,
        "tree_rnn/cond/true/GatherV2_1": 7,
    }


@pytest.mark.slow
def test_functions_of_one_depth_share_a_step():
    trace = programs.both_users.run_trace([0.3, 5.1])
    assert [step.function for step in trace.steps if step.step == 1] == ["left_user", "right_user"]


@pytest.mark.slow
def test_a_chain_of_ten_thousand_calls():
    trace = programs.chain.run_trace([0.5, 3.0], [10_000, 17])
    assert (trace.num_calls, len(trace.waves), trace.max_depth) == (10_019, 10_001, 10_001)
    text = str(trace).splitlines()
    assert len(text) < 50
    assert "... 19,962 lines are left out ..." in text


@pytest.mark.many
def test_no_tokens_at_all():
    trace = fib().run_trace(np.zeros([0], np.int32))
    assert (trace.steps, trace.num_calls, trace.parallelism) == ([], 0, 0.0)
    assert "fib: 0 calls in 0 waves and 0 steps, 0 deep" in str(trace)


@pytest.mark.many
def test_prints_a_table():
    assert_golden("fib_run", str(fib().run_trace([2, 3])))


def test_summary_of_several_functions_counts_each():
    assert "calls by function: is_even 3, is_odd 2" in programs.is_even.run_trace(4).summary()


@pytest.mark.slow
def test_a_program_that_runs_on_another_engine_is_traced_by_waves():
    trace = programs.ackermann.run_trace([2, 2], [3, 3])
    assert (trace.num_calls, trace.max_parallelism) == (88, 2)
    assert "this run went in waves; ordinary ones do not (engine: scalar" in trace.summary()
    assert "ordinary" not in programs.tree_rnn.run_trace(0).summary()


def test_plain_data():
    found = json.loads(json.dumps(fib().run_trace(4).to_dict()))
    assert found["name"] == "fib"
    assert found["calls"] == {"fib": 9}
    assert found["fired"]["fib/cond/false/AddV2"] == 4
    assert found["steps"][0]["fired"]["fib/cond/false/CALL_0"] == 1


@pytest.mark.many
def test_other_numbers_of_tokens_trace_nothing_anew(monkeypatch):
    function = fib()
    function.run_trace(4)
    monkeypatch.delattr(ScheduleRun, "forward")
    assert function.run_trace([4, 5]).num_calls == 9 + 15


@pytest.mark.many
def test_a_run_that_is_too_deep_says_so():
    @kerasrec.recursive(max_depth=50)
    def down(n):
        return kerasrec.cond(n == 0, lambda: n, lambda: down(n - 1))

    with pytest.raises(tf.errors.InvalidArgumentError, match="deeper than max_depth=50"):
        down.run_trace(50)
    assert down.run_trace(49).max_depth == 50


def test_not_while_a_graph_is_built():
    function = fib()
    with pytest.raises(kerasrec.TraceError, match=r"fib.run_trace.* outside of tf.function"):
        tf.function(lambda: function.run_trace(3).num_calls, autograph=False)()
