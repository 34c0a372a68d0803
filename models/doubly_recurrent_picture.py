"""A picture of trees above those that a model made from their strings."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from nltk import Tree

from random_trees import breadth_first, name


def draw_tree(axes: Axes, tree: Tree) -> None:
    """Draws a tree from the root down: leaves in a row, parents in the middle above children."""
    leaves = 0

    def draw(node: Tree | str, level: int) -> float:
        nonlocal leaves
        below = [draw(child, level + 1) for child in (node if isinstance(node, Tree) else [])]
        leaves += not below
        x = (below[0] + below[-1]) / 2 if below else float(leaves)
        for child in below:
            axes.plot([x, child], [-level, -level - 1], color="#999999", zorder=1)
        axes.text(
            x,
            -level,
            name(node),
            ha="center",
            va="center",
            bbox={"boxstyle": "circle", "facecolor": "white", "edgecolor": "#2166ac"},
            zorder=2,
        )
        return x

    draw(tree, 0)
    axes.set_xlim(0.4, leaves + 0.6)
    axes.margins(y=0.25)
    axes.axis("off")


def draw(pairs: Sequence[tuple[Tree, Tree]], file: Path) -> None:
    """Draws pairs of a true tree and a found one, a column each, under the string."""
    figure = Figure(figsize=(3 * len(pairs), 6))
    rows = figure.subplots(2, len(pairs), squeeze=False)
    for column, (true, found) in enumerate(pairs):
        draw_tree(rows[0, column], true)
        draw_tree(rows[1, column], found)
        rows[0, column].set_title(f"{' '.join(breadth_first(true))}\ntrue")
        rows[1, column].set_title("decoded: the same" if found == true else "decoded")
    figure.savefig(file, dpi=100, bbox_inches="tight")
