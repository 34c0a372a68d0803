"""A picture of a tree: its predicted and its true sentiments."""

from pathlib import Path

import keras
import numpy as np
from matplotlib.colors import ListedColormap

from kerasrec.datasets import Treebank, plot_tree

CLASSES = ["very negative", "negative", "neutral", "positive", "very positive"]
COLORS = ["#b2182b", "#f4a582", "#d9d9d9", "#92c5de", "#2166ac"]


def tree_to_show(treebank: Treebank) -> int:
    """Picks the test tree of 7 to 20 words with most sentiments in it; of equals the first."""
    encoded = treebank.encoded("test")
    words = [np.count_nonzero(tree.tokens) for tree in encoded]
    labels = [tree.labels for tree in encoded]
    fits = [i for i in range(len(words)) if 7 <= words[i] <= 20] or range(len(words))
    return max(fits, key=lambda i: (len(set(labels[i])), np.count_nonzero(labels[i] != 2)))


def draw(model: keras.Model, treebank: Treebank, file: Path) -> None:
    """Draws a test tree: a disc of the predicted sentiment in a ring of the true one."""
    shown = tree_to_show(treebank)
    tree = treebank.test[shown]
    tree = tree[0] if isinstance(tree, tuple) else tree  # Labels of dependency trees are apart.
    tokens, children, labels = treebank.encoded("test")[shown]
    logits = model.predict_on_batch((tokens[np.newaxis], children[np.newaxis]))
    predicted = logits[0].argmax(axis=-1)

    colors = {"cmap": ListedColormap(COLORS), "limits": (0, len(COLORS) - 1)}
    axes = plot_tree(tree, predicted, truth=labels, **colors)
    for color, name in zip(COLORS, CLASSES, strict=True):
        axes.scatter([], [], s=120, c=color, label=name)
    axes.legend(
        title="disc: predicted, ring: true",
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        frameon=False,
    )
    axes.figure.savefig(file, dpi=120, bbox_inches="tight")
