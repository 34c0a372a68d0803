"""The ops by which TensorFlow reduces ragged rows, and how to get a result for each row from them.

An op on sorted row numbers has only as many results as the last entry says, and the rows of the
last tokens may be empty. So it becomes a reduction of the rows, and so do a reduction to a number
of rows that is computed in another way, and a count of integers.
"""

from __future__ import annotations

import math

import tensorflow as tf

from kerasrec._src.ops.shapes import bounded_size
from kerasrec._src.ops.table import Ragged, facts_of


def _count(operation: tf.Operation, rows: tf.RaggedTensor) -> tf.Tensor:
    dtype, weights = operation.outputs[0].dtype, operation.inputs[3]
    counts = tf.one_hot(rows.values, bounded_size(operation.inputs[2]), dtype=dtype)
    if operation.get_attr("binary_output"):
        return tf.minimum(tf.reduce_sum(rows.with_values(counts), 1), tf.ones([], dtype))
    if weights.shape[0] != 0:
        counts *= tf.expand_dims(weights, 1)
    return tf.reduce_sum(rows.with_values(counts), 1)


def log_of_sum(operation: tf.Operation) -> tf.Tensor:
    """The logarithm of sums, whose gradient is zero where a sum is zero.

    There, all entries of the row are -inf, or there are none. The gradient that TensorFlow would
    compute, infinity times zero, is NaN.
    """
    (total,) = operation.inputs
    is_zero = tf.equal(total, 0)
    found = tf.math.log(tf.where(is_zero, tf.ones_like(total), total))
    return tf.where(is_zero, tf.constant(-math.inf, total.dtype), found)


def reduced(operation: tf.Operation, rows: tf.RaggedTensor) -> tf.Tensor:
    """Reduces all rows in the way of an op; the rows hold the entries that the op reads."""
    facts = facts_of(operation.type)
    if facts.reduction is None:
        return _count(operation, rows)
    if rows.dtype == tf.string:
        return facts.reduction(rows, 1, separator=operation.get_attr("separator").decode())
    found = facts.reduction(rows, 1)
    if facts.ragged is Ragged.REDUCES or facts.reduction in (tf.reduce_sum, tf.reduce_prod):
        return found
    # Other ops on sorted row numbers give zero for empty rows.
    lengths = tf.reshape(rows.row_lengths(), [-1] + [1] * (found.shape.rank - 1))
    return tf.where(lengths > 0, found, tf.zeros_like(found))
