"""Checks the labels of tree nodes against the logits or numbers that are to predict them.

Both are padded or ragged, as the inputs of the tree layer are; `tf.ragged.map_flat_values` computes
on the nodes of either.
"""

import contextlib
import math
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from kerasrec._src.private import mask_of
from kerasrec._src.training.node_rows import as_tensor, asserted, flat, in_rows_of, is_ragged

NO_LABEL = -1
NO_NUMBER = math.nan


def tree_labels(y_true: Any, y_pred: Any, asked_by: str) -> tuple[Any, Any, Any]:
    """Returns labels and logits that fit together, and where there is a label.

    Args:
        y_true: Labels, whole numbers of any dtype `[batch, nodes]`; -1 where a tree node has no
            label, as in padding.
        y_pred: Logits, float of any precision `[batch, nodes, classes]`. Both `y_true` and `y_pred`
            may be ragged in their nodes; the results are ragged if the logits are.
        asked_by: The name of the loss or metric, for messages.

    Returns:
        A tuple `(labels, logits, labelled)`: int32 `[batch, nodes]`, float32
        `[batch, nodes, classes]` and bool `[batch, nodes]`.

    Raises:
        ValueError: If the shapes are known not to fit.
        tf.errors.InvalidArgumentError: When the step runs, if a label is neither -1 nor a class, if
            a node has a label that Keras' mask of the logits leaves out, or if the numbers of
            labels and of logits differ. XLA drops the checks of labels, as it drops every
            assertion.
    """
    # A new tensor carries no Keras mask: only the labels say which nodes count.
    logits = tf.cast(as_tensor(y_pred), tf.float32)
    labels = as_tensor(y_true)
    if logits.shape.rank != 3 or labels.shape.rank != 2:
        raise ValueError(
            f"{asked_by} expects a label and a row of logits for each tree node: y_true of shape "
            "[batch, nodes] and y_pred of shape [batch, nodes, classes]. "
            f"Received: y_true of shape {labels.shape} and y_pred of shape {logits.shape}. "
            "A tree layer gives the states of all tree nodes with return_sequences=True. Labels of "
            "trees, [batch], are for losses and metrics of Keras."
        )
    if not labels.shape.is_compatible_with(logits.shape[:2]):
        raise ValueError(
            f"{asked_by} expects as many labels as rows of logits. Received: y_true of shape "
            f"{labels.shape} and y_pred of shape {logits.shape}, of which [batch, nodes] should "
            "be the same."
        )
    labels = in_rows_of(logits, labels, asked_by, NO_LABEL)
    num_classes = tf.shape(logits.flat_values if is_ragged(logits) else logits)[-1]
    with _checked_classes(labels, num_classes, asked_by):
        labels = tf.ragged.map_flat_values(lambda of: tf.identity(tf.cast(of, tf.int32)), labels)
    labelled = tf.not_equal(labels, NO_LABEL)
    with _checked_padding(labelled, y_pred, asked_by, NO_LABEL):
        return labels, logits, tf.ragged.map_flat_values(tf.identity, labelled)


