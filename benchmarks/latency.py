"""How long one tree takes to predict, by way of calling.

    python -m benchmarks.latency

prints a table in milliseconds: half of all calls take at most p50, and 99 of 100 at most p99. Ways
take turns. "First" is the longest first call, which traces or compiles. The last way is a bound: a
loop over the levels of trees, which was written for this TreeLSTM and which XLA compiles. Finding
the levels is not timed.
"""

import argparse
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

from benchmarks import report
from benchmarks.baselines.tensorflow_xla import TensorFlowXla
from benchmarks.batch import NUM_CLASSES, Batch
from benchmarks.model import initial_values
from benchmarks.start_cases import NUM_FEATURES, Attending
from benchmarks.trees import NUM_WORDS, random_trees
from kerasrec import layers

TREE_LSTM = "TreeLSTM, 150 units"
LAYERS = {
    TREE_LSTM: lambda **options: layers.TreeLSTM(150, **options),
    "own cell, 64 units": lambda **options: layers.Recursive(Attending(64), **options),
}
COLUMNS = {
    "": lambda row: f"{row['model']}: {row['way']}",
    "first": lambda row: report.short(row["first"]),
    "p50": lambda row: report.short(np.percentile(row["times"], 50)),
    "p99": lambda row: report.short(np.percentile(row["times"], 99)),
}


def make_model(layer):
    """A model of the classes of roots."""
    words = keras.Input([None], dtype="int32", name="words")
    children = keras.Input([None, 2], dtype="int32", name="children")
    embedding = keras.layers.Embedding(NUM_WORDS, NUM_FEATURES)
    roots = LAYERS[layer](embedding=embedding)(words, children)
    return keras.Model([words, children], keras.layers.Dense(NUM_CLASSES)(roots))


def make_ways(model, folder):
    """By name, functions of the words and the children of one tree."""
    signature = [tf.TensorSpec(x.shape, x.dtype, x.name) for x in model.inputs]
    compiled = keras.Model(model.inputs, layers.JitCompiled(model)(model.inputs))
    return {
        "`model.predict`": lambda *inputs: model.predict(list(inputs), verbose=0),
        "`model(...)`": lambda *inputs: model(list(inputs)),
        "`tf.function`": tf.function(lambda *inputs: model(list(inputs)), signature),
        "SavedModel": served(model, f"{folder}/model"),
        "SavedModel of `JitCompiled`": served(compiled, f"{folder}/compiled"),
    }


def served(model, folder):
    """A function that calls the export of a model."""
    model.export(folder, verbose=False)
    loaded = tf.saved_model.load(folder)

    def call(words, children):  # `loaded.serve` is traced for each size.
        return loaded.signatures["serving_default"](words=words, children=children)["output_0"]

    return call


def loop_by_hand():
    """A function of the words and the children of one tree; its first call finds the levels."""
    program = TensorFlowXla("TreeLSTM", initial_values("TreeLSTM", NUM_WORDS, 150))
    inputs = {}

    def call(words, children):
        tree = words.tobytes(), children.tobytes()
        if tree not in inputs:
            inputs[tree] = program.inputs(Batch(words, children, np.zeros_like(words)))
        return program.logits(*inputs[tree])

    return call


def rows_of(layer, trees, repeats):
    """For each way: `first`, the longest first call, and `times` of all other calls, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        ways = make_ways(make_model(layer), folder)
        if layer == TREE_LSTM:
            ways["a loop by hand, with XLA"] = loop_by_hand()
        rows = [{"model": layer, "way": way, "times": []} for way in ways]
        for turn in range(1 + repeats):
            for row in rows:
                found = [milliseconds(ways[row["way"]], tree) for tree in trees]
                if turn:
                    row["times"] += found
                else:
                    row["first"] = max(found)
    return rows


def milliseconds(way, tree):
    """Of one call, until its result is in NumPy."""
    start = time.perf_counter()
    np.asarray(way(tree.tokens[None], tree.children[None]))
    return 1000 * (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=10, help="timed turns of each")
    options = parser.parse_args()
    print(f"{report.line(report.machine())}\n")
    trees = random_trees(options.trees)
    rows = (row for layer in LAYERS for row in rows_of(layer, trees, options.repeats))
    report.print_table(COLUMNS, rows)


if __name__ == "__main__":
    main()
