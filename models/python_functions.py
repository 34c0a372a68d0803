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
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from nltk import Tree

from comparison import Run, report
from kerasrec.datasets import EncodedTree, encode, plot_tree, tree_batches
from kerasrec.layers import ChildSumTreeLSTM

Example = tuple[str, ast.FunctionDef, bool]  # its module, its tree, and the property

LOOPS = (ast.For, ast.While, ast.AsyncFor)
KINDS = sorted(name for name, kind in vars(ast).items() if isinstance(kind, type))
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def functions(folder: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The module and the tree of each function in the Python files of a folder."""
    for file in sorted(folder.rglob("*.py")):
        name = str(file.relative_to(folder))
        if any(part in name for part in ("test", "site-packages", "idlelib", "lib2to3")):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(file.read_text(encoding="utf-8", errors="ignore"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield name, node


def returns_in_a_loop(node: ast.AST, in_loop: bool = False) -> tuple[bool, bool, bool]:
    """Whether a function has a loop, a `return`, and one within a loop; others within aside."""
    is_loop, is_return = isinstance(node, LOOPS), isinstance(node, ast.Return)
    found = [(is_loop, is_return, is_return and in_loop)]
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            found.append(returns_in_a_loop(child, in_loop or is_loop))
    has_loop, has_return, has_both = map(any, zip(*found, strict=True))
    return has_loop, has_return, has_both


def examples(folder: Path, most_nodes: int) -> list[Example]:
    """Functions with a loop and a `return`: module, tree, and the property."""
    found = []
    for module, tree in functions(folder):
        has_loop, has_return, label = returns_in_a_loop(tree)
        if has_loop and has_return and sum(1 for _ in ast.walk(tree)) <= most_nodes:
            found.append((module, tree, label))
    return found


def children_of(node: ast.AST) -> list[ast.AST]:
    """What stands below a node; Python has one object for all that have no fields, as `Load`."""
    return [child for child in ast.iter_child_nodes(node) if child._fields]


def encoded(tree: ast.AST, label: bool = False) -> EncodedTree:
    """A syntax tree as arrays: the names of the classes of its nodes."""
    return encode(
        tree,
        children_of=children_of,
        token_of=lambda node: KINDS.index(type(node).__name__) + 1,
        label_of=lambda _: int(label),
        labels="root",
    )


def tree_model(units: int) -> keras.Model:
    """From a batch of trees to logits."""
    kinds = keras.Input([None], dtype="int32", ragged=True)
    children = keras.Input([None, None], dtype="int32", ragged=True)
    embedding = keras.layers.Embedding(len(KINDS) + 1, units)
    states = ChildSumTreeLSTM(units, embedding=embedding)(kinds, children)
    return keras.Model([kinds, children], keras.layers.Dense(2)(states))


def draw(model: keras.Model, tree: ast.FunctionDef, file: Path) -> None:
    """A picture of a function's statements, each with the logit that it has as a tree."""

    def outline(node: ast.AST) -> Tree:
        below = [outline(child) for child in ast.iter_child_nodes(node) if is_statement(child)]
        return Tree("", below or [type(node).__name__])

    def is_statement(node: ast.AST) -> bool:
        return isinstance(node, ast.stmt)

    def statements(node: ast.AST) -> list[ast.AST]:
        below = filter(is_statement, ast.iter_child_nodes(node))
        return [node, *(item for child in below for item in statements(child))]

    alone = [encoded(node) for node in statements(tree)]
    logits = model.predict(tree_batches(alone, len(alone), ragged=True), verbose=0)
    axes = plot_tree(outline(tree), logits[:, 1] - logits[:, 0], limits=(-8, 8))
    axes.set_title(f"{tree.name}: blue says that it returns within a loop")
    axes.figure.savefig(file, dpi=100, bbox_inches="tight")


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
    export(trees, options.output / "export")
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


def export(model: keras.Model, folder: Path) -> None:
    """A SavedModel that takes ragged trees."""
    spec = [
        tf.RaggedTensorSpec([None, None], tf.int32, 1),
        tf.RaggedTensorSpec([None, None, None], tf.int32, 2),
    ]
    serve = tf.function(lambda *inputs: model(list(inputs)), input_signature=spec)
    serve.get_concrete_function()
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", serve)
    archive.write_out(folder, verbose=False)


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
