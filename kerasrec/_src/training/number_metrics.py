"""Errors of numbers that are predicted for tree nodes."""

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.training.node_rows import flat, of_roots
from kerasrec._src.training.tree_labels import node_weights, tree_numbers


class TreeError(keras.metrics.Mean):
    """Base class of the errors: the weighted mean of a term over labeled tree nodes.

    Args:
        roots_only: Whether only the roots, tree nodes 0, count.
        name: The metric's name.
        dtype: The dtype of the result.
    """

    def __init__(self, roots_only: bool, name: str, dtype: str | None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.roots_only = roots_only

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the term of each tree node, float32, in the shape of `labels`."""
        raise NotImplementedError

    @not_converted
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        name = type(self).__name__
        labels, outputs, labelled = tree_numbers(y_true, y_pred, asked_by=name)
        terms = tf.ragged.map_flat_values(self.terms, labels, outputs)
        weights = node_weights(sample_weight, labelled, name, of_classes=False)
        if self.roots_only:
            terms, weights = of_roots(terms), of_roots(weights)
        # Mean averages rows first, which would favor the nodes of batches of small trees.
        super().update_state(flat(terms), flat(weights))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "roots_only": self.roots_only}


@keras.saving.register_keras_serializable(package="kerasrec")
class TreeMeanAbsoluteError(TreeError):
    """Mean absolute error of the labeled nodes of all trees together, or of their roots.

    Args:
        roots_only: Whether only the roots, tree nodes 0, count.
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, float `[batch, nodes]`; NaN where a tree node has none. Node 0 is the root.
        y_pred: Outputs, float `[batch, nodes]` or `[batch, nodes, 1]`. Both `y_true` and `y_pred`
            may be ragged in their nodes.
        sample_weight: Optional weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.

    Output shape:
        A scalar.

    Raises:
        ValueError: If the shapes do not fit, or if labels are not floats.

    Example:

    >>> metric = kerasrec.training.TreeMeanAbsoluteError()
    >>> metric.update_state([[1.0, 0.5, float("nan")]], [[3.0, 0.5, 9.0]])
    >>> float(metric.result())
    1.0
    """

    def __init__(
        self,
        roots_only: bool = False,
        name: str = "tree_mean_absolute_error",
        dtype: str | None = None,
    ) -> None:
        super().__init__(roots_only, name, dtype)

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return tf.abs(labels - outputs)


@keras.saving.register_keras_serializable(package="kerasrec")
class TreeRootMeanSquaredError(TreeError):
    """Root of the mean squared error of the labeled nodes of all trees together, or of their roots.

    Args:
        roots_only: Whether only the roots of trees, tree nodes 0, count.
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, float `[batch, nodes]`; NaN where a tree node has none. Node 0 is the root.
        y_pred: Outputs, float `[batch, nodes]` or `[batch, nodes, 1]`. Both `y_true` and `y_pred`
            may be ragged in their nodes.
        sample_weight: Optional weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.

    Output shape:
        A scalar.

    Raises:
        ValueError: If the shapes do not fit, or if labels are not floats.

    Example:

    >>> metric = kerasrec.training.TreeRootMeanSquaredError()
    >>> metric.update_state([[4.0, 0.0, float("nan")]], [[1.0, 3.0, 9.0]])
    >>> float(metric.result())
    3.0
    """

    def __init__(
        self,
        roots_only: bool = False,
        name: str = "tree_root_mean_squared_error",
        dtype: str | None = None,
    ) -> None:
        super().__init__(roots_only, name, dtype)

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return tf.math.squared_difference(labels, outputs)

    def result(self) -> Any:
        return tf.sqrt(super().result())
