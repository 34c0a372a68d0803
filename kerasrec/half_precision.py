"""Sums of many numbers of half precision, which are added in float32.

TensorFlow adds them one after the other in half precision: a sum of bfloat16 stops growing once it
is some 256 times as large as what is added to it, a sum of float16 at 2,048 times.
"""

from __future__ import annotations

import tensorflow as tf

_ADDING = {"BiasAddGrad", "ScatterNd", "SegmentSum", "UnsortedSegmentSum"}


def adds_halves(operation: tf.Operation) -> bool:
    """Whether an op adds numbers of half precision along its first axis, that of tokens or rows."""
    if not operation.outputs or not is_half(operation.outputs[0]):
        return False
    if operation.type == "Sum":
        axes, rank = tf.get_static_value(operation.inputs[1]), operation.inputs[0].shape.rank
        return axes is None or rank is None or 0 in axes.reshape(-1) % max(rank, 1)
    return operation.type in _ADDING


def in_float32(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor of half precision as float32; any other as it is."""
    return tf.cast(tensor, tf.float32) if is_half(tensor) else tensor


def gather_repeated(table: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Rows of a table, some of them several times, whose gradients are added in float32."""
    if not is_half(table):
        return tf.gather(table, places)
    wide = in_float32(table)
    # The gradient of a cast would narrow the rows before they are added; that of a reshape adds
    # them.
    return tf.cast(tf.gather(tf.reshape(wide, tf.shape(wide)), places), table.dtype)


def is_half(tensor: tf.Tensor) -> bool:
    """Whether a tensor is float16 or bfloat16."""
    return tensor.dtype in (tf.float16, tf.bfloat16)
