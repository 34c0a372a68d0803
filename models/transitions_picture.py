"""A picture of a chain's scores for each pair of neighboring tags."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure


def draw_transitions(transitions: np.ndarray, tags: Sequence[str], file: Path) -> None:
    """Draws a square for each pair of tags, red where the score of the pair is above the mean.

    Args:
        transitions: `[tags, tags]`, scores of a tag, by row, and the next.
        tags: their names.
        file: of the picture.
    """
    shown = transitions - transitions.mean()
    limit = np.abs(shown).max()
    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.set_xticks(range(len(tags)), tags, rotation=60, ha="right")
    axes.set_yticks(range(len(tags)), tags)
    axes.set(xlabel="next tag", ylabel="tag", title="scores of neighboring tags")
    axes.spines[:].set_visible(False)
    figure.colorbar(image, label="score, less the mean", shrink=0.7)
    figure.savefig(file, dpi=110, bbox_inches="tight")
