"""The time of a training step, or of inference, by part of the engine; also of the dense limit.

    python -m benchmarks.profile
    TF_NUM_INTRAOP_THREADS=1 python -m benchmarks.profile --by-op

TensorFlow's profiler times the ops that it counts as expensive; the engine names them after the
section of the schedule that they belong to. Work of two threads at one time counts twice. The last
row is the time in which none of these ops runs: the executor's work on cheap ones, and the call. An
empty `tf.function` is timed as well. Ops that take far less time with one thread per op wait for
their other threads.
"""

import collections
import glob
import re
import tempfile
import time

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.baselines import baseline_class
from benchmarks.one_step import add_mode, parser_of, values_and_batches

PARTS = {
    "trees": "tree tables and their checks",
    "leaves_of_words": "leaves, once for each word, and their gradients",
    "stage_0_loop": "down: children of every wave",
    "stage_0_hoisted": "states of leaves",
    "stage_1_loop": "up: inner nodes, wave by wave",
    "stage_1_hoisted": "outputs of all nodes",
    "stage_2_hoisted": "their cotangents",
    "stage_3_loop": "down: cotangents of states",
    "stage_3_hoisted": "gradients of weights",
}
# Lines of a table.
NUM_OPS = 20


def main():
    parser = parser_of(__doc__)
    add_mode(parser)
    parser.add_argument("--by-op", action="store_true", help="by op, not by part")
    parser.add_argument("--data", metavar="DIR", help="read trees from DIR/train.txt, as in SST")
    arguments = parser.parse_args()
    model, mode = arguments.model, arguments.mode
    values, batches = values_and_batches(arguments, arguments.data)
    for name in ("kerasrec", "dense limit"):
        baseline = baseline_class(name)(model, values)
        inputs = [baseline.inputs(batch) for batch in batches]
        function = baseline.train if mode == "training" else baseline.logits
        report(name, function, inputs, arguments.by_op)
    inputs = [tuple(map(tf.constant, batch)) for batch in batches]
    empty = tf.function(lambda *inputs: inputs[0])
    run(empty, inputs)
    print(f"\nAn empty tf.function: {1e3 * run(empty, inputs) / len(inputs):.2f} ms per batch")


def report(name, function, inputs, by_op):
    """Prints milliseconds per batch by part, or of the ops that take most."""
    for _ in range(2):
        run(function, inputs)
    seconds = run(function, inputs)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        profiled = run(function, inputs)
        tf.profiler.experimental.stop()
        found = sorted(ops(folder), key=lambda op: op[1])
    times, busy, last = collections.Counter(), 0.0, 0.0
    for op, start, end in found:
        times[("all", op.rsplit(":", 1)[1]) if by_op else part_of(op)] += end - start
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    print(f"\n{name}: {1e3 * seconds / len(inputs):.2f} ms per batch\n")
    print("| part | ops | ms per batch |\n| --- | --- | ---: |")
    for (part, ops_of_part), duration in times.most_common(NUM_OPS):
        print(f"| {part} | {ops_of_part} | {duration / len(inputs):.2f} |")
    print(f"| cheap ops, executor and call | | {(1e3 * profiled - busy) / len(inputs):.2f} |")


def part_of(op):
    """The part that an op belongs to, and whether it is a product."""
    part = re.search("|".join(PARTS), op)
    product = "products" if "MatMul" in op.rsplit(":", 1)[1] else "other ops"
    return PARTS[part[0]] if part else "outside the tree layer", product


def run(function, inputs):
    """Seconds for all batches."""
    start = time.perf_counter()
    for batch_inputs in inputs:
        function(*batch_inputs)
    return time.perf_counter() - start


def ops(folder):
    """Name, and first and last millisecond, of each op that the profiler has timed."""
    (path,) = glob.glob(f"{folder}/plugins/profile/*/*.xplane.pb")
    space = xplane_pb2.XSpace()
    with open(path, "rb") as file:
        space.ParseFromString(file.read())
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                if re.fullmatch(r"[^:]+:\w+", name):
                    start = line.timestamp_ns / 1e6 + event.offset_ps / 1e9
                    yield name, start, start + event.duration_ps / 1e9


if __name__ == "__main__":
    main()
