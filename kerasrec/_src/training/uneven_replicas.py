"""The weight of each part of a batch, since parts differ in size.

Keras' losses are means over a batch. One replica's part may be smaller than another's, so the mean
of the replicas' means is not the mean over the batch. Here every part is weighted by its size, and
the loss is that of the whole batch, on any number of replicas.

Some values Keras computes as if all parts were equally large: layers' moving statistics become NaN
on a replica without examples, and the loss of each output counts every part as a separate batch.
The values from before the step fix both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from kerasrec._src.private import losses_of_outputs, mask_of
from kerasrec._src.training.strategies import is_served, splits_batches


def check_losses(model: keras.Model, y: Any, y_pred: Any) -> None:
    """Raises a ValueError if replicas cannot tell the sizes of the means in the losses."""
    strategy = model.distribute_strategy
    if not splits_batches(strategy):
        return
    losses = keras.tree.flatten(model.loss)
    if len(losses) > 1 and (
        is_served(strategy) or any(hasattr(loss, "divisor") for loss in losses)
    ):
        raise ValueError(
            "With several losses, a part of a batch would have a different weight in each. That is "
            "not supported under ParameterServerStrategy, nor if one of them is a mean over trees "
            f"or tree nodes. Compile the model with one loss. Received: {model.loss!r}."
        )
    if len({getattr(loss, "reduction", None) == "sum" for loss in losses}) > 1:
        raise ValueError(
            "Some of the losses are sums over a batch and others are means, so a part of a batch "
            f"would have a different weight in each. Give all the same `reduction`. Received: "
            f"{model.loss!r}."
        )
    for loss in losses:
        if getattr(loss, "ignore_class", None) is not None:
            raise ValueError(
                f"{loss!r} leaves out the class {loss.ignore_class}, so the weight of a part of a "
                "batch depends on the rest of it, which other replicas do not know. Give these "
                "examples the sample weight 0 instead, or use kerasrec.training.TreeCrossentropy."
            )
        reduction = getattr(loss, "reduction", "sum_over_batch_size")
        known = {"sum_over_batch_size", "mean"} | (set() if is_served(strategy) else {"sum"})
        of_one = len(losses) == 1 and callable(loss) and not isinstance(loss, keras.losses.Loss)
        if reduction not in known or (of_one and len(loss(y, y_pred).shape) == 0):
            what = f"reduces by {reduction!r}" if reduction not in known else "returns a scalar"
            raise ValueError(
                f"The loss {loss!r} {what}, so the loss of a batch cannot be computed from its "
                f"parts. It must return a value for each example, or be a keras.losses.Loss that "
                f"reduces by {' or '.join(sorted(known))}."
            )


class Part(NamedTuple):
    """The size of a replica's part of a batch; all are float32 scalars.

    Args:
        examples: The number of examples of the replica.
        batch_examples: The number of examples of the batch.
        share: The factor of the replica's loss that makes the sum over replicas the batch's loss.
        share_of_rest: The same for the losses that are not of outputs, such as regularizers.
    """

    examples: tf.Tensor
    batch_examples: tf.Tensor
    share: tf.Tensor
    share_of_rest: tf.Tensor


def measured(model: keras.Model, x: Any, y: Any, y_pred: Any) -> Part:
    """Measures a replica's part of a batch, together with all other replicas."""
    examples = num_examples(x)
    # With any number of outputs, the loss of a single replica is that of the batch.
    size = divisor(model, x, y, y_pred) if num_replicas() > 1 else examples
    context = tf.distribute.get_replica_context()
    batch_examples, batch_size = context.all_reduce("sum", [examples, size])
    # Keras has divided means and other losses by the number of replicas, as if all held as much.
    rest = part_of_whole(examples * num_replicas(), batch_examples, 1.0)
    if all(getattr(loss, "reduction", None) == "sum" for loss in keras.tree.flatten(model.loss)):
        return Part(examples, batch_examples, tf.ones([]), rest)
    share = part_of_whole(size * num_replicas(), batch_size, rest)
    return Part(examples, batch_examples, share, share)


def part_of_whole(own: tf.Tensor, whole: tf.Tensor, otherwise: tf.Tensor | float) -> tf.Tensor:
    """The quotient, or another value without labels: then the loss is that of regularizers."""
    return tf.where(whole > 0, tf.math.divide_no_nan(own, whole), otherwise)


def divisor(model: keras.Model, x: Any, y: Any, y_pred: Any) -> tf.Tensor:
    """The size of the mean that is the loss: that of the loss, unmasked entries, or examples.

    It is float32.
    """
    for loss in keras.tree.flatten(model.loss):
        if hasattr(loss, "divisor"):
            return loss.divisor(keras.tree.flatten(y)[0])
    masks = [mask_of(output) for output in keras.tree.flatten(y_pred)]
    if all(mask is None for mask in masks):
        return num_examples(x)
    if len(masks) > 1 and num_replicas() > 1:
        raise ValueError(
            "Some of the model's outputs have a mask, so that the parts of a batch weigh "
            "differently in the loss of each. Compile the model with one output and loss."
        )
    return tf.reduce_sum(tf.cast(masks[0], tf.float32)) if len(masks) == 1 else num_examples(x)


def num_examples(x: Any) -> tf.Tensor:
    """The number of examples of a replica, float32."""
    return tf.cast(tf.shape(keras.tree.flatten(x)[0])[0], tf.float32)


class Before(NamedTuple):
    """Variables and their values before a step, on one replica.

    Args:
        statistics: Floats that are not trained, and that each replica has for itself: those that a
          layer assigns, such as moving averages, and weights that are frozen.
        losses: The means of the outputs' losses: for each, its total and its count.
    """

    statistics: Sequence[tuple[keras.Variable, tf.Tensor]]
    losses: Sequence[tuple[keras.metrics.Mean, tf.Tensor, tf.Tensor]]


def before(model: keras.Model) -> Before:
    """Returns what `mend` needs of a model; nothing if there is one replica."""
    if num_replicas() == 1:
        return Before([], [])
    # Others, such as the states of random numbers, are the same on all replicas.
    own = [
        variable
        for variable in model.non_trainable_variables
        if variable.aggregation == "none" and tf.as_dtype(variable.dtype).is_floating
    ]
    means = losses_of_outputs(model)
    return Before(
        [(variable, tf.identity(variable)) for variable in own],
        [(mean, tf.identity(mean.total), tf.identity(mean.count)) for mean in means],
    )


def mend(values: Before, part: Part) -> None:
    """Keeps statistics without examples, and weights the losses of the outputs.

    Args:
        values: The values before the step.
        part: The size of the replica's part.
    """

    def put_back() -> None:
        for variable, value in values.statistics:
            variable.assign(value)

    has_examples = part.examples > 0
    if values.statistics:  # Not copied in each step: among them are weights that are frozen.
        tf.cond(has_examples, lambda: None, put_back)
    for mean, total, count in values.losses:
        times = mean.count - count  # Zero if the step does not compute this loss.
        loss = tf.math.divide_no_nan(mean.total - total, times)
        addend = tf.where(has_examples, loss * part.share, 0.0) / num_replicas()
        mean.total.assign(total + addend)
        mean.count.assign(count + tf.where(times > 0, 1 / num_replicas(), 0.0))


def num_replicas() -> int:
    """The number of replicas that take a step together."""
    return tf.distribute.get_strategy().num_replicas_in_sync
