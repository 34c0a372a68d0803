"""Recursive functions with a graph on two devices, for `benchmarks.papers.placed`.

    python -m benchmarks.papers.placed_program WHERE REPEATS

prints, as JSON, the result of each call, its median seconds, and the number of messages that
devices send each other.
"""

import collections
import json
import statistics
import sys
import time

import tensorflow as tf

import kerasrec
from benchmarks import devices

WORKERS = "two workers"
CALLS = {"factorial": (5, 10), "fib": (5, 10, 20)}


def main(where, repeats):
    functions = define(*places(where))
    found = {}
    for name, arguments in CALLS.items():
        for n in arguments:
            seconds = []
            # The first call compiles.
            for _ in range(1 + repeats):
                start = time.perf_counter()
                result = functions[name](tf.constant(n)).numpy()
                seconds.append(time.perf_counter() - start)
            sent = messages(functions[name], n, devices.server() if where == WORKERS else "")
            found[f"{name}({n})"] = int(result), statistics.median(seconds[1:]), sent
    print(json.dumps(found))


def messages(function, n, target):
    """The number of messages between devices in a call, as TensorFlow traces it.

    Args:
        function: The function.
        n: Its argument.
        target: The address of a server of a cluster; empty for this process.
    """
    v1 = tf.compat.v1
    traced = tf.function(function).get_concrete_function(tf.TensorSpec([], tf.int32))
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(traced.graph.as_graph_def(), name="")
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = v1.RunMetadata()
    with v1.Session(target, graph=graph, config=v1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(traced.outputs[0].name, {traced.inputs[0].name: n}, options, metadata)
    # The trace leaves messages out, but has the tensors that they carry.
    stats = (node for device in metadata.step_stats.dev_stats for node in device.node_stats)
    ran = collections.Counter(node.node_name for node in stats)
    nodes = (node for part in metadata.partition_graphs for node in part.node)
    sends = (node for node in nodes if node.op in ("_Send", "_HostSend"))
    return sum(ran[send.input[0].partition(":")[0]] for send in sends)


def places(where):
    """Two names; None leaves the place to TensorFlow."""
    if where == WORKERS:
        return devices.of_workers()
    return devices.of_this_process() if where == "two devices" else (None, None)


def define(first, second):
    """factorial as Kostopoulou (2018), annex A, places it, and fib in the same way."""

    def on(device, function):
        with tf.device(device):
            return function()

    @kerasrec.recursive(engine="waves")
    def factorial(n):
        def more():
            rest = factorial(on(second, lambda: n - 1))
            return on(second, lambda: n * rest)

        is_last = on(second, lambda: n <= 1)
        return kerasrec.cond(is_last, lambda: on(first, lambda: tf.ones_like(n)), more)

    @kerasrec.recursive(engine="waves")
    def fib(n):
        def more():
            rest = fib(on(second, lambda: n - 1)), fib(on(second, lambda: n - 2))
            return on(second, lambda: rest[0] + rest[1])

        is_last = on(second, lambda: n <= 1)
        return kerasrec.cond(is_last, lambda: on(first, lambda: tf.ones_like(n)), more)

    return {"factorial": factorial, "fib": fib}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
