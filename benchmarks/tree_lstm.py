"""Trees a second of a binary TreeLSTM: kerasrec beside what a user would write instead.

    python -m benchmarks.tree_lstm

prints one table. Every ratio in it is of times taken in the same run, in turns.
"""

import argparse
import json
import statistics
import time

import numpy as np
import tensorflow as tf

from benchmarks import report
from benchmarks.model import WEIGHT_NAMES, initial_values
from benchmarks.peers import PEERS
from benchmarks.trees import (
    NUM_WORDS,
    Batch,
    count_words,
    height,
    make_batches,
    random_trees,
    read_trees,
)

NUM_FEATURES = 300
NUM_TREES = 256
# Eager code takes seconds for what the others do in milliseconds.
NUM_EAGER_TREES = 10
TOLERANCE = 1e-4


def main():
    arguments = parse_arguments()
    num_trees = max(NUM_TREES, *arguments.batch)
    if arguments.data is None:
        trees = random_trees(num_trees)
    else:
        trees = read_trees(arguments.data, num_trees)
    num_words = max(NUM_WORDS, *(1 + int(tree.tokens.max()) for tree in trees))
    values = initial_values(num_words, NUM_FEATURES, arguments.units)
    peers = {name: peer(values) for name, peer in PEERS.items()}

    # The same trees for every batch size, but for what does not fill a batch.
    batches = {batch_size: make_batches(trees, batch_size) for batch_size in arguments.batch}
    for batch_size in arguments.batch:
        check_agreement(peers, batches[batch_size][0])

    rows = []
    for mode in ("training", "inference"):
        for batch_size in arguments.batch:
            seconds = time_peers(peers, batches[batch_size], mode, arguments)
            rows.append({"mode": mode, "batch": batch_size, **summary(seconds)})

    description = describe(arguments, trees)
    print(report.line(description))
    print()
    print_rows(rows)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**description, "rows": rows}, file, indent=1)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, default=150)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 10, 25, 64, 256])
    parser.add_argument("--repeats", type=int, default=7, help="timed turns of each peer")
    parser.add_argument("--data", metavar="DIR", help="read trees from DIR/train.txt, as in SST")
    parser.add_argument("--json", metavar="FILE", help="write the table there, too")
    parser.add_argument(
        "--no-optimizer", action="store_true", help="training stops at the gradients"
    )
    return parser.parse_args()


def eager_batches(batches):
    """About NUM_EAGER_TREES trees of these batches."""
    batches = batches[: max(1, NUM_EAGER_TREES // batches[0].num_trees)]
    return [Batch(*(array[:NUM_EAGER_TREES] for array in batch)) for batch in batches]


def check_agreement(peers, batch):
    """Raises unless all peers that compute the model have the eager loss and gradients."""
    expected = None
    for name, peer in peers.items():
        if name == "dense limit":  # Its child states are random.
            continue
        loss, gradients = peer.gradients(*peer.inputs(batch))
        computed = dict(zip(("loss", *WEIGHT_NAMES), (loss, *gradients), strict=True))
        computed = {key: np.asarray(value) for key, value in computed.items()}
        expected = expected or computed
        for key, value in computed.items():
            error = np.max(np.abs(value - expected[key])) / np.max(np.abs(expected[key]))
            if not error < TOLERANCE:
                raise ValueError(
                    f"{name} computes another {key} than eager code: the largest difference is "
                    f"{error:.1e} of the largest value, {TOLERANCE:.0e} is allowed."
                )


def time_peers(peers, batches, mode, arguments):
    """Seconds a tree, `{peer: [one for each repeat]}`; the peers take turns."""
    num_nodes = sum(batch.num_nodes for batch in batches)
    nodes_per_tree = num_nodes / sum(batch.num_trees for batch in batches)
    steps = {}
    for name, peer in peers.items():
        run = batches if name != "eager" else eager_batches(batches)
        inputs = [peer.inputs(batch) for batch in run]
        # Eager code runs only some of the trees: time a node, then nodes a tree.
        num_trees = sum(batch.num_nodes for batch in run) / nodes_per_tree
        function = peer.logits
        if mode == "training":
            function = peer.gradients if arguments.no_optimizer else peer.train
        function(*inputs[0])  # Traces.
        steps[name] = function, inputs, num_trees

    seconds = {name: [] for name in steps}
    for repeat in range(1 + arguments.repeats):
        for name, (function, inputs, num_trees) in steps.items():
            start = time.perf_counter()
            for batch_inputs in inputs:
                function(*batch_inputs)
            tf.test.experimental.sync_devices()
            if repeat > 0:  # The first turn warms up.
                seconds[name].append((time.perf_counter() - start) / num_trees)
    return seconds


def summary(seconds):
    """Trees a second of each peer and ratios of times, medians over the repeats."""
    row = {f"{name} trees/s": 1 / statistics.median(times) for name, times in seconds.items()}
    for name in ("dense limit", "iterative", "eager"):
        ratios = [
            ours / theirs for ours, theirs in zip(seconds["kerasrec"], seconds[name], strict=True)
        ]
        row[f"kerasrec time / {name}"] = statistics.median(ratios)
    return row


def print_rows(rows):
    columns = {
        "": lambda row: row["mode"],
        "batch": lambda row: row["batch"],
        **{
            f"{name}, trees/s": lambda row, name=name: f"{row[f'{name} trees/s']:,.0f}"
            for name in PEERS
        },
        "time / dense limit": lambda row: f"{row['kerasrec time / dense limit']:.2f}",
        "speed-up over iterative": lambda row: f"{1 / row['kerasrec time / iterative']:.1f}",
        "speed-up over eager": lambda row: f"{1 / row['kerasrec time / eager']:.0f}",
    }
    report.print_table(columns, rows)


def describe(arguments, trees):
    """What was run and on what."""
    return {
        "units": arguments.units,
        "optimizer": "none" if arguments.no_optimizer else "Adagrad",
        "repeats": arguments.repeats,
        "trees": len(trees),
        "mean words": round(statistics.mean(map(count_words, trees)), 1),
        "max words": max(map(count_words, trees)),
        "mean height": round(statistics.mean(map(height, trees)), 1),
        **report.machine(),
    }


if __name__ == "__main__":
    main()
