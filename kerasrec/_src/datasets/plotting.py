"""Pictures of trees with values at their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from nltk import Tree

from kerasrec._src.datasets.batch.tree_store import without_padding
from kerasrec._src.datasets.encode.checking import check_tree, is_labeled
from kerasrec._src.datasets.encode.sentences import TreeArrays, nodes_of_words
from kerasrec._src.datasets.trees.constituency import preorder
from kerasrec._src.datasets.trees.dependency import DependencyTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

_DISC, _GAP, _RING = 380, 550, 900  # areas, in points squared


class _Layout(NamedTuple):
    """The parts of a picture and their places.

    Attributes:
        edges: Pairs of tree nodes, a parent and its child. The root is the first tree node.
        x: The horizontal places of tree nodes, which are one apart.
        y: The vertical places of tree nodes, upwards; words stand below 0.
        labels: The labels of tree nodes, if the tree has them.
        words: The tree node of each word, and the word.
    """

    edges: list[tuple[int, int]]
    x: np.ndarray
    y: np.ndarray
    labels: list[Any]
    words: list[tuple[int, str]]


def plot_tree(
    tree: Tree | DependencyTree | TreeArrays,
    values: Sequence[Any] | np.ndarray | None = None,
    truth: Sequence[Any] | np.ndarray | None = None,
    *,
    cmap: str | Colormap = "RdBu",
    limits: tuple[float, float] | None = None,
    colorbar: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws a tree with a value at each of its nodes.

    Numbers color the discs of their tree nodes; text is written. Words stand in a row at the
    bottom: those of a constituency tree are its leaves, and in a dependency tree each word has a
    tree node above it. Encoded trees have no words, and may have shared nodes.

    Args:
        tree: An `nltk.Tree`, a `DependencyTree`, or an `EncodedTree` or tuple `(tokens, children,
            labels)` like it, as `encode_objects` makes one of any objects. Padding is left out.
        values: A number or text for each tree node, in the order of `encode_tree` or
            `encode_dependencies` (preorder), so that a row of a model's predictions fits. Values
            after the last tree node, such as those of padding, are left out. By default the labels
            of the tree, or the relations of words to their heads, or the tokens of an encoded tree
            without labels.
        truth: Numbers in the same order, which color rings around the discs.
        cmap: A colormap of Matplotlib.
        limits: The numbers that get the first and the last color; by default the smallest and the
            largest of `values` and `truth`.
        colorbar: The title of the numbers, written next to a bar of their colors; by default
            without a bar.
        ax: The axes of Matplotlib to draw on; by default those of a new figure.

    Returns:
        The axes. `plot_tree(tree).figure.savefig("tree.png")` writes them to a file.

    Raises:
        ValueError: If there are fewer values than tree nodes, or if `truth` does not consist of
            numbers.
        ImportError: If Matplotlib is missing.

    Example:

    >>> tree = kerasrec.datasets.make_tree("not bad at all", shape="right")
    >>> ax = kerasrec.datasets.plot_tree(tree, values=[4, 1, 4, 1, 2, 2, 2], limits=(0, 4))
    >>> [text.get_text() for text in ax.texts if not text.get_text().isdigit()]
    ['not', 'bad', 'at', 'all']
    """
    try:
        from matplotlib import colormaps, pyplot
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
    except ImportError as error:
        raise ImportError(
            "Drawing a tree needs the Python package matplotlib: pip install matplotlib."
        ) from error
    edges, x, y, labels, words = _layout(tree)
    shown = _cut("values", _of_nodes("values", labels if values is None else values), len(x))
    rings = None if truth is None else _cut("truth", _of_nodes("truth", truth), len(x))
    if rings is not None and not all(map(_is_number, rings)):
        raise ValueError(f"truth must be numbers, which color rings; received {rings[:5]!r} ..")
    if ax is None:
        # Room is made for the words, whatever their length.
        size = 2 + 0.65 * x.max(), 1.5 + 0.6 * y.max()
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    numbers = [float(value) for value in (*shown, *(rings or ())) if _is_number(value)]
    low, high = limits or (min(numbers, default=0.0), max(numbers, default=1.0))
    color_of = Normalize(low, high)
    palette = colormaps[cmap] if isinstance(cmap, str) else cmap

    def color(value: Any) -> Any:
        return palette(color_of(float(value))) if _is_number(value) else "white"

    for edge in map(list, edges):
        ax.plot(x[edge], y[edge], color="#999999", zorder=1)
    for place, _ in words:
        if y[place]:
            ax.plot(x[[place, place]], [0, y[place]], color="#cccccc", linestyle=":", zorder=0)
    if rings is not None:
        ax.scatter(x, y, s=_RING, c=[color(value) for value in rings], zorder=2, clip_on=False)
        ax.scatter(x, y, s=_GAP, c="white", zorder=2, clip_on=False)
    ax.scatter(
        x,
        y,
        s=_DISC,
        c=[color(value) for value in shown],
        edgecolors="#999999",
        zorder=2,
        clip_on=False,
    )
    for place, value in enumerate(shown):
        _write(ax, x[place], y[place], _text(value), color(value))
    for place, word in words:
        ax.annotate(
            word,
            (x[place], 0),
            xytext=(0, -18),
            textcoords="offset points",
            ha="right",
            va="top",
            rotation=45,
        )
    if colorbar is not None:
        ax.figure.colorbar(ScalarMappable(color_of, palette), ax=ax, label=colorbar)
    ax.margins(0.08, 0.15)
    ax.axis("off")
    return ax


