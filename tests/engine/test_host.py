"""With a GPU, ops on integers are placed on the host; here one CPU stands for the GPU."""

import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src import host
from tests.engine.helpers import assert_same, run_lowered, run_plain, traced
from tests.programs import each


def operations(program):
    """The ops of a run, including those of its loops and branches."""
    run = traced(program, engine="waves")
    graph = run.get_concrete_function(*map(tf.constant, program.flat_inputs)).graph
    functions = graph.as_graph_def().library.function
    return [node for function in functions for node in function.node_def]


@pytest.mark.slow
@each(few=["tree_rnn"], many=[])
def test_values_and_gradients(program, a_gpu):
    assert_same(run_lowered(program, engine="waves"), run_plain(program))


@each(lambda program: program.name in ("tree_rnn", "ackermann"))
def test_no_comparison_of_integers_is_left_to_the_gpu(program, a_gpu):
    on_host = {"LogicalAnd", "LogicalOr", "LogicalNot", "DynamicPartition"}
    found = [node for node in operations(program) if node.op in on_host]
    assert found
    of_integers = [node for node in found if node.attr["T"].type in (0, tf.int32.as_datatype_enum)]
    assert {node.device for node in of_integers} == {host.HOST}


def test_without_a_gpu_nothing_is_placed():
    with tf.Graph().as_default(), host.integers_on_host():
        assert not tf.range(3).op.device


@pytest.mark.many
def test_an_op_with_a_device_keeps_it(a_gpu):
    with tf.Graph().as_default(), host.integers_on_host():
        with tf.device("/device:CPU:1"):
            assert tf.range(3).op.device == "/device:CPU:1"
        assert tf.range(3).op.device == host.HOST
        assert not tf.random.uniform([3]).op.device


def test_the_plan_says_what_is_faster_on_a_gpu(monkeypatch):
    @kerasrec.recursive
    def halved(x):
        return kerasrec.cond(x[:, 0] < 1.0, lambda: x, lambda: halved(0.5 * x))

    @kerasrec.recursive
    def asserted(x):
        tf.debugging.assert_less(x, 9.0)
        return kerasrec.cond(x[:, 0] < 1.0, lambda: x, lambda: asserted(0.5 * x))

    x, compiled = tf.ones([1, 2]), "on a GPU, engine='compiled' is faster"
    assert compiled not in halved.execution_plan(x).summary
    monkeypatch.setattr(host, "has_gpu", lambda: True)
    halved.clear_cache()
    assert compiled in halved.execution_plan(x).summary
    assert compiled not in asserted.execution_plan(x).summary
