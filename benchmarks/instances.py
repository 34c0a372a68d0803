"""A training step with two instances of a cell compared with the same step with one.

    python -m benchmarks.instances
    TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 \
        python -m kerasrec.training.local_cluster --workers 2 --ps 1 -- \
        python -m benchmarks.instances

The first runs on two logical devices of this process, the second on two workers of a cluster on
this machine. The model is a TreeLSTM; the loss reads all tree nodes. One and two instances take
turns, and the ratio is the median over turns.
"""

import argparse
import os
import statistics
import time

import numpy as np
import tensorflow as tf

import kerasrec
from benchmarks import devices
from benchmarks.report import print_table, short

COLUMNS = {
    "trees": lambda row: f"{row['batch']}",
    "nodes of each": lambda row: f"{row['nodes']:,}",
    "one, s": lambda row: short(row["one"]),
    "two, s": lambda row: short(row["two"]),
    "one / two": lambda row: f"{row['ratio']:.2f}",
}
FEATURES = 300


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, default=150)
    parser.add_argument("--heights", type=int, nargs="+", default=[8, 11])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    is_cluster = "TF_CONFIG" in os.environ
    first, second = devices.of_workers() if is_cluster else devices.of_this_process()
    layers = {
        "one": layer(arguments.units, [first]),
        "two": layer(arguments.units, [first, second]),
    }
    sizes = [(height, batch) for height in arguments.heights for batch in arguments.batch]
    print_table(COLUMNS, (timed(layers, *size, first, arguments.repeats) for size in sizes))


def layer(units, devices):
    return kerasrec.layers.TreeLSTM(units, return_sequences=True, seed=1, devices=devices)


def complete_trees(height, batch):
    """Children of complete binary trees, `[batch, nodes, 2]`."""
    nodes, inner = 2 ** (height + 1) - 1, 2**height - 1
    children = np.full([nodes, 2], -1, np.int32)
    children[:inner] = np.arange(1, nodes).reshape([inner, 2])
    return np.tile(children, [batch, 1, 1])


def timed(layers, height, batch, device, repeats):
    """Seconds per step of each layer, and their ratio."""
    with tf.device(device):
        children = tf.constant(complete_trees(height, batch))
        x = tf.random.stateless_normal([*children.shape[:2], FEATURES], [1, 2])
        steps = {name: step_of(one, x, children) for name, one in layers.items()}
        layers["two"].set_weights(layers["one"].get_weights())
        results = [[tensor.numpy() for tensor in step()] for step in steps.values()]
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, 1e-3, 1e-3 * np.abs(wanted).max())
    seconds = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            step()[0].numpy()
            seconds[name].append(time.perf_counter() - start)
    ratios = [one / two for one, two in zip(*seconds.values(), strict=True)]
    medians = {name: statistics.median(of) for name, of in seconds.items()}
    nodes = children.shape[1]
    return {"batch": batch, "nodes": nodes, **medians, "ratio": statistics.median(ratios)}


def step_of(one, x, children):
    """Loss and gradients, as a function without arguments that TensorFlow has traced."""
    one(x[:1], children[:1])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(one(x, children, training=True) ** 2)
        return [loss, *tape.gradient(loss, one.trainable_weights)]

    return step


if __name__ == "__main__":
    main()
