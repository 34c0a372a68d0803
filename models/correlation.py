"""How predicted scores agree with true ones: figures, and a picture."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure


def agreement_of(predicted: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Pearson's and Spearman's correlations, and the mean squared error, of scores `[pairs]`."""
    return {
        "pairs": len(true),
        "Pearson": float(np.corrcoef(predicted, true)[0, 1]),
        "Spearman": float(np.corrcoef(_ranks(predicted), _ranks(true))[0, 1]),
        "MSE": float(np.mean((predicted - true) ** 2)),
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    """Places in order of size; those that are equal share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def draw(predicted: np.ndarray, true: np.ndarray, file: Path) -> None:
    """Draws a point for each pair, and the line on which both agree."""
    figure = Figure(figsize=(5, 5))
    axes = figure.subplots()
    axes.scatter(true, predicted, s=4, alpha=0.3)
    axes.plot([1, 5], [1, 5], color="#999999")
    axes.set(xlabel="true score", ylabel="predicted score", title="SICK, test")
    figure.savefig(file, dpi=120, bbox_inches="tight")
