"""A property of Python functions that depends on their structure, learned from syntax trees.

    python models/python_functions.py --seeds 1 2 3

The data are the functions of Python's own standard library that have a loop and a `return`. Does
one return from within a loop? A bag of tokens does not say; a syntax tree does. Both models see the
same functions, and are tested on functions of other modules. The schema of the trees is inferred
from them. A picture shows what the model says of the statements of a function.
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

import kerasrec
from comparison import Run, report
from kerasrec.datasets import plot_tree

LOOPS = (ast.For, ast.While, ast.AsyncFor)
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


def examples(folder: Path, most_nodes: int) -> list[tuple[str, ast.FunctionDef, bool]]:
    """Functions with a loop and a `return`: module, tree, and the property."""
    found = []
    for module, tree in functions(folder):
        has_loop, has_return, label = returns_in_a_loop(tree)
        if has_loop and has_return and sum(1 for _ in ast.walk(tree)) <= most_nodes:
            found.append((module, tree, label))
    return found


def draw(model: Any, schema: Any, tree: ast.FunctionDef, file: Path) -> None:
    """A picture of a function's statements, each with the logit that it alone has as a body."""

    def outline(node: ast.AST) -> Tree:
        below = [outline(child) for child in ast.iter_child_nodes(node) if is_statement(child)]
        return Tree(type(node).__name__, below or [type(node).__name__])

    def is_statement(node: ast.AST) -> bool:
        return isinstance(node, ast.stmt)

    def statements(node: ast.AST) -> list[ast.AST]:
        children = filter(is_statement, ast.iter_child_nodes(node))
        return [node, *(item for child in children for item in statements(child))]

    alone = []
    for node in statements(tree):
        body = node.body if node is tree else [node]
        alone.append(ast.FunctionDef(**{**vars(tree), "body": body}))
    logits = model.predict(schema.encode(alone), verbose=0)[:, 0]
    axes = plot_tree(outline(tree), logits, limits=(-6, 6))
    axes.set_title(f"{tree.name}: blue says that it returns within a loop")
    axes.figure.savefig(file, dpi=100, bbox_inches="tight")


def train(model: Any, data: Any, labels: Any, options: argparse.Namespace) -> None:
    """Fits a model of one logit."""
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.AdamW(options.learning_rate),
        loss,
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
    batches = tf.data.Dataset.from_tensor_slices((data, labels)).shuffle(len(labels), options.seed)
    model.fit(batches.batch(options.batch_size), epochs=options.epochs, verbose=options.verbose)


def run(options: argparse.Namespace, found: list, schema: Any) -> Run:
    """Trains both models with a seed."""
    keras.utils.set_random_seed(options.seed)
    modules = sorted({module for module, *_ in found})
    tested = set(np.random.default_rng(0).permutation(modules)[: len(modules) // 5])
    train_set = [item for item in found if item[0] not in tested]
    test_set = [item for item in found if item[0] in tested]
    labels, test_labels = (
        np.array([item[2] for item in part], np.float32)[:, None] for part in (train_set, test_set)
    )
    start = time.perf_counter()
    batch = schema.encode(item[1] for item in train_set)
    inputs = schema.inputs()
    encoder = kerasrec.layers.SchemaEncoder(schema, options.units)
    tree_model = keras.Model(inputs, keras.layers.Dense(1)(encoder(inputs)))
    train(tree_model, batch, labels, options)
    seconds = [time.perf_counter() - start]
    test_batch = schema.encode(item[1] for item in test_set)
    accuracy = [tree_model.evaluate(test_batch, test_labels, batch_size=64, verbose=0)[1]]

    start = time.perf_counter()
    tokens = keras.layers.TextVectorization(10_000, output_mode="tf_idf", split=split_tokens)
    tokens.adapt([ast.unparse(item[1]) for item in train_set])
    vectors, test_vectors = (
        tokens([ast.unparse(item[1]) for item in part]) for part in (train_set, test_set)
    )
    bag = keras.Sequential([keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
    train(bag, vectors, labels, options)
    seconds.append(time.perf_counter() - start)
    accuracy.append(bag.evaluate(test_vectors, test_labels, verbose=0)[1])

    tree_model.save(options.output / "model.keras")
    shown = next(item[1] for item in test_set if item[2] and len(list(ast.walk(item[1]))) < 90)
    draw(tree_model, schema, shown, options.output / "function.png")
    rows = {
        name: {"accuracy, %": 100 * score, "seconds": spent}
        for name, score, spent in zip(
            ("syntax tree", "bag of tokens"), accuracy, seconds, strict=True
        )
    }
    commonest = max(float(np.mean(test_labels)), 1 - float(np.mean(test_labels)))
    print(f"{len(train_set)} functions to train on, {len(test_set)} to test on", flush=True)
    return {**rows, "the commoner answer": {"accuracy, %": 100 * commonest}}


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
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--verbose", type=int, default=0, help="as model.fit takes it")
    parser.add_argument("--output", type=Path, default=Path("runs/python_functions"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Trains with each seed and returns the figures."""
    options = parse_options(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    found = examples(options.data, options.most_nodes)
    # What kinds there are; other texts than names of kinds are words.
    schema = kerasrec.Schema.infer((tree for _, tree, _ in found), max_choices=0)
    runs = []
    for seed in options.seeds:
        options.seed = seed
        runs.append(run(options, found, schema))
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
