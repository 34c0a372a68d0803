"""The order of the baselines that compute level by level, made in NumPy before they start.

A level is all nodes at one depth, of all trees. The children of its inner nodes are then the level
below and nothing else, in order and in pairs: a level needs no gather from a buffer of all nodes.
Levels of equal height would need one, and are as many.
"""

from typing import NamedTuple

import numpy as np


class Levels(NamedTuple):
    """Nodes of all trees in the order of levels, roots first.

    Attributes:
        tokens: int `[leaves]`, words of leaves.
        leaves: int `[leaves]`, their positions among all nodes.
        inner: for each level int `[inner nodes]`, their positions in it.
        sizes: nodes of each level.
        labels: int `[nodes]`.
    """

    tokens: np.ndarray
    leaves: np.ndarray
    inner: list
    sizes: list
    labels: np.ndarray


def find_levels(batch):
    """Puts the nodes of a batch in order."""
    num_trees, num_nodes = batch.tokens.shape
    first = num_nodes * np.arange(num_trees)
    children = (batch.children + first[:, np.newaxis, np.newaxis]).reshape(-1, 2)
    is_inner = (batch.children[..., 0] >= 0).ravel()
    levels, inner = [first], []
    while True:
        inner.append(np.flatnonzero(is_inner[levels[-1]]))
        if not len(inner[-1]):
            break
        levels.append(children[levels[-1][inner[-1]]].ravel())
    nodes = np.concatenate(levels)
    leaves = np.flatnonzero(~is_inner[nodes])
    tokens = batch.tokens.ravel()[nodes[leaves]]
    return Levels(tokens, leaves, inner, list(map(len, levels)), batch.labels.ravel()[nodes])
