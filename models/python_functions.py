"""A property of Python functions that depends on their structure, learned from syntax trees.

    python models/python_functions.py --seeds 1 2 3

The data are the functions of Python's standard library that have a loop and a `return`. Does one
return from inside a loop? A bag of tokens does not show it; a syntax tree does. Both models see the
same functions, and are tested on functions of other modules. Names are not read: a tree node is the
class of its node. A picture shows the model's predictions for the statements of a function.
"""

import ast
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from bag_of_tokens import bag_of_tokens
from comparison import Run, report
from exporting import RAGGED_TREES
from kerasrec.layers import ChildSumTreeLSTM
from recipe_options import parse, recipe_parser
from saving import save_and_export
from standard_library import read
from syntax_trees import KINDS, batches, draw


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
    return {"accuracy, %": 100 * model.evaluate(tests, verbose=0)[1], "seconds": seconds}


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Trains both models with each seed and returns the figures."""
    parser = recipe_parser("python_functions")
    library = Path(sysconfig.get_path("stdlib"))
    parser.add_argument("--data", type=Path, default=library, help="a folder of Python files")
    parser.add_argument("--most-nodes", type=int, default=500, help="of a function")
    parser.add_argument("--units", type=int, default=32, help="of the tree layer")
    parser.add_argument("--epochs", type=int, default=14, help="of training")
    options = parse(parser, argv)
    train, test = read(options.data, options.most_nodes)
    print(f"{len(train)} functions to train on, {len(test)} to test on", flush=True)
    share = sum(label for _, label in test) / len(test)
    shown = next(tree for tree, label in test if label and len(list(ast.walk(tree))) < 90)
    tests = batches(test, 64)
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        model = tree_model(options.units)
        run = {"syntax tree": fitted(model, batches(train, 16, seed), tests, options.epochs)}
        run["bag of tokens"] = fitted(*bag_of_tokens(train, test, seed), options.epochs)
        runs.append(run | {"the commoner answer": {"accuracy, %": 100 * max(share, 1 - share)}})
    inputs, _ = next(iter(tests))
    save_and_export(model, inputs, options.output, signature=RAGGED_TREES)
    draw(model, shown, options.output / "function.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
