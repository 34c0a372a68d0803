"""The loss of a tree whose nodes have numbers: regression."""

from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.training.tree_labels import is_number, tree_numbers
from kerasrec._src.training.tree_loss import TreeLoss


@keras.saving.register_keras_serializable(package="kerasrec")
class TreeSquaredError(TreeLoss):
    """Squared error of every labeled tree node, for labels that are floats.

    The loss of a tree is the sum over its labeled nodes,

        loss(tree) = sum over nodes j with a label: (label[j] - output[j])^2

    The loss of a batch is the mean over its trees, as for `TreeCrossentropy`. So a tree of many
    nodes has more weight than a tree of few; `normalize="nodes"` divides by the number of labeled
    nodes instead, which gives the mean squared error of the labeled nodes.

    A label is NaN where a tree node has none, as in the float labels that
    `kerasrec.datasets.tree_batches` pads and `kerasrec.datasets.encode` returns. With a loss of
    Keras such as `"mse"`, all weights would become NaN.

    Only the labels say which nodes count. A Keras mask on the predictions changes neither the terms
    nor the scale; but a label where it is False, such as 0 at padding, is an error. The sum is
    computed in float32, whatever dtype the model uses.

    Args:
        normalize: The divisor of the sum: with `"trees"` (default) the number of trees that have a
            label, with `"nodes"` the number of labeled nodes.
        reduction: The reduction: `"sum_over_batch_size"` (default; `"mean"` is the same) as
            described above; `"sum"` for the sum over all trees; or `None` for one value for each
            tree, undivided for `"trees"` and divided by the tree's own number of labeled nodes for
            `"nodes"`.
        name: The loss's name.
        dtype: The dtype of the result, as in every Keras loss; the computation is in float32.

    Call arguments:
        y_true: Labels, float `[batch, nodes]`; NaN where a tree node has none.
        y_pred: Outputs, float `[batch, nodes]` or `[batch, nodes, 1]`. Both `y_true` and `y_pred`
            may be ragged in their nodes.
        sample_weight: Optional weights of trees, float `[batch, 1]`, or of tree nodes, float
            `[batch, nodes]`. They multiply the terms but do not change the divisor. The shape
            `[batch]` is refused, since Keras passes its `class_weight` in that shape.

    Returns:
        The loss, a scalar, or `[batch]` with `reduction=None`. Under a `tf.distribute` strategy the
        scalar is divided by the number of replicas, as in every Keras loss, since the gradients of
        replicas are added up.

    Raises:
        ValueError: If the shapes do not fit, or if labels are not floats.

    Example:

    >>> loss = kerasrec.training.TreeSquaredError()
    >>> labels = [[1.0, 0.5, float("nan")]]  # a root, one child, padding
    >>> outputs = [[[3.0], [0.5], [9.0]]]
    >>> float(loss(labels, outputs))
    4.0
    """

    of_classes = False

    def __init__(
        self,
        normalize: Literal["trees", "nodes"] = "trees",
        reduction: Literal["sum_over_batch_size", "mean", "sum"] | None = "sum_over_batch_size",
        name: str = "tree_squared_error",
        dtype: str | None = None,
    ) -> None:
        super().__init__(normalize, reduction, name, dtype)

    def checked(self, y_true: Any, y_pred: Any) -> tuple[Any, Any, Any]:
        return tree_numbers(y_true, y_pred, asked_by="TreeSquaredError")

    def labelled(self, y_true: Any) -> Any:
        return is_number(y_true)

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.math.squared_difference(labels, outputs) * weights
