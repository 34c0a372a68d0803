"""Checks that missing labels, NaN or -1, do not meet a loss that would take them for labels."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.training.batches import Batches

BINARY = (keras.losses.BinaryCrossentropy, keras.losses.BinaryFocalCrossentropy)
BINARY_FUNCTIONS = (keras.losses.binary_crossentropy, keras.losses.binary_focal_crossentropy)


def with_checked_labels(model: keras.Model, batch: Any) -> Any:
    """Returns a batch whose labels are read only after a check of them, if they need one.

    Args:
        model: A compiled model.
        batch: A batch `(x, y)` or `(x, y, sample_weight)`.

    Raises:
        tf.errors.InvalidArgumentError: When the check runs: if a label is NaN and its loss is one
            of Keras, which would make the loss, and all weights after a step, NaN; or if a label is
            negative and its loss is a binary cross-entropy of Keras, which would have no lower
            bound. A negative label may have the sample weight 0. XLA drops this check, as it drops
            every assertion.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    labels = keras.tree.flatten(y)
    losses = keras.tree.flatten(model.loss)
    if len(losses) == 1:
        losses *= len(labels)
    if len(losses) != len(labels):
        return batch
    checks = [
        check
        for of, loss in zip(labels, losses, strict=True)
        for check in _checks(of, loss, sample_weight is not None)
    ]
    if not checks:
        return batch
    # Eager mode has checked already and returns None.
    with tf.control_dependencies([of for of in checks if of is not None]):
        y = tf.nest.map_structure(tf.identity, y, expand_composites=True)
    return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)


def checked_batches(model: keras.Model, batches: Batches) -> Batches:
    """The same batches; `with_checked_labels` checks each when it is read."""
    labels = keras.tree.flatten(keras.utils.unpack_x_y_sample_weight(batches.spec)[1])
    losses = [of for of in keras.tree.flatten(model.loss) if is_of_keras(of)]
    has_floats = any(of is not None and of.dtype.is_floating for of in labels)
    if not (losses and has_floats) and not any(_is_binary(of) for of in losses):
        return batches
    return batches.map(not_converted(lambda *batch: with_checked_labels(model, batch)))


def _checks(labels: Any, loss: Any, are_weighted: bool) -> list[Any]:
    """Assertions about the labels of one loss."""
    if labels is None or not is_of_keras(loss):
        return []
    values = labels.flat_values if isinstance(labels, tf.RaggedTensor) else labels
    values = tf.convert_to_tensor(values)
    if values.dtype.is_floating:
        number, instead = "NaN", "TreeSquaredError(), and with TreeMeanAbsoluteError() as a metric"
    else:
        number, instead = "-1", "TreeCrossentropy(), and give it logits of two classes, Dense(2)"
    advice = (
        "Leave out the trees that have no label."
        if tf.TensorShape(labels.shape).rank == 1  # NumPy's arrays come as they are in eager mode.
        else f"For labels of tree nodes, which are padded with {number}, compile the model with "
        f"kerasrec.training.{instead}."
    )
    name = loss_name(loss)
    checks = []
    if values.dtype.is_floating:
        is_missing = tf.reduce_any(tf.math.is_nan(values))
        what = (
            f"A label is NaN, which stands for none. The loss {name} of Keras would be NaN, and "
            f"all weights after a step. {advice}"
        )
        checks.append(tf.debugging.Assert(~is_missing, [what]))
    dtype = values.dtype
    is_signed = dtype.is_floating or (dtype.is_integer and not dtype.is_unsigned)
    if _is_binary(loss) and not are_weighted and is_signed:
        is_missing = tf.reduce_any(values < 0)
        what = (
            f"A label is negative, and -1 stands for none. The loss {name} of Keras would take it "
            f"for a label, and has no lower bound then. {advice}"
        )
        checks.append(tf.debugging.Assert(~is_missing, [what]))
    return checks


def _is_binary(loss: Any) -> bool:
    loss = keras.losses.get(loss)
    return isinstance(loss, BINARY) or loss in BINARY_FUNCTIONS


def loss_name(loss: Any) -> Any:
    """The name of a loss (an object, a function or a name), for messages."""
    return getattr(loss, "name", None) or getattr(loss, "__name__", loss)


def is_of_keras(loss: Any) -> bool:
    """Whether a loss (an object, a function or its name) is one that Keras defines.

    A user's own loss may handle NaN and -1.
    """
    loss = keras.losses.get(loss)
    is_object = isinstance(loss, keras.losses.Loss)
    parts = (type(loss), getattr(loss, "fn", None)) if is_object else (loss,)
    return loss is not None and all(
        (of.__module__ or "").startswith("keras.") for of in parts if of is not None
    )
