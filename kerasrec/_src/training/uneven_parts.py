"""Mends values that Keras computes from a replica's part as if all parts were equally large.

Layers' moving statistics become NaN on a replica without examples, and the loss of each output
counts every part as a batch of its own. Here the values from before the step mend both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from kerasrec._src.private import losses_of_outputs


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
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
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


def mend(found: Before, share: tf.Tensor, has_examples: tf.Tensor) -> None:
    """Keeps statistics without examples, and weights the losses of the outputs.

    Args:
        found: The values before the step.
        share: The factor of the replica's loss that makes the mean over replicas that of the batch.
        has_examples: Whether the replica has any examples.
    """

    def put_back() -> None:
        for variable, value in found.statistics:
            variable.assign(value)

    if found.statistics:  # Not copied in each step: among them are weights that are frozen.
        tf.cond(has_examples, lambda: None, put_back)
    num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
    for mean, total, count in found.losses:
        times = mean.count - count  # Zero if the step does not compute this loss.
        loss = tf.math.divide_no_nan(mean.total - total, times)
        addend = tf.where(has_examples, loss * share, 0.0) / num_replicas
        mean.total.assign(total + addend)
        mean.count.assign(count + tf.where(times > 0, 1 / num_replicas, 0.0))