def tree_numbers(y_true: Any, y_pred: Any, asked_by: str) -> tuple[Any, Any, Any]:
    """Returns float labels and outputs that fit together, and where there is a label.

    Args:
        y_true: Labels, float `[batch, nodes]`; NaN where a tree node has none, as in padding.
        y_pred: Outputs, float `[batch, nodes]` or `[batch, nodes, 1]`. Both `y_true` and `y_pred`
            may be ragged in their nodes; the results are ragged if the outputs are.
        asked_by: The name of the loss or metric, for messages.

    Returns:
        A tuple `(labels, outputs, labelled)`: float32, float32 and bool, all `[batch, nodes]`.
        Labels and outputs are 0 where there is no label, so that neither values nor gradients are
        NaN there.

    Raises:
        ValueError: If the shapes are known not to fit, or if labels are not floats.
        tf.errors.InvalidArgumentError: When the step runs, if a node has a label that Keras' mask
            of the outputs leaves out, which XLA does not check; or if the numbers of labels and of
            outputs differ.
    """
    # A new tensor carries no Keras mask: only the labels say which nodes count.
    outputs, labels = tf.cast(as_tensor(y_pred), tf.float32), as_tensor(y_true)
    has_one = outputs.shape.rank == 2 or (outputs.shape.rank == 3 and outputs.shape[2] in (1, None))
    if labels.shape.rank != 2 or not has_one:
        raise ValueError(
            f"{asked_by} expects a number for each tree node: y_true of shape [batch, nodes] and "
            "y_pred of shape [batch, nodes] or [batch, nodes, 1]. "
            f"Received: y_true of shape {labels.shape} and y_pred of shape {outputs.shape}. "
            "A tree layer gives the states of all tree nodes with return_sequences=True, and "
            "Dense(1) makes a number of each. Labels of trees, [batch], are for losses of Keras."
        )
    if not labels.dtype.is_floating:
        raise ValueError(
            f"{asked_by} expects labels that are floats, NaN where a tree node has none. Received: "
            f"labels of {labels.dtype.name}, where -1 may be a number or stand for none. Make them "
            "floats; for classes take TreeCrossentropy and NodeAccuracy."
        )
    if not labels.shape.is_compatible_with(outputs.shape[:2]):
        raise ValueError(
            f"{asked_by} expects as many labels as outputs. Received: y_true of shape "
            f"{labels.shape} and y_pred of shape {outputs.shape}, of which [batch, nodes] should "
            "be the same."
        )
    if outputs.shape.rank == 3:
        outputs = tf.ragged.map_flat_values(lambda of: tf.squeeze(of, -1), outputs)
    labels = in_rows_of(outputs, tf.cast(labels, tf.float32), asked_by, NO_NUMBER, "outputs")
    labelled = is_number(labels)
    with _checked_padding(labelled, y_pred, asked_by, NO_NUMBER):
        labelled = tf.ragged.map_flat_values(tf.identity, labelled)
    # This comes before the subtraction: a gradient of 0 times NaN would be NaN.
    labels, outputs = (
        tf.ragged.map_flat_values(lambda known, of: tf.where(known, of, 0.0), labelled, of)
        for of in (labels, outputs)
    )
    return labels, outputs, labelled


def is_number(labels: Any) -> Any:
    """Where there is a label, bool, from float labels `[batch, nodes]`, padded or ragged."""
    return tf.ragged.map_flat_values(lambda of: ~tf.math.is_nan(of), as_tensor(labels))


def _checked_classes(
    labels: Any, num_classes: tf.Tensor, asked_by: str
) -> AbstractContextManager[Any]:
    """Checks, when the graph runs, that labels are -1 or classes."""
    # float64 holds all labels that can be classes, and keeps others out of range for the check.
    exact = tf.cast(flat(labels), tf.float64)
    is_class = (exact >= NO_LABEL) & (exact < tf.cast(num_classes, tf.float64))
    wrong = ~is_class | tf.not_equal(exact, tf.floor(exact))
    place, node = _last(wrong, labels)
    return asserted(
        ~tf.reduce_any(wrong),
        [
            f"{asked_by} expects every label to be -1 (no label) or a class from 0 to "
            "classes - 1. Received: label",
            tf.reduce_sum(tf.where(tf.equal(tf.range(tf.size(exact)), place), exact, 0.0)),
            "of [tree, node]",
            node,
            "with logits for",
            num_classes,
            "classes. Give the Dense layer of the logits more units, or map the labels.",
        ],
    )


def _checked_padding(
    labelled: Any, y_pred: Any, asked_by: str, nothing: float
) -> AbstractContextManager[Any]:
    """Checks, when the graph runs, that Keras' mask of `y_pred` leaves out no node with a label.

    Args:
        labelled: Whether each node has a label, bool `[batch, nodes]`.
        y_pred: The outputs, which may have a mask.
        asked_by: The name of the loss or metric.
        nothing: The label of a node that has none.
    """
    mask = mask_of(y_pred)
    if mask is None or is_ragged(labelled) or mask.shape.rank != 2:
        return contextlib.nullcontext()
    wrong = flat(labelled & ~tf.cast(mask, tf.bool))
    return asserted(
        ~tf.reduce_any(wrong),
        [
            f"{asked_by} expects labels of {nothing} at padding, which would count otherwise. "
            "Received: another label at [tree, node]",
            _last(wrong, labelled)[1],
            "where the mask of y_pred says that the tree has no such node.",
        ],
    )


