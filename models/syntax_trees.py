"""Syntax trees of Python as arrays, and a picture of what a model says of their statements."""

import ast
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf
from nltk import Tree

from kerasrec.datasets import EncodedTree, encode, plot_tree, tree_batches

KINDS = sorted(name for name, kind in vars(ast).items() if isinstance(kind, type))


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


def batches(
    functions: Sequence[tuple[ast.AST, bool]], size: int, seed: int | None = None
) -> tf.data.Dataset:
    """Ragged batches of functions and their labels; with a seed they are shuffled."""
    trees = [encoded(*function) for function in functions]
    return tree_batches(trees, size, seed is not None, seed, ragged=True)


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
