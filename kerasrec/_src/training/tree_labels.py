"""Labels of tree nodes, of which some are missing, and the outputs that are to predict them.

Labels are of two kinds: `CLASSES`, where -1 means a missing label, and `NUMBERS`, where NaN does.
Labels and outputs are padded or ragged, as the inputs of the tree layer are;
`tf.ragged.map_flat_values` computes on the nodes of either.
"""

import contextlib
import math
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from kerasrec._src.errors import asserted
from kerasrec._src.private import mask_of
from kerasrec._src.training.node_rows import as_tensor, flat, in_rows_of, is_ragged


class NodeLabels:
    """One kind of labels of tree nodes.

    Attributes:
        missing: The label of a node that has none, as at padding.
        outputs: A word for the outputs that predict the labels, for messages.
        instead: An alternative to passing `class_weight` to `fit`, for messages.
    """

    missing: float
    outputs: str
    instead: str

    def is_given(self, labels: Any) -> Any:
        """Returns where there is a label, bool, in the shape of `labels`, padded or ragged."""
        raise NotImplementedError

    def check_kind(self, labels: Any, outputs: Any, asked_by: str) -> None:
        """Raises a ValueError if ranks or dtypes are not those of this kind."""
        raise NotImplementedError

    def values(self, labels: Any, outputs: Any, asked_by: str) -> tuple[Any, Any]:
        """Returns checked labels and outputs in the dtypes and ranks that losses read."""
        raise NotImplementedError

    def matched(self, y_true: Any, y_pred: Any, asked_by: str) -> tuple[Any, Any, Any]:
        """Returns labels and outputs that fit together, and where there is a label.

        Args:
            y_true: Labels, `[batch, nodes]`.
            y_pred: Outputs, float of any precision `[batch, nodes, ...]`. Both `y_true` and
                `y_pred` may be ragged in their nodes; the results are ragged if the outputs are.
            asked_by: The name of the loss or metric, for messages.

        Returns:
            A tuple `(labels, outputs, is_given)`: int32 or float32 `[batch, nodes]`; float32, 0
            where there is no label; and bool `[batch, nodes]`.

        Raises:
            ValueError: If the shapes are known not to fit, or if numbers are not floats.
            tf.errors.InvalidArgumentError: When the step runs, if a label is neither -1 nor a
                class, if a node has a label that Keras' mask of the outputs leaves out, or if the
                numbers of labels and of outputs differ. XLA drops the checks of labels, as it drops
                every assertion.
        """
        # A new tensor carries no Keras mask: only the labels determine which nodes count.
        labels, outputs = as_tensor(y_true), tf.cast(as_tensor(y_pred), tf.float32)
        self.check_kind(labels, outputs, asked_by)
        if not labels.shape.is_compatible_with(outputs.shape[:2]):
            raise ValueError(
                f"{asked_by} expects as many labels as {self.outputs}. Received: y_true of shape "
                f"{labels.shape} and y_pred of shape {outputs.shape}, of which [batch, nodes] "
                "should be the same."
            )
        labels = in_rows_of(outputs, labels, asked_by, self.missing, self.outputs)
        labels, outputs = self.values(labels, outputs, asked_by)
        is_given = self.is_given(labels)
        with _checked_padding(is_given, y_pred, asked_by, self.missing):
            is_given = tf.ragged.map_flat_values(tf.identity, is_given)
        # Terms without a label get the weight 0, which times NaN or infinity would be NaN.
        return labels, tf.ragged.map_flat_values(_or_zeros, is_given, outputs), is_given

    def weights(self, sample_weight: Any, is_given: Any, asked_by: str) -> Any:
        """Spreads sample weights over tree nodes.

        Args:
            sample_weight: None, or weights of trees, `[batch, 1]`, or of nodes, `[batch, nodes]`.
            is_given: Whether each node has a label, bool `[batch, nodes]`, padded or ragged.
            asked_by: The name of the loss or metric, for messages.

        Returns:
            The weights, float32 `[batch, nodes]`, in the form of `is_given`; 0 without a label.

        Raises:
            ValueError: As for `checked_weights`.
            tf.errors.InvalidArgumentError: When the step runs, if the weights are for other numbers
                of trees or nodes. XLA drops this check.
        """
        weights = tf.cast(is_given, tf.float32)
        if sample_weight is None:
            return weights
        wanted = "[batch, 1], or of tree nodes, [batch, nodes]"
        sample_weight = checked_weights(sample_weight, asked_by, wanted, self.instead)
        if not is_ragged(is_given):
            sample_weight = in_rows_of(is_given, sample_weight, asked_by, None)
            given, trees = tf.shape(sample_weight), tf.shape(is_given)
            # Weights of one tree would be taken for those of all trees.
            message = [f"{asked_by} expects weights for each of", trees[0], "trees. Received:"]
            with asserted(given[0] == trees[0], [*message, given]):
                return weights * tf.broadcast_to(sample_weight, trees)
        if not is_ragged(sample_weight) and sample_weight.shape[1] == 1:
            num_nodes = tf.reduce_max(tf.concat([is_given.row_lengths(), [1]], 0))
            sample_weight = tf.repeat(sample_weight, num_nodes, axis=1)
        return weights * in_rows_of(is_given, sample_weight, asked_by, None, "nodes")


