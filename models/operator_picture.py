"""A picture of an expression: at each tree node, a model's prediction of its value."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
from nltk import Tree

from kerasrec.datasets import plot_tree, walk_tree
from operations import arguments, batches, length, value


def as_tree(expression: Any) -> Tree:
    """The expression as a tree with its values as labels and its digits as words."""
    below = [as_tree(of) for of in arguments(expression)]
    return Tree(value(expression), below or [str(expression)])


def draw_picture(model: keras.Model, expressions: Sequence[Any], file: Path) -> None:
    """Draws the first expression of 25 symbols or more: discs are predicted values, rings true.

    Args:
        model: from batches to the probability of each digit at each tree node.
        expressions: one of these is drawn.
        file: of the picture.
    """
    shown = next((of for of in expressions if length(of) >= 25), expressions[0])
    inputs, _ = next(iter(batches([shown], 1)))
    predicted = model(list(inputs))[0].numpy().argmax(-1)
    nodes = list(walk_tree(shown, arguments))
    axes = plot_tree(
        as_tree(shown),
        predicted,
        truth=[value(node) for node in nodes],
        cmap="viridis",
        limits=(0, 9),
        colorbar="value",
    )
    for text, node in zip(list(axes.texts), nodes, strict=False):
        if isinstance(node, list):
            axes.annotate(
                node[0],
                text.get_position(),
                (-14, 12),
                textcoords="offset points",
                ha="right",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )
    axes.set_title("disc: the predicted value, ring: the true one; under a leaf its digit")
    axes.figure.savefig(file, dpi=120, bbox_inches="tight")
