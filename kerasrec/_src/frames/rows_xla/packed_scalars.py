"""Scalars as one vector, since XLA makes a kernel, and TensorFlow a copy, for each tensor."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def stacked(nest: Any) -> tf.Tensor:
    """The scalars of a nest, integers or bools, as int32 `[scalars]`."""
    return tf.stack([tf.cast(one, tf.int32) for one in tf.nest.flatten(nest)])


def unstacked(vector: tf.Tensor, like: Any) -> Any:
    """The scalars of a vector, int32 each, in a nest of the same structure as `like`."""
    return tf.nest.pack_sequence_as(like, tf.unstack(vector, len(tf.nest.flatten(like))))