def _layout(tree: Tree | DependencyTree | TreeArrays) -> _Layout:
    if isinstance(tree, DependencyTree):
        return _of_dependencies(tree)
    if isinstance(tree, tuple):
        return _of_arrays(tree)
    nodes = list(preorder(tree))
    labels = ["" if node.label() is None else node.label() for node, *_ in nodes]
    words = [
        (place, " ".join(map(str, node)))
        for place, (node, *_) in enumerate(nodes)
        if not any(isinstance(child, Tree) for child in node)
    ]
    edges = [(parent, place) for place, (_, parent, _) in enumerate(nodes)][1:]
    return _Layout(edges, *_places(edges, len(nodes)), labels, words)


def _of_arrays(tree: TreeArrays) -> _Layout:
    """Places the nodes of an encoded tree, or acyclic graph."""
    check_tree(*tree, shared_nodes=True)
    (tokens, *_), children, labels = without_padding(tree)
    edges = [(parent, int(child)) for parent, row in enumerate(children) for child in row]
    edges = [(parent, child) for parent, child in edges if child >= 0]
    shown: Any = labels if labels.ndim and is_labeled(labels) else tokens
    if shown.ndim > 1:
        shown = [""] * len(tokens)
    return _Layout(edges, *_places(edges, len(tokens)), list(shown), [])


def _of_dependencies(tree: DependencyTree) -> _Layout:
    """Places each word as in the sentence, and dependents one level below their head."""
    nodes = nodes_of_words(tree)
    parents = nodes[[tree.heads[word] for word in tree.order[1:]]].tolist()
    edges = [(parent, node) for node, parent in enumerate(parents, 1)]
    depth = np.zeros(len(nodes))
    for parent, node in edges:
        depth[node] = depth[parent] + 1
    labels = [tree.relations[word] if tree.relations else "" for word in tree.order]
    words = list(zip(nodes.tolist(), tree.words, strict=True))
    return _Layout(edges, np.array(tree.order, float), depth.max() - depth, labels, words)


def _of_nodes(name: str, values: Any) -> list[Any]:
    """Values as a list; text that reads as an integer, as labels may be, becomes one."""
    array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must have one number or text for each tree node, received shape "
            f"{array.shape}. Of logits [nodes, classes] take .argmax(-1)."
        )
    return [
        int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value
        for value in array
    ]


def _cut(name: str, values: list[Any], num_nodes: int) -> list[Any]:
    if len(values) < num_nodes:
        raise ValueError(
            f"{name} has {len(values)} entries, but the tree has {num_nodes} nodes. Give one for "
            "each, in the order of encode_tree or encode_dependencies (preorder)."
        )
    return values[:num_nodes]


def _places(edges: list[tuple[int, int]], num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Leaves stand in a row, other tree nodes above the middle of their children."""
    below: list[list[int]] = [[] for _ in range(num_nodes)]
    for parent, child in edges:
        below[parent].append(child)
    x, y = np.zeros([2, num_nodes])
    num_leaves, waiting, is_open = 0, [0], np.ones(num_nodes, bool)
    while waiting:
        place = waiting[-1]
        left = [child for child in reversed(below[place]) if is_open[child]]
        if left:
            waiting.extend(left)
            continue
        waiting.pop()
        if not is_open[place]:
            continue
        is_open[place] = False
        if below[place]:
            x[place] = x[below[place]].mean()
            y[place] = y[below[place]].max() + 1
        else:
            x[place] = num_leaves
            num_leaves += 1
    return x, y


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float | np.floating) else str(value)


def _write(ax: Axes, x: float, y: float, text: str, background: Any) -> None:
    dark = background != "white" and np.dot(background[:3], [0.3, 0.6, 0.1]) < 0.5
    ax.text(x, y, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
