"""Draws the pictures of the first page.

    python docs/draw_front_page.py

- `waves.gif`: two trees in one batch, wave by wave. The colors are the labels in the built-in
  treebank. A tree node is ready when its children are, so wave 1 has all leaves.
- `speed.svg`: trees per second of a TreeLSTM, from the first table of benchmarks/results/speed.md.
"""

import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from matplotlib import pyplot
from matplotlib.animation import FuncAnimation, PillowWriter
from nltk import Tree

from kerasrec.datasets import load_treebank, plot_tree

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "_static"
TWINS = 926, 38  # test sentences of the same words with opposite labels
LAST_FRAME_REPEATS = 3
FRAMEWORKS = {
    "kerasrec": ["kerasrec"],
    "PyTorch (best of three)": ["torch levels", "torch words", "torch by hand"],
    "JAX, by levels": ["jax levels"],
    "DyNet": ["dynet"],
    "DGL": ["dgl"],
    "TensorFlow, tf.while_loop": ["iterative"],
}


def waves_of(tree: Tree) -> list[int]:
    """The wave in which each tree node runs, in preorder; leaves run in wave 1."""
    return [subtree.height() - 1 for subtree in tree.subtrees()]


def draw_wave(figure: pyplot.Figure, trees: list[Tree], wave: int, last: int) -> None:
    """Draws trees with the labels of the tree nodes that have run; before wave 1, none."""
    figure.clear()
    for axes, tree in zip(figure.subplots(1, len(trees)), trees, strict=True):
        nodes = zip(tree.subtrees(), waves_of(tree), strict=True)
        labels = [node.label() if height <= wave else "" for node, height in nodes]
        plot_tree(tree, labels, limits=(0, 4), ax=axes)
    num_ready = sum(waves_of(tree).count(wave) for tree in trees)
    figure.suptitle(
        f"wave {wave} of {last}: {num_ready} tree nodes are ready and run as one batch"
        if num_ready
        else "one batch, two trees: the same words, opposite sentiment"
    )


def draw_waves() -> None:
    """Writes waves.gif."""
    test = load_treebank().test
    trees = [test[index] for index in TWINS]
    last = max(max(waves_of(tree)) for tree in trees)
    figure = pyplot.figure(figsize=(9, 4), layout="constrained", facecolor="white")
    waves = [*range(last + 1), *[last] * LAST_FRAME_REPEATS]
    movie = FuncAnimation(figure, lambda wave: draw_wave(figure, trees, wave, last), waves)
    movie.save(PICTURES / "waves.gif", PillowWriter(fps=1), dpi=100)


def speeds() -> dict[str, list[dict[str, str]]]:
    """The rows of the first table of benchmarks/results/speed.md for each mode, by column."""
    page = (ROOT / "benchmarks/results/speed.md").read_text(encoding="utf-8")
    start = page.index("|  | batch | eager |")
    header, _, *rows = page[start : page.index("\n\n", start)].splitlines()
    columns = ["mode", *map(str.strip, header.split("|")[2:-1])]
    cells = [dict(zip(columns, map(str.strip, row.split("|")[1:-1]), strict=True)) for row in rows]
    modes = dict.fromkeys(cell["mode"] for cell in cells)
    return {mode: [cell for cell in cells if cell["mode"] == mode] for mode in modes}


def draw_speed() -> None:
    """Writes speed.svg."""
    pyplot.rcParams["svg.hashsalt"] = "kerasrec"  # The same file each time.
    figure, panels = pyplot.subplots(
        1, 2, figsize=(9, 3.6), sharey=True, layout="constrained", facecolor="white"
    )
    for axes, (mode, rows) in zip(panels, speeds().items(), strict=True):
        for framework, columns in FRAMEWORKS.items():
            found = [
                max(float(row[column].replace(",", "")) for column in columns if row[column])
                for row in rows
            ]
            style = {"linewidth": 3, "color": "black"} if framework == "kerasrec" else {}
            batches = [int(row["batch"]) for row in rows]
            axes.plot(batches, found, marker="o", markersize=4, label=framework, **style)
        axes.set(xscale="log", yscale="log", title=mode, xlabel="trees per batch")
        axes.set_xticks(batches, batches)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("trees per second")
    panels[0].legend(fontsize="small")
    figure.savefig(PICTURES / "speed.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw_waves()
    draw_speed()
