"""Shapes of dependency trees: those that a model grows compared with those of the data."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from kerasrec.datasets import DependencyTree

QUANTILES = (10, 50, 90, 99)
COLORS = ["#92c5de", "#2166ac", "#b2182b"]
LABELS = {
    "size": "words of a sentence",
    "depth": "levels of a sentence",
    "arity": "dependents of a word",
}


def shapes(trees: Sequence[DependencyTree]) -> dict[str, np.ndarray]:
    """Sizes and depths of trees and dependents of their words, without the word `<root>`.

    Args:
        trees: sentences that hang from an artificial root.

    Returns:
        Integers: `size` and `depth` `[trees]`, the latter in levels of words; `arity` `[words]`.
    """
    depths, arities = [], []
    for tree in trees:
        levels = np.zeros(len(tree.words), np.int32)
        for word in tree.order[1:]:
            levels[word] = levels[tree.heads[word]] + 1
        depths.append(levels.max())
        arities += [
            len(dependents) for word, dependents in enumerate(tree.dependents) if word != tree.root
        ]
    return {
        "size": np.array([len(tree.words) - 1 for tree in trees]),
        "depth": np.array(depths),
        "arity": np.array(arities),
    }


def chances(trees: Sequence[DependencyTree]) -> dict[str, float]:
    """The chances of words to have dependents on either side, without the word `<root>`.

    Args:
        trees: sentences that hang from an artificial root.

    Returns:
        The share of words with a first dependent to the left, and to the right; and of dependents
        on either side, the share after which another one comes.
    """
    counts = np.array(
        [
            [sum(other < word for other in below), sum(other > word for other in below)]
            for tree in trees
            for word, below in enumerate(tree.dependents)
            if word != tree.root
        ]
    )
    num_first, num_dependents = np.count_nonzero(counts, axis=0), counts.sum(axis=0)
    first = num_first / len(counts)
    # Where a word has dependents on a side, one of them is the last.
    another = (num_dependents - num_first) / np.maximum(num_dependents, 1)
    return {
        "first left": float(first[0]),
        "first right": float(first[1]),
        "another left": float(another[0]),
        "another right": float(another[1]),
    }


def kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> float:
    """The largest difference between the distribution functions of two samples."""
    values = np.union1d(first, second)
    below = [
        np.searchsorted(np.sort(sample), values, side="right") / len(sample)
        for sample in (first, second)
    ]
    return float(np.max(np.abs(below[0] - below[1])))


def compare_shapes(
    samples: dict[str, Sequence[DependencyTree]], file: Path
) -> dict[str, dict[str, dict[str, float]]]:
    """Compares samples of trees, by name, and draws them.

    Returns:
        For each of size, depth and arity: mean and quantiles of each sample, and the
        Kolmogorov-Smirnov distance of any two.
    """
    measured = {name: shapes(trees) for name, trees in samples.items()}
    draw(measured, file)
    compared = {}
    for kind in LABELS:
        values = {name: of_sample[kind] for name, of_sample in measured.items()}
        compared[kind] = {name: summary(of_sample) for name, of_sample in values.items()}
        compared[kind]["distance"] = {
            f"{first} to {second}": kolmogorov_smirnov(values[first], values[second])
            for first, second in combinations(values, 2)
        }
    return compared


def summary(values: np.ndarray) -> dict[str, float]:
    """Mean and quantiles."""
    quantiles = np.percentile(values, QUANTILES, method="inverted_cdf")
    named = {
        f"{quantile} %": float(value) for quantile, value in zip(QUANTILES, quantiles, strict=True)
    }
    return {"mean": float(np.mean(values)), **named, "largest": float(np.max(values))}


def draw(measured: dict[str, dict[str, np.ndarray]], file: Path) -> None:
    """Draws three panels: the share of trees or words of each size, depth and arity."""
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    for axes, (kind, label) in zip(figure.subplots(1, 3), LABELS.items(), strict=True):
        values = {name: of_sample[kind] for name, of_sample in measured.items()}
        # Up to the size of nearly all; the last bin holds the rest.
        last = int(max(4, *(np.percentile(of_sample, 99) for of_sample in values.values())))
        width = max(1, round(last / 30))
        edges = np.arange(0, last + 2 * width, width) - 0.5
        for color, (name, of_sample) in zip(COLORS, values.items(), strict=False):
            axes.hist(
                np.minimum(of_sample, edges[-1] - 0.5),
                edges,
                weights=np.full(len(of_sample), 1 / len(of_sample)),
                label=f"{name}, mean {of_sample.mean():.2f}",
                histtype="step",
                linewidth=2,
                color=color,
            )
        axes.set_xlabel(label)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("share")
    figure.savefig(file, dpi=110)


def tree_levels(children: np.ndarray) -> int:
    """Levels of a tree of arrays, `[nodes, arity]`; node 0 is the root."""
    level, levels = np.array([0]), 0
    while level.size:
        below = children[level].ravel()
        level, levels = below[below >= 0], levels + 1
    return levels
