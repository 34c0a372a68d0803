"""A picture of a phylogenetic tree, with branches drawn at their lengths."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from kerasrec.datasets import NewickTree

# With more taxa, their names would overlap.
MOST_NAMES = 120


def draw(tree: NewickTree, title: str, file: Path) -> None:
    """Draws the root to the left and taxa to the right; a child with more below comes later.

    A branch without a length is drawn with length 0.
    """
    rows = [row[row >= 0].tolist() for row in tree.children]
    (root,) = np.flatnonzero(tree.parents < 0)
    order = [int(root)]
    for node in order:  # which grows
        order += rows[node]
    x, y, size = np.zeros(len(rows)), np.zeros(len(rows)), np.ones(len(rows), int)
    for node in order[1:]:
        x[node] = x[tree.parents[node]] + np.nan_to_num(tree.lengths[node])
    for node in reversed(order):
        if rows[node]:
            size[node] = sum(size[child] for child in rows[node])
            rows[node].sort(key=lambda child: size[child])
    stack, number = [int(root)], 0
    while stack:
        node = stack.pop()
        if not rows[node]:
            y[node], number = number, number + 1
        stack += reversed(rows[node])
    for node in reversed(order):
        if rows[node]:
            y[node] = (y[rows[node][0]] + y[rows[node][-1]]) / 2

    is_named = number <= MOST_NAMES
    figure = Figure(figsize=(9, 2 + (0.16 * number if is_named else 9)))
    axes = figure.subplots()
    axes.hlines(y[order[1:]], x[tree.parents[order[1:]]], x[order[1:]], "#2166ac", linewidth=1)
    inner = [node for node in order if rows[node]]
    below = [y[[rows[node][0], rows[node][-1]]] for node in inner]
    axes.vlines(x[inner], *np.transpose(below), "#2166ac", linewidth=1)
    for leaf in [node for node in order if not rows[node]] if is_named else []:
        axes.annotate(
            tree.names[leaf].strip("_").replace("_", " "),
            (x[leaf], y[leaf]),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    axes.set_xlim(0, x.max() * (1.45 if is_named else 1.03))
    axes.set_ylim(number, -1)
    axes.set_yticks([])
    axes.set_xlabel("expected changes per site")
    axes.set_title(title)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    figure.savefig(file, dpi=100, bbox_inches="tight")