class _Classes(NodeLabels):
    """Whole numbers of any dtype, that logits `[batch, nodes, classes]` predict."""

    missing = -1
    outputs = "rows of logits"
    instead = "pass TreeCrossentropy(class_weight=...) instead"

    def is_given(self, labels: Any) -> Any:
        return tf.not_equal(labels, self.missing)

    def check_kind(self, labels: Any, outputs: Any, asked_by: str) -> None:
        if outputs.shape.rank != 3 or labels.shape.rank != 2:
            raise ValueError(
                f"{asked_by} expects a label and a row of logits for each tree node: y_true of "
                "shape [batch, nodes] and y_pred of shape [batch, nodes, classes]. "
                f"Received: y_true of shape {labels.shape} and y_pred of shape {outputs.shape}. "
                "A tree layer gives the states of all tree nodes with return_sequences=True. "
                "Labels of trees, [batch], are for losses and metrics of Keras."
            )

    def values(self, labels: Any, outputs: Any, asked_by: str) -> tuple[Any, Any]:
        num_classes = tf.shape(outputs.flat_values if is_ragged(outputs) else outputs)[-1]
        with _checked_classes(labels, num_classes, asked_by):
            return tf.ragged.map_flat_values(_to_int32, labels), outputs


class _Numbers(NodeLabels):
    """Floats, that outputs `[batch, nodes]` or `[batch, nodes, 1]` predict.

    Labels are 0 where there is none, so that neither values nor gradients are NaN there.
    """

    missing = math.nan
    outputs = "outputs"
    instead = "leave them out"

    def is_given(self, labels: Any) -> Any:
        return tf.ragged.map_flat_values(lambda values: ~tf.math.is_nan(values), as_tensor(labels))

    def check_kind(self, labels: Any, outputs: Any, asked_by: str) -> None:
        rank = outputs.shape.rank
        has_one = rank == 2 or (rank == 3 and outputs.shape[2] in (1, None))
        if labels.shape.rank != 2 or not has_one:
            raise ValueError(
                f"{asked_by} expects a number for each tree node: y_true of shape [batch, nodes] "
                "and y_pred of shape [batch, nodes] or [batch, nodes, 1]. "
                f"Received: y_true of shape {labels.shape} and y_pred of shape {outputs.shape}. "
                "A tree layer gives the states of all tree nodes with return_sequences=True, and "
                "Dense(1) makes a number of each. Labels of trees, [batch], are for losses of "
                "Keras."
            )
        if not labels.dtype.is_floating:
            raise ValueError(
                f"{asked_by} expects labels that are floats, NaN where a tree node has none. "
                f"Received: labels of {labels.dtype.name}, where -1 may be a number or stand for "
                "none. Make them floats; for classes take TreeCrossentropy and NodeAccuracy."
            )

    def values(self, labels: Any, outputs: Any, asked_by: str) -> tuple[Any, Any]:
        if outputs.shape.rank == 3:
            outputs = tf.ragged.map_flat_values(lambda values: tf.squeeze(values, -1), outputs)
        return tf.cast(labels, tf.float32), outputs

    def matched(self, y_true: Any, y_pred: Any, asked_by: str) -> tuple[Any, Any, Any]:
        labels, outputs, is_given = super().matched(y_true, y_pred, asked_by)
        return tf.ragged.map_flat_values(tf.where, is_given, labels, 0.0), outputs, is_given


