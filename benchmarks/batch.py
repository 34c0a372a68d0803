"""The batch that every implementation gets: trees as NumPy arrays, padded to the largest."""

from typing import NamedTuple

import numpy as np

NUM_CLASSES = 5


class Batch(NamedTuple):
    """Trees whose nodes are in preorder: node 0 is the root, children follow their parents.

    Attributes:
        tokens: int32 `[batch, nodes]`, the word at a leaf, 0 at inner nodes and at padding.
        children: int32 `[batch, nodes, 2]`, -1 where there is no child and at padding.
        labels: int32 `[batch, nodes]`, -1 at padding.
    """

    tokens: np.ndarray
    children: np.ndarray
    labels: np.ndarray

    @property
    def num_trees(self):
        return len(self.tokens)

    @property
    def num_nodes(self):
        """Tree nodes, without padding."""
        return int(np.sum(self.is_node))

    @property
    def is_node(self):
        """False at padding, bool `[batch, nodes]`."""
        return self.labels >= 0

    @property
    def is_leaf(self):
        """Bool `[batch, nodes]`, false at padding."""
        return self.is_node & (self.children[..., 0] < 0)

    def first(self, num_trees):
        """The batch of its first trees."""
        return Batch(*(array[:num_trees] for array in self))
