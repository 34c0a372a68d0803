"""Gradients of tables, as the rows that were looked up.

TensorFlow repeats a row for each time that it was looked up. The gradient is the sum of these, but
Keras' optimizers square, clip and measure each one separately. If each row occurs once, they take
the same step as with the dense gradient: if the optimizer has weight decay, rows that were not
looked up decay as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import tensorflow as tf

Gradients: TypeAlias = list[tf.Tensor | tf.IndexedSlices | None]


def with_rows_once(gradients: Iterable[tf.Tensor | tf.IndexedSlices | None]) -> Gradients:
    """Returns the same gradients; in sparse ones, rows with the same index are added up.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None; each keeps its kind.
    """
    return [_with_rows_once(of) if isinstance(of, tf.IndexedSlices) else of for of in gradients]


def with_a_row(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """Returns the same gradient; if it is sparse and empty, with a row of zeros for index 0.

    TensorFlow ends the process if replicas exchange sparse gradients and none has a row (its issue
    65785). That happens if no example of a batch has an entry in some list.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    missing = [[0, 1 - tf.minimum(tf.size(gradient.indices), 1)]]
    values = tf.pad(gradient.values, missing + [[0, 0]] * (gradient.values.shape.rank - 1))
    return tf.IndexedSlices(values, tf.pad(gradient.indices, missing), gradient.dense_shape)


def _with_rows_once(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    indices, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
