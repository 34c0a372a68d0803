"""Accuracies on trees, as the Stanford Sentiment Treebank reports them.

Socher et al. 2013 (section 5) report each accuracy for the roots (whole sentences) and for all
tree nodes (phrases), once with all classes and once binary, without the neutral class.
"""

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.training.node_rows import flat, of_roots
from kerasrec._src.training.tree_labels import node_weights, tree_labels


class TreeAccuracy(keras.metrics.Mean):
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

    roots_only = False
    binary = False

    @not_converted
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, logits, labelled = tree_labels(y_true, y_pred, asked_by=type(self).__name__)
        if self.binary:
            right = tf.ragged.map_flat_values(_is_right_side, labels, logits)
            counted = tf.ragged.map_flat_values(_has_side, labels, labelled, logits)
        else:
            right, counted = tf.ragged.map_flat_values(_is_right, labels, logits), labelled
        weights = node_weights(sample_weight, counted, asked_by=type(self).__name__)
        if self.roots_only:
            right, weights = of_roots(right), of_roots(weights)
        # Mean averages rows first, which would favor the nodes of batches of small trees.
        super().update_state(flat(right), flat(weights))


def _is_right(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.equal(tf.argmax(logits, -1, tf.int32), labels)


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


def _has_side(labels: tf.Tensor, labelled: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Whether there is a label that is not the middle one; in the shape of the labels."""
    num_classes = _number_of_classes(logits)
    half = num_classes // 2
    return labelled & ((labels >= num_classes - half) | (labels < half))


def _number_of_classes(logits: tf.Tensor) -> int:
    num_classes = logits.shape[-1]
    if num_classes is None or num_classes < 2:
        raise ValueError(
            "A binary accuracy expects logits for a known number of classes, 2 or more. "
            f"Received: y_pred of shape {logits.shape}."
        )
    return num_classes


@keras.saving.register_keras_serializable(package="kerasrec")
class RootAccuracy(TreeAccuracy):
    """Share of trees whose root is given its label.

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
    """Among trees with a root that is not neutral, the share whose side is predicted correctly.

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
