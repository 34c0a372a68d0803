"""Gradients of tables, as the rows that were looked up.

TensorFlow repeats a row for each time that it was looked up. The gradient is the sum of these, but
Keras' optimizers square, clip and measure each one separately. If each row occurs once, they take
the same step as with the dense gradient: rows that were not looked up decay as well, if the
optimizer has weight decay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import tensorflow as tf

Gradients: TypeAlias = list[tf.Tensor | tf.IndexedSlices | None]


def with_rows_once(gradients: Iterable[tf.Tensor | tf.IndexedSlices | None]) -> Gradients:
    """The same gradients; in sparse ones, rows with the same index are added up.

    Args:
        gradients: tensors, `tf.IndexedSlices` or None; each keeps its kind.
    """
    return [_with_rows_once(of) if isinstance(of, tf.IndexedSlices) else of for of in gradients]


def _with_rows_once(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    indices, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
