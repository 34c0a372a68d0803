"""Syntax trees of Python as arrays, and a picture of a model's logits of their statements."""

import ast
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf
from matplotlib.cm import ScalarMappable
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure

from kerasrec.datasets import EncodedTree, encode_objects, tree_batches

KINDS = sorted(name for name, kind in vars(ast).items() if isinstance(kind, type))


def children_of(node: ast.AST) -> list[ast.AST]:
    """The children of a node; Python has one object for all without fields, such as `Load`."""
    return [child for child in ast.iter_child_nodes(node) if child._fields]


def encoded(tree: ast.AST, label: bool = False) -> EncodedTree:
    """A syntax tree as arrays: the names of the classes of its nodes."""
    return encode_objects(
        tree,
        children_of=children_of,
        token_of=lambda node: KINDS.index(type(node).__name__) + 1,
        label_of=lambda _: int(label),
        labels="root",
    )


def batches(
    functions: Sequence[tuple[ast.AST, bool]], size: int, seed: int | None = None
) -> tf.data.Dataset:
    """Ragged batches of functions and their labels; with a seed they are shuffled."""
    trees = [encoded(*function) for function in functions]
    return tree_batches(trees, size, seed is not None, seed, ragged=True)


def statements(node: ast.AST) -> list[ast.AST]:
    """A statement and those in it, in the order of the source."""
    below = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return [node, *(inner for child in below for inner in statements(child))]


def draw(model: keras.Model, tree: ast.FunctionDef, file: Path) -> None:
    """A picture of a function's source, each statement with the logit that it has as a tree."""
    source = ast.unparse(tree)
    found = statements(ast.parse(source).body[0])
    alone = [encoded(statement) for statement in found]
    logits = model.predict(tree_batches(alone, len(alone), ragged=True), verbose=0)
    values = logits[:, 1] - logits[:, 0]
    colors = ScalarMappable(CenteredNorm(halfrange=8), "RdBu")
    lines = source.splitlines()
    figure = Figure((4 + 0.085 * max(map(len, lines)), 1.2 + 0.24 * len(lines)))
    axes = figure.subplots()
    axes.set(xlim=(-8, max(map(len, lines))), ylim=(len(lines) + 0.5, 0.5))
    axes.axis("off")
    style = {"family": "monospace", "fontsize": 9, "va": "center"}
    for number, line in enumerate(lines, 1):
        axes.text(0, number, line, **style)
    for statement, value, color in zip(found, values, colors.to_rgba(values, 0.7), strict=True):
        box = {"facecolor": color, "edgecolor": "#dddddd"}
        axes.text(-2, statement.lineno, f"{value:+.1f}", ha="right", bbox=box, **style)
    axes.set_title("does a statement, as a separate tree, return inside a loop?")
    label = "logit: blue means yes, red means no"
    figure.colorbar(colors, ax=axes, label=label, alpha=0.7)
    figure.savefig(file, dpi=110, bbox_inches="tight")
