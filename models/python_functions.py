"""A property of Python functions that depends on their structure, learned from syntax trees.

    python models/python_functions.py --seeds 1 2 3

The data are the functions of Python's own standard library that have a loop and a `return`. Does
one return from within a loop? A bag of tokens does not say; a syntax tree does. Both models see the
same functions, and are tested on functions of other modules. Names are not read: a tree node is the
class of its node. A picture shows what the model says of the statements of a function.
"""

import argparse
import ast
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from comparison import Run, report
from exporting import RAGGED_TREES, export
from kerasrec.datasets import tree_batches
from kerasrec.layers import ChildSumTreeLSTM
from standard_library import Example, examples
from syntax_trees import KINDS, draw, encoded


def tree_model(units: int) -> keras.Model:
    """From a batch of trees to logits."""
    kinds = keras.Input([None], dtype="int32", ragged=True)
    children = keras.Input([None, None], dtype="int32", ragged=True)
    embedding = keras.layers.Embedding(len(KINDS) + 1, units)
    states = ChildSumTreeLSTM(units, embedding=embedding)(kinds, children)
    return keras.Model([kinds, children], keras.layers.Dense(2)(states))


def fitted(model: keras.Model, batches: Any, tests: Any, epochs: int) -> dict[str, float]:
    """Trains a model; how many tests it answers right, and seconds."""
    start = time.perf_counter()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.005), loss, metrics=["accuracy"])
    model.fit(batches, epochs=epochs, verbose=0)
    seconds = time.perf_counter() - start
    return {
        "accuracy, %": 100 * model.evaluate(tests, verbose=0)[1],
        "seconds": seconds,
    }


def run(options: argparse.Namespace, found: list[Example], seed: int) -> Run:
    """Trains both models with a seed."""
    keras.utils.set_random_seed(seed)
    modules = sorted({module for module, *_ in found})
    tested = set(np.random.default_rng(0).permutation(modules)[: len(modules) // 5])
    train = [(tree, label) for module, tree, label in found if module not in tested]
    test = [(tree, label) for module, tree, label in found if module in tested]

    trees = tree_model(options.units)
    batches = tree_batches([encoded(*item) for item in train], 16, True, seed, ragged=True)
    tests = tree_batches([encoded(*item) for item in test], 64, ragged=True)
    rows = {"syntax tree": fitted(trees, batches, tests, options.epochs)}
    trees.save(options.output / "model.keras")
    export(trees, RAGGED_TREES, options.output / "export")
    shown = next(tree for tree, label in test if label and len(list(ast.walk(tree))) < 90)
    draw(trees, shown, options.output / "function.png")

    words = keras.layers.TextVectorization(10_000, output_mode="tf_idf", split=split_tokens)
    words.adapt([ast.unparse(tree) for tree, _ in train])
    batches, tests = (
        tf.data.Dataset.from_tensor_slices(
            (words([ast.unparse(tree) for tree, _ in part]), [int(label) for _, label in part])
        )
        for part in (train, test)
    )
    bag = keras.Sequential([keras.layers.Dense(64, "relu"), keras.layers.Dense(2)])
    batches = batches.shuffle(len(train), seed).batch(16)
    rows["bag of tokens"] = fitted(bag, batches, tests.batch(64), options.epochs)
    share = float(np.mean([label for _, label in test]))
    rows["the commoner answer"] = {"accuracy, %": 100 * max(share, 1 - share)}
    print(f"{len(train)} functions to train on, {len(test)} to test on", flush=True)
    return rows


@keras.saving.register_keras_serializable("models")
def split_tokens(sources: Any) -> Any:
    """Words, and every other sign by itself."""
    return tf.strings.split(tf.strings.regex_replace(sources, r"(\W)", r" \1 "))


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Learn a property of Python functions from their syntax trees.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(sysconfig.get_path("stdlib")),
        help="folder with Python files",
    )
    parser.add_argument("--most-nodes", type=int, default=500, help="of a function")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--output", type=Path, default=Path("runs/python_functions"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Trains with each seed and returns the figures."""
    options = parse_options(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    found = examples(options.data, options.most_nodes)
    runs = [run(options, found, seed) for seed in options.seeds]
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
