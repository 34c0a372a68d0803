"""Draws the pictures of the guides into docs/guides/pictures.

    python docs/draw_guides.py [NAME ...]

draws all, or those that are named. Each is made of the example of its guide, or of a table there.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from nltk import Tree

import kerasrec
from kerasrec.datasets import DependencyTree, encode_tree, load_treebank, plot_tree

GUIDES = Path(__file__).resolve().parent / "guides"
FILM = "(3 (2 (2 the) (2 film)) (3 (2 is) (3 (2 not) (1 dull))))"


def batch(axes: Axes) -> None:
    """A tree with its node numbers, and the arrays that a layer reads."""
    words, children, labels = encode_tree(Tree.fromstring(FILM), load_treebank().vocabulary)
    numbers = list(range(len(words)))
    plot_tree(Tree.fromstring(FILM), numbers, cmap="Greys", limits=(100, 200), ax=axes)
    rows = [
        [number, words[number], children[number].tolist(), labels[number]]
        for number in range(len(words))
    ]
    table = axes.table(
        rows,
        colLabels=["node", "words", "children", "labels"],
        cellLoc="center",
        colWidths=[0.12, 0.14, 0.2, 0.14],
        bbox=[1.05, 0, 0.75, 1],
    )
    table.auto_set_font_size(False)


def predicted(axes: Axes) -> None:
    """A sentence with the labels that the model of docs/getting-started.md predicts."""
    sys.path.insert(0, str(GUIDES.parents[1]))
    from docs.run_pages import run as run_page

    with tempfile.TemporaryDirectory() as folder:
        _, names = run_page("docs/getting-started.md", Path(folder))
    truth, labels = names["truth"], names["labels"][293][: len(names["truth"])]
    plot_tree(names["treebank"].test[293], labels, truth=truth, limits=(0, 4), ax=axes)


def fib_tree(n: int, depth: int = 0) -> tuple[Tree, list[int]]:
    """The calls that fib(n) makes, and how deep each is, in preorder."""
    if n < 2:
        return Tree(n, [f"fib({n})"]), [depth]
    parts = [fib_tree(n - 1, depth + 1), fib_tree(n - 2, depth + 1)]
    return Tree(n, [part for part, _ in parts]), [depth, *parts[0][1], *parts[1][1]]


def calls(axes: Axes) -> None:
    """The calls of fib(5), colored by their depth; those of one depth run in one wave."""
    tree, depths = fib_tree(5)
    plot_tree(tree, depths, cmap="viridis", colorbar="depth", ax=axes)
    axes.figure.axes[-1].set_yticks(sorted(set(depths)))
    axes.set_title(f"fib(5): {len(depths)} calls in {max(depths) + 1} waves")


def widths(axes: Axes) -> None:
    """How many tree nodes run in each wave from the roots down, for 1, 25 and 256 trees."""
    treebank = load_treebank()
    options = {"shuffle": True, "seed": 1, "bucket_by_size": True}

    def tokens_of_waves(size: int) -> list[int]:
        (_, children), _ = next(iter(treebank.batches("train", size, **options)))

        @kerasrec.recursive
        def num_nodes(tree: tf.Tensor, node: tf.Tensor) -> tf.Tensor:
            left, right = tf.unstack(tf.gather_nd(children, tf.stack([tree, node], 1)), axis=1)
            return kerasrec.cond(
                left < 0, lambda: 1, lambda: 1 + num_nodes(tree, left) + num_nodes(tree, right)
            )

        return [wave.tokens for wave in num_nodes.run_trace(tf.range(size), 0).waves]

    for size in (1, 25, 256):
        tokens, label = tokens_of_waves(size), f"{size} tree" + "s" * (size > 1)
        axes.step(range(1, len(tokens) + 1), tokens, where="mid", label=label)
    axes.set(yscale="log", xlabel="wave", ylabel="tree nodes that run together")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def chart(axes: Axes) -> None:
    """The spans of a sentence; the two parts of each split of the whole have one color."""
    words = ["the", "old", "film", "works"]
    colors = {1: "#a6cee3", 2: "#fdbf6f", 3: "#b2df8a"}
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            split = end if start == 0 else start if end == len(words) else 0
            axes.text(
                (start + end) / 2,
                end - start,
                f"{start}, {end}",
                ha="center",
                va="center",
                bbox=_box(colors.get(split, "white")),
            )
        axes.text(start + 0.5, 0.45, words[start], ha="center", va="center")
    axes.set(xlim=(0, 4), ylim=(0.2, 4.3), title="chart(0, 4): three splits, ten spans")
    axes.axis("off")


def grown(axes: Axes) -> None:
    """A formula that a decoder may grow, level by level."""
    tree = Tree.fromstring("(0 (1 (2 x) (2 1)) (1 (2 (3 y) (3 x)) (2 y)))")
    symbols = ["*", "+", "x", "1", "+", "*", "y", "x", "y"]
    levels = [int(node.label()) + 1 for node in tree.subtrees()]
    plot_tree(tree, levels, cmap="viridis", colorbar="level", ax=axes)
    axes.figure.axes[-1].set_yticks(sorted(set(levels)))
    for text, symbol in zip(axes.texts, symbols, strict=False):
        text.set_text(symbol)
    for text in axes.texts[len(symbols) :]:
        text.set_visible(False)


def dependencies(axes: Axes) -> None:
    """A dependency tree with the relation of each word to its head."""
    words = ["the", "old", "film", "works"]
    relations = ["det", "amod", "nsubj", "root"]
    plot_tree(DependencyTree(words, heads=[2, 2, 3, -1], relations=relations), ax=axes)


def expression(axes: Axes) -> None:
    """The value Apply("+", [Number(1), Apply("*", [Number(2), Number(3)])]) as a tree."""
    tree = Tree("+", [Tree("1.0", ["Number"]), Tree("*", [Tree("2.0", ["Number"])])])
    tree[1].append(Tree("3.0", ["Number"]))
    plot_tree(tree, ["+", "1.0", "*", "2.0", "3.0"], ax=axes)


def cell(axes: Axes) -> None:
    """Which method of a cell computes which tree node of the example."""
    tree = Tree(
        "",
        [Tree("", ["vectors[1]"]), Tree("", [Tree("", [f"vectors[{leaf}]"]) for leaf in (3, 4)])],
    )
    are_leaves = [False, True, False, True, True]
    texts = ["call_leaf(inputs)" if is_leaf else "call(inputs, states)" for is_leaf in are_leaves]
    _annotated(axes, tree, texts)


def document(axes: Axes) -> None:
    """A JSON document as a tree: a node for each object."""
    tree = Tree("", [Tree("", [""]), Tree("", [""])])
    _annotated(axes, tree, ["document: name salt", "atoms: Na, charge 1", "atoms: Cl, charge None"])


def operations(axes: Axes) -> None:
    """The formula (4 - 5) * 3 as a tree."""
    tree = Tree("", [Tree("", [Tree("", [""]), Tree("", [""])]), Tree("", [""])])
    labels = ["*", "-", "4", "5", "3"]
    plot_tree(tree, labels, cmap="Greys", limits=(100, 200), ax=axes)


def tags(axes: Axes) -> None:
    """All sequences of three tags for three words, and one of them."""
    words, names, best = ["the", "run", "ends"], ["the (0)", "noun (1)", "verb (2)"], [0, 1, 2]
    places = range(len(words))
    for place in places[:-1]:
        for tag in places:
            for following in places:
                axes.plot([place, place + 1], [-tag, -following], color="#cccccc", zorder=1)
    axes.plot(places, [-tag for tag in best], color="#1f77b4", linewidth=3, zorder=2)
    for place in places:
        for tag, name in enumerate(names):
            axes.text(place, -tag, name, ha="center", va="center", bbox=_box("white"), zorder=3)
        axes.text(place, 0.7, words[place], ha="center", va="center", weight="bold")
    axes.set(xlim=(-0.5, 2.5), ylim=(-2.5, 1))
    axes.axis("off")


def outputs(axes: Axes) -> None:
    """The results of a tree layer with and without return_sequences."""
    titles = {
        "by default: the root\n[batch, units]": 1,
        "return_sequences=True: all nodes\n[batch, nodes, units]": 9,
    }
    axes.axis("off")
    for column, (title, num_returned) in enumerate(titles.items()):
        part = axes.inset_axes((0.52 * column, 0, 0.48, 1))
        returned = [float(number < num_returned) for number in range(9)]
        plot_tree(Tree.fromstring(FILM), returned, cmap="Blues", limits=(0, 2), ax=part)
        for text in part.texts[:9]:
            text.set_visible(False)
        part.set_title(title)


def gpu_speed(axes: Axes) -> None:
    """The table of training speed in the guide on GPUs."""
    page = (GUIDES / "gpus.md").read_text(encoding="utf-8")
    header, _, *rows = re.findall(r"^\| (?:batch|kerasrec|the same|PyTorch|JAX).*", page, re.M)
    batches = [int(part.replace(",", "")) for part in header.split("|")[2:-1]]
    for row in [_, *rows]:
        name, *cells = (part.strip() for part in row.split("|")[1:-1])
        speeds = [float(speed.replace(",", "")) for speed in cells]
        axes.plot(batches, speeds, marker="o", label=name.replace("`", ""))
    axes.set(xscale="log", yscale="log", xlabel="trees per batch", ylabel="trees per second")
    axes.set_xticks(batches, batches)
    axes.minorticks_off()
    axes.legend(fontsize="x-small", bbox_to_anchor=(1, 1), loc="upper left")


def serving(axes: Axes) -> None:
    """The contents of an exported model."""
    boxes = ["text", "BracketedText", "TreeLSTM", "Dense", "classes"]
    _row_of_boxes(axes, boxes, inside=slice(1, 4), title="one SavedModel")


def encoder(axes: Axes) -> None:
    """The layers of a model over a pretrained encoder."""
    boxes = [
        "text",
        "Bracketed\nText",
        "Subwords",
        "encoder",
        "Subword\nPooling",
        "TreeLSTM",
        "Dense",
    ]
    _row_of_boxes(axes, boxes, inside=slice(3, 4), title="")


def order(axes: Axes) -> None:
    """The calls of a cell that reads two children in order."""
    boxes = ["states_before_\nchildren", "call_child\n(child 1)", "call_child\n(child 2)", "call"]
    _row_of_boxes(axes, boxes, inside=slice(1, 3), title="states of a tree node with two children")


def ragged(axes: Axes) -> None:
    """The cells of children in a padded and in a ragged batch: one node has five children."""
    num_children = [5, 0, 1, 0, 0, 1, 0, 0]
    for column, (title, is_padded) in enumerate({"padded": True, "ragged": False}.items()):
        for row, number in enumerate(num_children):
            for slot in range(max(num_children) if is_padded else number):
                box = _box("#a6cee3" if slot < number else "white")
                axes.text(8 * column + slot, -row, " ", bbox=box, fontsize=7)
            axes.text(8 * column - 1, -row, f"{row}", fontsize=8, color="#555555")
        axes.text(8 * column + 2, 1, title, ha="center")
    axes.set(xlim=(-1.5, 13.5), ylim=(-7.6, 1.6))
    axes.axis("off")


def replicas(axes: Axes) -> None:
    """How a batch is trained on two replicas."""

    def box(x: float, y: float, text: str) -> None:
        axes.text(x, y, text, ha="center", va="center", bbox=_box("white"))

    for row in (0, 1):
        y = 1 - row
        box(1, y, f"trees {50 * row} to {50 * row + 49}")
        box(2, y, f"model on replica {row + 1}")
        _arrow(axes, (0.2, 0.5), (0.65, y))
        _arrow(axes, (1.35, y), (1.62, y))
        _arrow(axes, (2.38, y), (2.75, 0.5))
    box(0, 0.5, "a batch of\n100 trees")
    box(3.1, 0.5, "sum of gradients,\none update")
    axes.set(xlim=(-0.3, 3.6), ylim=(-0.4, 1.4))
    axes.axis("off")


def run(axes: Axes) -> None:
    """The widths of the waves of one call of fib."""

    @kerasrec.recursive
    def fib(n: tf.Tensor) -> tf.Tensor:
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    sizes = [wave.tokens for wave in fib.run_trace(12).waves]
    axes.bar(range(1, len(sizes) + 1), sizes)
    axes.set(xlabel="wave", ylabel="tokens", title="fib(12): tokens that run together")


def _annotated(axes: Axes, tree: Tree, texts: list[str]) -> None:
    plot_tree(tree, [""] * len(texts), ax=axes)
    for place, text in zip(axes.collections[0].get_offsets(), texts, strict=True):
        axes.annotate(text, place, (14, 6), textcoords="offset points")
    axes.margins(0.3, 0.15)


def _row_of_boxes(axes: Axes, boxes: list[str], inside: slice, title: str) -> None:
    for place, text in enumerate(boxes):
        is_inside = place in range(*inside.indices(len(boxes)))
        box = _box("#dce9f5" if is_inside else "white")
        axes.text(place, 0, text, ha="center", va="center", bbox=box)
        if place:
            _arrow(axes, (place - 0.62, 0), (place - 0.4, 0))
    axes.set(xlim=(-0.5, len(boxes) - 0.5), ylim=(-0.5, 0.5), title=title)
    axes.axis("off")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#555555"})


def _box(color: str) -> dict:
    return {"boxstyle": "round,pad=0.4", "facecolor": color, "edgecolor": "#777777"}


# Name: what draws it, width and height in inches.
FIGURES: dict[str, tuple[Callable[[Axes], None], float, float]] = {
    "batch": (batch, 8, 3.6),
    "predicted": (predicted, 9, 5),
    "calls": (calls, 7, 3.4),
    "widths": (widths, 6, 3),
    "chart": (chart, 5, 3.6),
    "grown": (grown, 5.5, 3),
    "dependencies": (dependencies, 5, 3),
    "expression": (expression, 4, 2.8),
    "cell": (cell, 6, 2.8),
    "document": (document, 6, 2),
    "operations": (operations, 4, 2.6),
    "tags": (tags, 5, 2.6),
    "outputs": (outputs, 9, 3.4),
    "gpu_speed": (gpu_speed, 8.5, 3.6),
    "serving": (serving, 8, 1.2),
    "encoder": (encoder, 9, 1.2),
    "order": (order, 7, 1.4),
    "ragged": (ragged, 7, 2.8),
    "replicas": (replicas, 8, 2),
    "run": (run, 6, 2.6),
}


def main(names: list[str]) -> None:
    """The command."""
    pyplot.rcParams["svg.hashsalt"] = "kerasrec"  # The same file each time.
    for name in names or FIGURES:
        draw, width, height = FIGURES[name]
        figure, axes = pyplot.subplots(
            figsize=(width, height), layout="constrained", facecolor="white"
        )
        draw(axes)
        path = GUIDES / "pictures" / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
        pyplot.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