CLASSES, NUMBERS = _Classes(), _Numbers()


def _or_zeros(is_given: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    has_classes = outputs.shape.rank > is_given.shape.rank
    return tf.where(is_given[..., tf.newaxis] if has_classes else is_given, outputs, 0.0)


def _to_int32(labels: tf.Tensor) -> tf.Tensor:
    return tf.identity(tf.cast(labels, tf.int32))


def _checked_classes(
    labels: Any, num_classes: tf.Tensor, asked_by: str
) -> AbstractContextManager[Any]:
    """Checks, when the graph runs, that labels are -1 or classes."""
    # float64 holds all labels that can be classes, and keeps others out of range for the check.
    exact = tf.cast(flat(labels), tf.float64)
    is_class = (exact >= CLASSES.missing) & (exact < tf.cast(num_classes, tf.float64))
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
    is_given: Any, y_pred: Any, asked_by: str, nothing: float
) -> AbstractContextManager[Any]:
    """Checks, when the graph runs, that Keras' mask of `y_pred` leaves out no node with a label.

    Args:
        is_given: Whether each node has a label, bool `[batch, nodes]`.
        y_pred: The outputs, which may have a mask.
        asked_by: The name of the loss or metric.
        nothing: The label of a node that has none.
    """
    mask = mask_of(y_pred)
    if mask is None or is_ragged(is_given) or mask.shape.rank != 2:
        return contextlib.nullcontext()
    wrong = flat(is_given & ~tf.cast(mask, tf.bool))
    return asserted(
        ~tf.reduce_any(wrong),
        [
            f"{asked_by} expects labels of {nothing} at padding, which would count otherwise. "
            "Received: another label at [tree, node]",
            _last(wrong, is_given)[1],
            "where the mask of y_pred has no node.",
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


def checked_weights(
    sample_weight: Any,
    asked_by: str,
    wanted: str = "[batch, 1]",
    instead: str = CLASSES.instead,
) -> Any:
    """Returns sample weights as float32 `[batch, 1]` or `[batch, nodes]`.

    Args:
        sample_weight: The weights, which must have rank 2.
        asked_by: The name of the loss or metric, for messages.
        wanted: The shapes that they may have, for messages.
        instead: An alternative to passing `class_weight` to `fit`, for messages.

    Raises:
        ValueError: If the weights have another rank. Keras looks up `class_weight` by the place of
            the largest label along the last axis, which for labels `[batch, nodes]` is a node. It
            passes the result as `[batch]`, which cannot be told from a user's weights.
    """
    weights = tf.cast(as_tensor(sample_weight), tf.float32)
    if weights.shape.rank != 2:
        raise ValueError(
            f"{asked_by} expects sample weights of trees, {wanted}. Received: shape "
            f"{weights.shape}. If they are weights of trees, add an axis: sample_weight[:, None]. "
            f"If they come from fit(class_weight=...), {instead}: Keras would weigh each tree by "
            "the number of the node that has its largest label."
        )
    return weights
