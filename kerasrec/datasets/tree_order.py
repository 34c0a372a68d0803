"""The order in which trees come in batches, and the way back."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf


class TreeOrder:
    """Which tree each row of predictions is of, where batches have trees in another order.

    `tree_batches` and `Treebank.batches` make it with `return_order=True`.

    Args:
        trees: int64 `[rows]`, each tree once.

    Attributes:
        trees: As passed: row `i` of what comes from the batches is of tree `trees[i]`.

    Example:

    >>> batches, order = treebank.batches("dev", 64, bucket_by_size=True, return_order=True)
    >>> logits = order.restore(model.predict(batches))  # logits[i] is of treebank.dev[i]
    """

    def __init__(self, trees: np.ndarray) -> None:
        self.trees = trees
        self._rows = np.argsort(trees)

    def restore(self, predictions: Any) -> Any:
        """Brings rows into the order of the trees.

        Args:
            predictions: What `predict` gives of the batches: an array or tensor `[trees, ...]`; a
                `tf.RaggedTensor`, as Keras makes it where batches differ in their numbers of tree
                nodes; or a nest of these, of a model with several outputs.

        Returns:
            The same with row `i` of tree `i`. It has as many tree nodes as the tree's batch: after
            those of the tree comes padding.

        Raises:
            ValueError: If there is not one row for each tree.
        """
        return keras.tree.map_structure(self._restored, predictions)

    def _restored(self, rows: Any) -> Any:
        is_ragged = isinstance(rows, tf.RaggedTensor)
        rows = rows if is_ragged else np.asarray(rows)
        if not len(rows.shape) or rows.shape[0] != len(self.trees):
            raise ValueError(
                f"Predictions are of shape {tuple(rows.shape)}; expected one row for each of the "
                f"{len(self.trees)} trees: all that predict gives of the batches."
            )
        return tf.gather(rows, self._rows) if is_ragged else rows[self._rows]
