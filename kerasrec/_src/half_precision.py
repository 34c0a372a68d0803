"""Sums of many half-precision numbers, computed in float32.

TensorFlow adds such numbers one after the other in half precision. A bfloat16 sum stops growing at
about 256 times the size of its terms, a float16 sum at about 2,048 times.
"""

from __future__ import annotations

import tensorflow as tf

_HALVES = (tf.float16, tf.bfloat16)


def wide(dtype: tf.DType) -> tf.DType:
    """The dtype in which sums are computed: float32 for half precision, otherwise the same."""
    return tf.float32 if dtype in _HALVES else dtype


def in_float32(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a half-precision tensor as float32, and any other tensor unchanged."""
    return tf.cast(tensor, wide(tensor.dtype))


def gather_repeated(table: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Gathers rows, possibly several times, so that their gradients are summed in float32."""
    if not is_half(table):
        return tf.gather(table, places)
    table32 = in_float32(table)
    # The gradient of a cast would round each row before they are summed. A reshape sums them first.
    rows = tf.gather(tf.reshape(table32, tf.shape(table32)), places)
    return tf.cast(rows, table.dtype)


def is_half(tensor: tf.Tensor) -> bool:
    """Whether a tensor is float16 or bfloat16."""
    return tensor.dtype in _HALVES
