"""A picture of how likely edits are."""

from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure


def draw_edits(models: dict[str, np.ndarray], file: Path) -> None:
    """Draws a panel for each model: a square for each edit, dark where it is likely.

    Args:
        models: `[letters + 1, letters + 1]`, the chance of each edit, by name.
        file: of the picture.
    """
    figure = Figure(figsize=(4 * len(models) + 1, 4.9), layout="constrained")
    for axes, (name, chances) in zip(figure.subplots(1, len(models)), models.items(), strict=True):
        letters = [chr(ord("a") + letter) for letter in range(len(chances) - 1)]
        image = axes.imshow(chances, cmap="Blues", norm=LogNorm(1e-4, 0.2, clip=True))
        axes.set_xticks(range(len(chances)), [*letters, "-"])
        axes.set_yticks(range(len(chances)), [*letters, "-"])
        axes.set(title=name, xlabel="is written")
        axes.spines[:].set_visible(False)
    figure.axes[0].set_ylabel("letter")
    figure.suptitle("how likely each edit is; -: no letter, and in the corner the end")
    figure.colorbar(image, ax=figure.axes, label="chance", shrink=0.8)
    figure.savefig(file, dpi=110)