def _last(wrong: tf.Tensor, labels: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The last place where a flat tensor is true, int32, and the same as [tree, node] of labels."""
    # By a maximum and sums, since XLA needs static shapes.
    place = tf.reduce_max(tf.where(wrong, tf.range(tf.size(wrong)), 0))
    if is_ragged(labels):
        starts = tf.cast(labels.row_starts(), tf.int32)
        tree = tf.searchsorted(starts, [place], side="right")[0] - 1
        first = tf.reduce_sum(tf.where(tf.range(tf.size(starts)) == tree, starts, 0))
    else:
        nodes = tf.maximum(tf.shape(labels)[1], 1)
        tree, first = place // nodes, place // nodes * nodes
    return place, tf.stack([tree, place - first])


def node_weights(sample_weight: Any, labelled: Any, asked_by: str, of_classes: bool = True) -> Any:
    """Spreads sample weights over tree nodes.

    Args:
        sample_weight: None, or weights of trees, `[batch, 1]`, or of tree nodes, `[batch, nodes]`.
        labelled: Whether each node has a label, bool `[batch, nodes]`, padded or ragged.
        asked_by: The name of the loss or metric, for messages.
        of_classes: Whether labels are classes, for messages.

    Returns:
        The weights, float32 `[batch, nodes]`, in the form of `labelled`; 0 where there is no label.

    Raises:
        ValueError: If the weights have another shape, such as `[batch]`, in which Keras passes its
            `class_weight`.
        tf.errors.InvalidArgumentError: When the step runs, if the weights are for other numbers of
            trees or nodes. XLA drops this check.
    """
    weights = tf.cast(labelled, tf.float32)
    if sample_weight is None:
        return weights
    sample_weight = checked_weights(
        sample_weight, asked_by, "or of tree nodes, [batch, nodes]", of_classes
    )
    if not is_ragged(labelled):
        sample_weight = in_rows_of(labelled, sample_weight, asked_by, None)
        given, wanted = tf.shape(sample_weight), tf.shape(labelled)
        # Weights of one tree would be taken for those of all trees.
        message = [f"{asked_by} expects weights for each of", wanted[0], "trees. Received:", given]
        with asserted(given[0] == wanted[0], message):
            return weights * tf.broadcast_to(sample_weight, wanted)
    if not is_ragged(sample_weight) and sample_weight.shape[1] == 1:
        num_nodes = tf.reduce_max(tf.concat([labelled.row_lengths(), [1]], 0))
        sample_weight = tf.repeat(sample_weight, num_nodes, axis=1)
    return weights * in_rows_of(labelled, sample_weight, asked_by, None, "nodes")


def checked_weights(
    sample_weight: Any, asked_by: str, alternative: str = "", of_classes: bool = True
) -> Any:
    """Returns sample weights as float32 `[batch, 1]` or `[batch, nodes]`.

    Args:
        sample_weight: The weights, which must have rank 2.
        asked_by: The name of the loss or metric, for messages.
        alternative: What else they may be than weights of trees, for messages.
        of_classes: Whether labels are classes, for messages.

    Raises:
        ValueError: If the weights have another rank. Keras looks up `class_weight` by the place of
            the largest label along the last axis, which for labels `[batch, nodes]` is a node. It
            passes the result as `[batch]`, which cannot be told from a user's weights.
    """
    weights = tf.cast(as_tensor(sample_weight), tf.float32)
    if weights.shape.rank != 2:
        instead = (
            "pass TreeCrossentropy(class_weight=...) instead" if of_classes else "leave them out"
        )
        raise ValueError(
            f"{asked_by} expects sample weights of trees, [batch, 1], {alternative}".rstrip(", ")
            + f". Received: shape {weights.shape}. If they are weights of trees, add an axis: "
            "sample_weight[:, None]. If they come from fit(class_weight=...), "
            f"{instead}: Keras would weigh each tree by the number of the node that has its "
            "largest label."
        )
    return weights
