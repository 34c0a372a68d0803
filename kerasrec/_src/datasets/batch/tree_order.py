"""The order in which trees come in batches, and how to restore the original order."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf


class TreeOrder:
    """Says which tree each row of predictions belongs to if batches reorder the trees.

    `tree_batches` and `Treebank.batches` return it with `return_order=True`.

    Args:
        trees: The tree of each row, int64 `[rows]`; each tree occurs once.

    Attributes:
        trees: The argument `trees`: row `i` of the predictions belongs to tree `trees[i]`.

    Example:

    >>> batches, order = treebank.batches("dev", 64, bucket_by_size=True, return_order=True)
    >>> logits = order.restore(model.predict(batches))  # logits[i] belongs to treebank.dev[i]
    """

    def __init__(self, trees: np.ndarray) -> None:
        self.trees = trees
        self._rows = np.argsort(trees)

    def __repr__(self) -> str:
        return f"<TreeOrder of {len(self.trees):,} trees>"

    def restore(self, predictions: Any) -> Any:
        """Puts rows into the order of the trees.

        Args:
            predictions: The result of `predict` for the batches: an array or tensor `[trees, ...]`;
                a `tf.RaggedTensor`, which Keras makes if batches differ in their numbers of tree
                nodes; or a nest of these, if the model has several outputs.

        Returns:
            The same predictions, where row `i` belongs to tree `i`. A row has as many tree nodes as
            the tree's batch had: padding follows the nodes of the tree.

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
                f"{len(self.trees)} trees. Pass all that predict returns for the batches."
            )
        return tf.gather(rows, self._rows) if is_ragged else rows[self._rows]
