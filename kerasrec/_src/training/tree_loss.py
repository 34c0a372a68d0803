"""The common part of the losses of labels of tree nodes: the trees and nodes of their means."""

from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.training.node_rows import sum_of_trees
from kerasrec._src.training.tree_labels import node_weights


class TreeLoss(keras.losses.Loss):
    """Base class of the losses that are a sum over the labeled nodes of each tree.

    Args:
        normalize: The divisor of the sum: with `"trees"` the number of trees that have a label,
            with `"nodes"` the number of labeled nodes.
        reduction: The reduction: `"sum_over_batch_size"` or `"mean"` as described above, `"sum"`,
            or `None`.
        name: The loss's name.
        dtype: The dtype of the result.
    """

    # Whether labels are classes, not numbers.
    of_classes: bool

    def __init__(
        self,
        normalize: Literal["trees", "nodes"],
        reduction: Literal["sum_over_batch_size", "mean", "sum"] | None,
        name: str,
        dtype: str | None,
    ) -> None:
        if normalize not in ("trees", "nodes"):
            raise ValueError(
                f'{type(self).__name__} expects normalize="trees" or normalize="nodes". '
                f"Received: normalize={normalize!r}"
            )
        if reduction not in ("sum_over_batch_size", "mean", "sum", "none", None):
            raise ValueError(
                f'{type(self).__name__} expects reduction="sum_over_batch_size" ("mean" is the '
                f'same), "sum" or None. Received: reduction={reduction!r}'
            )
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.normalize = normalize

    def checked(self, y_true: Any, y_pred: Any) -> tuple[Any, Any, Any]:
        """Returns labels and outputs that fit together, and bool where there is a label."""
        raise NotImplementedError

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Returns each tree node's addend, float32, in the shape of `labels`; 0 for weight 0."""
        raise NotImplementedError

    def labelled(self, y_true: Any) -> Any:
        """Returns where there is a label, bool, in the shape of `y_true`."""
        raise NotImplementedError

    @not_converted
    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        # Keras' own __call__ casts labels to float and rescales by the mask of y_pred.
        with tf.name_scope(self.name):
            sums, nodes = self._sums(y_true, y_pred, sample_weight)
            return tf.cast(self._reduce(sums, nodes), self.dtype)

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns the sum over the labeled nodes of each tree, float32 `[batch]`."""
        return self._sums(y_true, y_pred, None)[0]

    def _sums(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the trees' sums and their numbers of labeled nodes, both float32 `[batch]`."""
        labels, outputs, labelled = self.checked(y_true, y_pred)
        weights = node_weights(sample_weight, labelled, type(self).__name__, self.of_classes)
        terms = tf.ragged.map_flat_values(self.terms, labels, outputs, weights)
        return sum_of_trees(terms), sum_of_trees(tf.cast(labelled, tf.float32))

    def _reduce(self, sums: tf.Tensor, nodes: tf.Tensor) -> tf.Tensor:
        """Reduces the trees' sums `[batch]`, knowing their numbers of labeled nodes `[batch]`."""
        if self.reduction in (None, "none"):
            return sums if self.normalize == "trees" else tf.math.divide_no_nan(sums, nodes)
        if self.reduction == "sum":
            return tf.reduce_sum(sums)
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        return tf.math.divide_no_nan(tf.reduce_sum(sums), self._divisor(nodes) * replicas)

    def divisor(self, y_true: Any) -> tf.Tensor:
        """Returns how many trees, or tree nodes, the loss of a batch is a mean over; float32."""
        return self._divisor(sum_of_trees(tf.cast(self.labelled(y_true), tf.float32)))

    def _divisor(self, nodes: tf.Tensor) -> tf.Tensor:
        if self.normalize == "nodes":
            return tf.reduce_sum(nodes)
        # A tree without a label fills up a batch; it is not an example.
        return tf.math.count_nonzero(nodes, dtype=tf.float32)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "normalize": self.normalize}
