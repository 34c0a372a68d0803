"""Correlations of predicted and true scores."""

import numpy as np


def agreement_of(predicted: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Pearson's and Spearman's correlations, and the mean squared error, of scores `[pairs]`."""
    return {
        "pairs": len(true),
        "Pearson": float(np.corrcoef(predicted, true)[0, 1]),
        "Spearman": float(np.corrcoef(_ranks(predicted), _ranks(true))[0, 1]),
        "MSE": float(np.mean((predicted - true) ** 2)),
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks by size; equal scores share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
