"""Checks that labels of trees do not meet a loss of Keras that would misread them.

Such a loss would take missing labels, NaN or -1, for labels; or compare the outputs of tree nodes
with one label for each tree, or the other way around. A user's own loss may handle all of these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import asserted
from kerasrec._src.training.batches import Batches

BINARY = (keras.losses.BinaryCrossentropy, keras.losses.BinaryFocalCrossentropy)
BINARY_FUNCTIONS = (keras.losses.binary_crossentropy, keras.losses.binary_focal_crossentropy)


def with_checked_labels(model: keras.Model, batch: Any) -> Any:
    """Returns a batch in which labels are read only after a check of them, if they need one.

    Args:
        model: A compiled model.
        batch: A batch `(x, y)` or `(x, y, sample_weight)`.

    Raises:
        tf.errors.InvalidArgumentError: When the check runs: if a label is NaN and its loss is one
            of Keras, which would make the loss, and all weights after a step, NaN; or if a label is
            negative and its loss is a binary cross-entropy of Keras, which would have no lower
            bound, or a sparse one, which has no such class. With a binary one, a negative label may
            have the sample weight 0. XLA drops this check, as it drops every assertion.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    checks = [
        check
        for labels, loss in _with_losses_of_keras(model, keras.tree.flatten(y))
        for check in _checks(labels, loss, sample_weight is not None)
    ]
    if not checks:
        return batch
    with contextlib.ExitStack() as checked:
        for is_right, message in checks:
            checked.enter_context(asserted(is_right, [message]))
        y = tf.nest.map_structure(tf.identity, y, expand_composites=True)
    return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)


def checked_batches(model: keras.Model, batches: Batches) -> Batches:
    """The same batches; `with_checked_labels` checks each when it is read."""
    specs = keras.tree.flatten(keras.utils.unpack_x_y_sample_weight(batches.spec)[1])
    if not any(
        spec.dtype.is_floating or _is_binary(loss) or _is_sparse(loss)
        for spec, loss in _with_losses_of_keras(model, specs)
    ):
        return batches
    return batches.map(not_converted(lambda *batch: with_checked_labels(model, batch)))


def check_ranks(model: keras.Model, y: Any, y_pred: Any) -> None:
    """Raises a ValueError if a loss of Keras would compare outputs of trees and labels of nodes.

    Or outputs of tree nodes, and labels of trees.

    Args:
        model: A compiled model.
        y: The labels of a batch.
        y_pred: The outputs for the batch.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, if only then the shape is known.
    """
    labels, outputs = keras.tree.flatten(y), keras.tree.flatten(y_pred)
    if len(labels) != len(outputs):
        return
    pairs = zip(labels, outputs, strict=True)
    known = [None if given is None else (given, output) for given, output in pairs]
    for (given, output), loss in _with_losses_of_keras(model, known):
        shape, predicted = tf.TensorShape(given.shape), tf.TensorShape(output.shape)
        if shape.rank == 1 and (predicted.rank or 0) > 2:
            raise ValueError(
                f"The labels have one entry per example, shape {shape}, but the outputs have shape "
                f"{predicted}, as for tree nodes: the loss {_name(loss)} of Keras would compare "
                "each output with the labels of all examples. For one label per tree, leave "
                "return_sequences=True out of the tree layer. For labels of tree nodes, "
                "[batch, nodes], compile the model with "
                "kerasrec.training.TreeSquaredError() or TreeCrossentropy()."
            )
        if (shape.rank, predicted.rank) != (2, 2) or shape[1] == 1:
            continue
        message = (
            f"The labels are those of tree nodes, shape {shape}, but the outputs have shape "
            f"{predicted}, one row per tree. For labels of tree nodes, pass return_sequences=True "
            "to the tree layer, and compile the model with kerasrec.training.TreeCrossentropy() or "
            "TreeSquaredError(). For roots, pass one label per tree, [batch]: those of roots are "
            "labels[:, 0]."
        )
        if _is_sparse(loss) or (shape[1] and predicted[1] == 1):
            raise ValueError(message)
        if predicted[1] == 1:  # Both would be broadcast.
            tf.debugging.assert_equal(tf.shape(given)[1], 1, message)


def _with_losses_of_keras(model: keras.Model, labels: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Pairs of labels and their loss, without those that have no labels or a user's own loss."""
    losses = keras.tree.flatten(model.loss)
    if len(losses) == 1:
        losses *= len(labels)
    if len(losses) != len(labels):
        return []
    pairs = zip(labels, losses, strict=True)
    return [(given, loss) for given, loss in pairs if given is not None and _is_of_keras(loss)]


def _checks(labels: Any, loss: Any, are_weighted: bool) -> Iterator[tuple[tf.Tensor, str]]:
    """The conditions on the labels of one loss of Keras, and the errors if they do not hold."""
    values = labels.flat_values if isinstance(labels, tf.RaggedTensor) else labels
    values = tf.convert_to_tensor(values)
    dtype = values.dtype
    if dtype.is_floating:
        number, instead = "NaN", "TreeSquaredError(), and with TreeMeanAbsoluteError() as a metric"
    else:
        number, instead = "-1", "TreeCrossentropy(), and give it logits of two classes, Dense(2)"
    advice = (
        "Leave out the trees that have no label."
        if tf.TensorShape(labels.shape).rank == 1  # NumPy's arrays come as they are in eager mode.
        else f"For labels of tree nodes, which are padded with {number}, compile the model with "
        f"kerasrec.training.{instead}."
    )
    if dtype.is_floating:
        yield (
            ~tf.reduce_any(tf.math.is_nan(values)),
            f"A label is NaN, which stands for none. The loss {_name(loss)} of Keras would be NaN, "
            f"and all weights after a step. {advice}",
        )
    is_signed = dtype.is_floating or (dtype.is_integer and not dtype.is_unsigned)
    if _is_binary(loss) and not are_weighted and is_signed:
        yield (
            ~tf.reduce_any(values < 0),
            f"A label is negative, and -1 stands for none. The loss {_name(loss)} of Keras would "
            f"take it for a label, and has no lower bound then. {advice}",
        )
    if _is_sparse(loss) and is_signed:
        yield (
            ~tf.reduce_any(values < 0),
            f"A label is negative, and -1 stands for none. The loss {_name(loss)} of Keras has no "
            "such class. For labels of tree nodes, which are padded with -1, compile the model "
            "with kerasrec.training.TreeCrossentropy(), and give it logits.",
        )


def _is_binary(loss: Any) -> bool:
    loss = keras.losses.get(loss)
    return isinstance(loss, BINARY) or loss in BINARY_FUNCTIONS


def _is_sparse(loss: Any) -> bool:
    loss = keras.losses.get(loss)
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        return loss.ignore_class is None
    return loss is keras.losses.sparse_categorical_crossentropy


def _name(loss: Any) -> Any:
    """The name of a loss (an object, a function or a name), for messages."""
    return getattr(loss, "name", None) or getattr(loss, "__name__", loss)


def _is_of_keras(loss: Any) -> bool:
    """Whether a loss (an object, a function or its name) is one that Keras defines."""
    loss = keras.losses.get(loss)
    is_object = isinstance(loss, keras.losses.Loss)
    parts = (type(loss), getattr(loss, "fn", None)) if is_object else (loss,)
    return loss is not None and all(
        (part.__module__ or "").startswith("keras.") for part in parts if part is not None
    )
