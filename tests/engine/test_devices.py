"""`tf.device` inside of a recursive function: its ops run there, with the same values."""

import collections

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.training.clusters import run_on_cluster

FIRST, SECOND = "/CPU:0", "/CPU:1"
X = np.array([3.0, 1.0, 5.0], np.float32)


def factorial(engine, rest_on=FIRST, product_on=SECOND):
    @kerasrec.recursive(engine=engine)
    def factorial(n):
        def more():
            with tf.device(rest_on):
                smaller = n - 1.0
            rest = factorial(smaller)
            with tf.device(product_on):
                return n * rest

        return kerasrec.cond(n < 1.0, lambda: 1.0, more)

    return factorial


WORDS = np.array([1, 2, 3, 4, 5], np.int32)
CHILDREN = np.array([[-1, -1], [-1, -1], [-1, -1], [0, 1], [3, 2]], np.int32)


def tree_model(table_on, cell_on):
    """Leaves' vectors, in one place, put together by a layer, in another."""
    rng = np.random.default_rng(0)
    with tf.device(table_on):
        table = tf.Variable(rng.normal(size=[7, 3]), dtype=tf.float32)
    with tf.device(cell_on):
        kernel = tf.Variable(rng.normal(size=[3, 3]), dtype=tf.float32)

    @kerasrec.recursive
    def state(node):
        below = tf.gather(CHILDREN, node)

        def leaf():
            with tf.device(table_on):
                return tf.gather(table, tf.gather(WORDS, node))

        def inner():
            left, right = state(below[:, 0]), state(below[:, 1])
            with tf.device(cell_on):
                return tf.tanh((left + right) @ kernel)

        return kerasrec.cond(below[:, 0] < 0, leaf, inner)

    return state, [table, kernel]


def with_gradients(function, argument, variables):
    """A function's results and gradients, all dense."""
    with tf.GradientTape() as tape:
        y = function(argument)
    return [y, *map(tf.convert_to_tensor, tape.gradient(y, variables))]


@pytest.mark.slow
def test_values_and_gradients():
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = factorial("auto")(x)
    np.testing.assert_allclose(y, [6, 1, 120])
    np.testing.assert_allclose(tape.gradient(y, x), [11, 1, 274])


def traced_run(function, x, target=""):
    """TensorFlow's own trace of a run: its partitions, and what ran on which device.

    Args:
        function: that reads no variables.
        x: its argument, `[tokens]`.
        target: the address of a server of a cluster; without one, two devices of this process.
    """
    v1, x = tf.compat.v1, np.asarray(x)
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([None], x.dtype))
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(concrete.graph.as_graph_def(), name="")
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = v1.RunMetadata()
    with v1.Session(target, graph=graph, config=v1.ConfigProto(device_count={"CPU": 2})) as session:
        outputs = [output.name for output in concrete.outputs]
        session.run(outputs, {concrete.inputs[0].name: x}, options, metadata)
    return metadata


def ran_on(function, x):
    """By device, the ops of its partition, and those that ran, with how often."""
    metadata = traced_run(function, x)
    partitions = {
        _short(part.node[0].device): collections.Counter(node.op for node in part.node)
        for part in metadata.partition_graphs
    }
    types = types_of(metadata)
    ran = {
        _short(device.device): collections.Counter(
            types[node.node_name] for node in device.node_stats if node.node_name in types
        )
        for device in metadata.step_stats.dev_stats
    }
    return partitions, ran


def types_of(metadata):
    """The op of each node, by name."""
    return {node.name: node.op for part in metadata.partition_graphs for node in part.node}


def _short(device):
    return device.rpartition("device:")[2]


def test_the_scalar_engine_has_one_device():
    with pytest.raises(kerasrec.TraceError, match=r"is to run .* on /device:CPU:"):
        factorial("scalar")(X)


@pytest.mark.slow
def test_ops_run_where_they_should():
    _, whole = ran_on(factorial("auto", product_on=FIRST), X)
    assert not whole.get("CPU:1")
    partitions, parts = ran_on(factorial("auto"), X)
    assert parts["CPU:1"]["Mul"] == 6  # a wave for each level of the longest call, and an empty one
    assert {"_Send", "_Recv"} <= set(partitions["CPU:1"])
    assert parts["CPU:0"]["Mul"] == whole["CPU:0"]["Mul"] - 6
    assert not parts["CPU:1"]["Sub"]


@pytest.mark.slow
def test_a_table_on_one_device_and_cells_on_another():
    apart, together = tree_model(SECOND, FIRST), tree_model(FIRST, FIRST)
    assert apart[1][0].device.endswith("CPU:1")
    runs = [with_gradients(model, 4, variables) for model, variables in (apart, together)]
    for found, expected in zip(*runs, strict=True):
        np.testing.assert_allclose(found, expected, 1e-6)
    on_second = [
        line for line in str(apart[0].extended_graph(4)).splitlines() if "on /device:CPU:1" in line
    ]
    assert any("Gather" in line for line in on_second)
    assert not any("MatMul" in line for line in on_second)


@pytest.mark.slow
def test_where_a_function_is_traced_is_not_where_it_runs():
    @kerasrec.recursive
    def countdown(n):
        return kerasrec.cond(n < 1.0, lambda: n, lambda: countdown(n - 1.0))

    with tf.device(SECOND):
        assert countdown(3.0) == 0.0
        assert " on " not in str(countdown.function_graphs(3.0))


def test_loops_are_on_the_worker_of_most_ops():
    """Each turn of a loop elsewhere would send messages for each op."""
    first, second = (f"/job:worker/task:{task}/device:CPU:0" for task in (0, 1))

    @kerasrec.recursive
    def scaled(n):
        def more():
            with tf.device(first):
                smaller = n - 1.0
            with tf.device(second):
                return scaled(tf.maximum(smaller, 0.0)) * n

        return kerasrec.cond(n < 1.0, lambda: 1.0, more)

    traced = tf.function(scaled).get_concrete_function(tf.TensorSpec([None], tf.float32))
    functions = traced.graph.as_graph_def().library.function
    bodies = [body for body in functions if "_loop_body" in body.signature.name]
    tasks = collections.Counter(
        tf.DeviceSpec.from_string(node.device).task for body in bodies for node in body.node_def
    )
    assert tasks.pop(0) == 2  # the subtraction and its constant
    assert list(tasks) == [1] and len(bodies) == 2


@pytest.mark.slow
def test_across_the_tasks_of_a_cluster():
    """The factorial over two workers (the 2018 thesis, annex A), and a table far from its cells."""
    from tests.engine import across_tasks

    ended = run_on_cluster(["--workers", "2", "--ps", "1"], ["-m", "tests.engine.across_tasks"])
    assert ended.returncode == 0, ended.errors[-3000:]
    expected = across_tasks.results(FIRST, FIRST)
    for name, values in expected.items():
        for found, wanted in zip(ended.results[0][name], values, strict=True):
            np.testing.assert_allclose(found, wanted, 1e-6, err_msg=name)
