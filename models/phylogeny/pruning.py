"""The likelihood of a tree by NumPy: a plain loop, to compare with. It stays in log space."""

import numpy as np

from phylogeny.substitution import PAIRS
from phylogeny.tree_likelihood import Phylogeny


def transition_matrices(
    lengths: np.ndarray, exchanges: np.ndarray, frequencies: np.ndarray
) -> np.ndarray:
    """float64 `[lengths, 4, 4]`, by the eigenvectors of a symmetric matrix of the same rates."""
    rates = np.zeros([4, 4])
    for (i, j), exchange in zip(PAIRS, exchanges, strict=True):
        rates[i, j], rates[j, i] = exchange * frequencies[j], exchange * frequencies[i]
    np.fill_diagonal(rates, -rates.sum(1))
    rates /= -np.diag(rates) @ frequencies
    root = np.sqrt(frequencies)
    values, vectors = np.linalg.eigh(rates * root[:, np.newaxis] / root)
    exponentials = np.exp(np.multiply.outer(lengths, values))
    left, right = vectors / root[:, np.newaxis], vectors.T * root
    return np.maximum((left * exponentials[:, np.newaxis]) @ right, 0.0)


def difference(model: Phylogeny, columns: np.ndarray) -> float:
    """The largest difference of a column from a model's: relative, but absolute below 1."""
    found = model.predict_on_batch(columns)[:, 0]
    children, lengths = model.children.numpy()[0], model.lengths.numpy()[0]
    wanted = log_likelihoods(columns, children, lengths, *model.substitution.numbers())
    return float(np.max(np.abs(found - wanted) / np.maximum(np.abs(wanted), 1.0)))


def log_likelihoods(
    columns: np.ndarray,
    children: np.ndarray,
    lengths: np.ndarray,
    exchanges: np.ndarray,
    frequencies: np.ndarray,
    rates: np.ndarray,
) -> np.ndarray:
    """Log-likelihoods of columns, float64 `[columns]`, under one tree, as `TreeArrays` has it.

    Args:
        exchanges, frequencies: of the model of substitution, `[6]` and `[4]`.
        rates: of the categories of sites.
    """
    total = np.full(len(columns), -np.inf)
    for rate in rates:
        logs = []
        matrices = transition_matrices(rate * lengths, exchanges, frequencies)
        for node, (left, right) in enumerate(children):
            if left < 0:
                below = ((columns[:, node, np.newaxis] >> np.arange(4)) & 1).astype(float)
                scale = 0.0
            else:
                below = logs[left] + logs[right]
                scale = below.max(1, keepdims=True)
                below = np.exp(below - scale)
            with np.errstate(divide="ignore"):
                logs.append(np.log(below @ matrices[node].T) + scale)
        scale = logs[-1].max(1)
        of_rate = np.log(np.exp(logs[-1] - scale[:, np.newaxis]) @ frequencies) + scale
        total = np.logaddexp(total, of_rate - np.log(len(rates)))
    return total
