"""Gradients of tables, as the rows that were looked up.

TensorFlow has a row there as often as it was looked up. Keras' optimizers square each of these by
itself, and clip and measure them so, where the gradient is their sum. With each row once they step
as with the dense gradient: also rows that nobody looked up decay, as the optimizer has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def with_rows_once(gradients: Iterable[Any]) -> list:
    """The same gradients, with the rows of each sparse one that are of the same place added up.

    Args:
        gradients: tensors, `tf.IndexedSlices`, or None, each of which stays what it is.
    """
    return [_with_rows_once(of) if isinstance(of, tf.IndexedSlices) else of for of in gradients]


def _with_rows_once(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    indices, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
