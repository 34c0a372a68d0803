"""Metrics of trees with labeled nodes: accuracies of classes, and errors of numbers.

Socher et al. 2013 (section 5) report each accuracy for the roots (whole sentences) and for all
tree nodes (phrases), once with all classes and once binary, without the neutral class.
"""

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.training.node_rows import flat, of_roots
from kerasrec._src.training.tree_labels import CLASSES, NUMBERS, NodeLabels


class TreeMetric(keras.metrics.Mean):
    """Base class: the weighted mean of a value of labeled tree nodes, or of their roots.

    Attributes:
        kind: The kind of the labels.
        roots_only: Whether only the roots, tree nodes 0, count.
    """

    kind: NodeLabels
    roots_only = False

    def of_nodes(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the value of each tree node, in the shape of `labels`."""
        raise NotImplementedError

    def counts(self, is_given: tf.Tensor, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns which of the tree nodes count, bool, in the shape of `labels`."""
        return is_given

    @not_converted
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        name = type(self).__name__
        labels, outputs, is_given = self.kind.matched(y_true, y_pred, name)
        values = tf.ragged.map_flat_values(self.of_nodes, labels, outputs)
        counted = tf.ragged.map_flat_values(self.counts, is_given, labels, outputs)
        weights = self.kind.weights(sample_weight, counted, name)
        if self.roots_only:
            values, weights = of_roots(values), of_roots(weights)
        # Mean averages rows first, which would favor the nodes of batches of small trees.
        super().update_state(flat(values), flat(weights))


class TreeAccuracy(TreeMetric):
    """Base class of the accuracies: the weighted share of correct predictions at tree nodes.

    Args:
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`; -1 where a tree node has none. Node 0 is the root.
        y_pred: Logits, float `[batch, nodes, classes]`.
        sample_weight: Optional weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.
            The shape `[batch]` is refused, since Keras passes its `class_weight` in that shape.

    Raises:
        ValueError: If the shapes do not fit.
        tf.errors.InvalidArgumentError: If a label is neither -1 nor a class, or is at padding.
    """

    kind = CLASSES
    binary = False

    def of_nodes(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        if self.binary:
            return _is_right_side(labels, outputs)
        return tf.equal(tf.argmax(outputs, -1, tf.int32), labels)

    def counts(self, is_given: tf.Tensor, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return is_given & _has_side(labels, outputs) if self.binary else is_given


@keras.saving.register_keras_serializable(package="kerasrec")
class RootAccuracy(TreeAccuracy):
    """Share of trees with a correctly predicted root.

    Args:
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`; -1 where a tree node has none. Node 0 is the root.
        y_pred: Logits, float `[batch, nodes, classes]`.
        sample_weight: Optional weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.

    Output shape:
        A scalar.

    Example:

    >>> metric = kerasrec.training.RootAccuracy()
    >>> metric.update_state(np.array([[3, 0, -1]]), np.eye(5)[np.array([[3, 0, 2]])])
    >>> float(metric.result())
    1.0
    """

    roots_only = True

    def __init__(self, name: str = "root_accuracy", dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)


@keras.saving.register_keras_serializable(package="kerasrec")
class NodeAccuracy(TreeAccuracy):
    """Share of labeled tree nodes, over all trees together, that are given their label.

    Args:
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`; -1 where a tree node has none. Node 0 is the root.
        y_pred: Logits, float `[batch, nodes, classes]`.
        sample_weight: Optional weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.

    Output shape:
        A scalar.

    Example:

    >>> metric = kerasrec.training.NodeAccuracy()
    >>> metric.update_state(np.array([[3, 0, -1]]), np.eye(5)[np.array([[3, 0, 2]])])
    >>> float(metric.result())
    1.0
    """

    def __init__(self, name: str = "node_accuracy", dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)


@keras.saving.register_keras_serializable(package="kerasrec")
class BinaryRootAccuracy(TreeAccuracy):
    """Among trees with a root that is not neutral, the share with a correctly predicted side.

    For five classes, trees with root label 2 are dropped, and the prediction is positive where
    the probabilities p[3] + p[4] exceed p[0] + p[1].

    Args:
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`; -1 where a tree node has none. Node 0 is the root.
        y_pred: Logits, float `[batch, nodes, classes]`.
        sample_weight: Optional weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.

    Output shape:
        A scalar.

    Example:

    >>> metric = kerasrec.training.BinaryRootAccuracy()
    >>> metric.update_state(np.array([[3, 0, -1]]), np.eye(5)[np.array([[3, 0, 2]])])
    >>> float(metric.result())
    1.0
    """

    roots_only = True
    binary = True

    def __init__(self, name: str = "binary_root_accuracy", dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)


@keras.saving.register_keras_serializable(package="kerasrec")
class BinaryNodeAccuracy(TreeAccuracy):
    """Among labeled tree nodes that are not neutral, the share with a correctly predicted side.

    For five classes, nodes with label 2 are dropped, and the prediction is positive where the
    probabilities p[3] + p[4] exceed p[0] + p[1].

    Args:
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`; -1 where a tree node has none. Node 0 is the root.
        y_pred: Logits, float `[batch, nodes, classes]`.
        sample_weight: Optional weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.

    Output shape:
        A scalar.

    Example:

    >>> metric = kerasrec.training.BinaryNodeAccuracy()
    >>> metric.update_state(np.array([[3, 0, -1]]), np.eye(5)[np.array([[3, 0, 2]])])
    >>> float(metric.result())
    1.0
    """

    binary = True

    def __init__(self, name: str = "binary_node_accuracy", dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)


class TreeError(TreeMetric):
    """Base class of the errors: the weighted mean of a term over labeled tree nodes.

    Args:
        roots_only: Whether only the roots, tree nodes 0, count.
        name: The metric's name.
        dtype: The dtype of the result.
    """

    kind = NUMBERS

    def __init__(self, roots_only: bool, name: str, dtype: str | None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.roots_only = roots_only

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

    def of_nodes(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
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

    def of_nodes(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return tf.math.squared_difference(labels, outputs)

    def result(self) -> Any:
        return tf.sqrt(super().result())


def _is_right_side(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Whether the right side is predicted, in the shape of the labels.

    The lower half of the classes is negative, the upper positive. The predicted side is the one
    with the larger summed probability, so that a neutral prediction still takes a side: for 5
    classes p[3] + p[4] against p[0] + p[1].
    """
    num_classes = _number_of_classes(logits)
    half = num_classes // 2
    probabilities = tf.nn.softmax(logits)
    negative = tf.reduce_sum(probabilities[..., :half], axis=-1)
    positive = tf.reduce_sum(probabilities[..., num_classes - half :], axis=-1)
    return tf.equal(positive > negative, labels >= num_classes - half)


def _has_side(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Whether a label is not the middle one, bool, in the shape of the labels."""
    num_classes = _number_of_classes(logits)
    half = num_classes // 2
    return (labels >= num_classes - half) | (labels < half)


def _number_of_classes(logits: tf.Tensor) -> int:
    num_classes = logits.shape[-1]
    if num_classes is None or num_classes < 2:
        raise ValueError(
            "A binary accuracy expects logits for a known number of classes, 2 or more. "
            f"Received: y_pred of shape {logits.shape}."
        )
    return num_classes
