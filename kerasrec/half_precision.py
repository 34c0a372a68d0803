"""Sums of many half-precision numbers, computed in float32.

TensorFlow adds such numbers one after the other in half precision. A bfloat16 sum stops growing at
about 256 times the size of its terms, a float16 sum at about 2,048 times.
"""

from __future__ import annotations

import tensorflow as tf

_ADDING = {"BiasAddGrad", "ScatterNd", "SegmentSum", "UnsortedSegmentSum"}


def adds_halves(operation: tf.Operation) -> bool:
    """Whether an op sums half-precision numbers along its first axis, that of tokens or rows."""
    if not operation.outputs or not is_half(operation.outputs[0]):
        return False
    if operation.type == "Sum":
        axes, rank = tf.get_static_value(operation.inputs[1]), operation.inputs[0].shape.rank
        return axes is None or rank is None or 0 in axes.reshape(-1) % max(rank, 1)
    return operation.type in _ADDING


def in_float32(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a half-precision tensor as float32, and any other tensor unchanged."""
    return tf.cast(tensor, tf.float32) if is_half(tensor) else tensor


def gather_repeated(table: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Gathers rows, possibly several times, so that their gradients are summed in float32."""
    if not is_half(table):
        return tf.gather(table, places)
    wide = in_float32(table)
    # The gradient of a cast would round each row before they are summed. A reshape sums them first.
    return tf.cast(tf.gather(tf.reshape(wide, tf.shape(wide)), places), table.dtype)


def is_half(tensor: tf.Tensor) -> bool:
    """Whether a tensor is float16 or bfloat16."""
    return tensor.dtype in (tf.float16, tf.bfloat16)
