"""A picture of the chance of each phrase of a sentence."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure


def draw_chart(words: Sequence[str], chances: np.ndarray, known: np.ndarray, file: Path) -> None:
    """Draws a square for each pair of first and last word; rings are the phrases of the treebank.

    Args:
        words: of a sentence.
        chances: `[at least words + 1, the same]`, of words i to j - 1 to be a phrase, at i, j.
        known: bool, the same shape, the phrases of the treebank.
        file: of the picture.
    """
    size = len(words)
    is_phrase = np.tri(size, k=-1, dtype=bool).T
    shown = np.where(is_phrase, chances[:size, 1 : size + 1], np.nan)
    figure = Figure(figsize=(1.5 + 0.45 * size, 1 + 0.4 * size), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(shown, cmap="Blues", vmin=0, vmax=1)
    first, last = np.nonzero(known[:size, 1 : size + 1] & is_phrase)
    axes.plot(last, first, "o", markerfacecolor="none", color="#b2182b", label="in the treebank")
    axes.set_xticks(range(size), words, rotation=60, ha="right")
    axes.set_yticks(range(size), words)
    axes.set(xlabel="last word", ylabel="first word", title="phrases of a test sentence")
    axes.legend(loc="lower left", frameon=False)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, label="chance of the phrase", shrink=0.7)
    figure.savefig(file, dpi=110)
