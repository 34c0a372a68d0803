"""The ops by which TensorFlow reduces ragged rows, and how to get a result for each row from them.

An op on sorted row numbers has only as many results as the last entry says, and the rows of the
last tokens may be empty. So it becomes a reduction of the rows, and so do a reduction to a number
of rows that is computed in another way, and a count of integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

Reduce = Callable[[tf.Operation, tf.RaggedTensor], tf.Tensor]
"""Makes the result of an op for all rows; the rows hold the entries that the op reads."""


def _mean(_: tf.Operation, rows: tf.RaggedTensor) -> tf.Tensor:
    total = tf.reduce_sum(rows, 1)
    return total / tf.cast(tf.maximum(_beside(rows.row_lengths(), total), 1), total.dtype)


def _or_zero(reduce: Callable[..., tf.Tensor]) -> Reduce:
    """Gives zero for empty rows, as ops on sorted row numbers do for all rows but the last ones."""

    def reduced(_: tf.Operation, rows: tf.RaggedTensor) -> tf.Tensor:
        found = reduce(rows, 1)
        return tf.where(_beside(rows.row_lengths(), found) > 0, found, tf.zeros_like(found))

    return reduced


def _beside(lengths: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Gives the lengths of rows as many axes as a tensor has."""
    return tf.reshape(lengths, [-1] + [1] * (tensor.shape.rank - 1))


def _count(operation: tf.Operation, rows: tf.RaggedTensor) -> tf.Tensor:
    dtype, weights = operation.outputs[0].dtype, operation.inputs[3]
    counts = tf.one_hot(rows.values, width_of_counts(operation), dtype=dtype)
    if operation.get_attr("binary_output"):
        return tf.minimum(tf.reduce_sum(rows.with_values(counts), 1), tf.ones([], dtype))
    if weights.shape[0] != 0:
        counts *= tf.expand_dims(weights, 1)
    return tf.reduce_sum(rows.with_values(counts), 1)


def width_of_counts(operation: tf.Operation) -> int | None:
    """Returns how many integers a `tf.math.bincount` counts; None if its entries decide that.

    It is known if `minlength` and `maxlength` are the same.
    """
    size, bounds = operation.inputs[2], []
    for kind in ("Minimum", "Maximum"):
        while size.op.type == "Cast":
            size = size.op.inputs[0]
        if size.op.type != kind:
            return None
        bound, size = size.op.inputs
        bounds.append(tf.get_static_value(bound))
    most, least = bounds
    return int(most) if None not in bounds and least >= most else None


def is_log_of_sum(operation: tf.Operation) -> bool:
    """Whether an op is the logarithm within `tf.reduce_logsumexp` of rows."""
    if operation.type != "Log":
        return False
    total = _passed(operation.inputs[0], "ExpandDims").op
    if total.type != "UnsortedSegmentSum":
        return False
    powers = _passed(total.inputs[0]).op
    difference = _passed(powers.inputs[0]).op if powers.type == "Exp" else powers
    if difference.type != "Sub":
        return False
    return _passed(difference.inputs[1], "GatherV2", "Reshape").op.type == "StopGradient"


def _passed(tensor: tf.Tensor, *kinds: str) -> tf.Tensor:
    """Returns the tensor that `Identity` and ops of some kinds passed on to give this one."""
    while tensor.op.type in ("Identity", *kinds):
        tensor = tensor.op.inputs[0]
    return tensor


def log_of_sum(operation: tf.Operation) -> tf.Tensor:
    """The logarithm of sums, whose gradient is zero where a sum is zero.

    There, all entries of the row are -inf, or there are none. The gradient that TensorFlow would
    compute, infinity times zero, is NaN.
    """
    (total,) = operation.inputs
    is_zero = tf.equal(total, 0)
    found = tf.math.log(tf.where(is_zero, tf.ones_like(total), total))
    return tf.where(is_zero, tf.constant(-math.inf, total.dtype), found)


# For each op that reduces rows: its input with the numbers of the entries' rows, or with the row
# splits; and the same reduction of all rows.
OF_ROWS: dict[str, tuple[int, Reduce]] = {
    "RaggedBincount": (0, _count),
    "SegmentMax": (1, _or_zero(tf.reduce_max)),
    "SegmentMean": (1, _mean),
    "SegmentMin": (1, _or_zero(tf.reduce_min)),
    "SegmentProd": (1, lambda _, rows: tf.reduce_prod(rows, 1)),
    "SegmentSum": (1, lambda _, rows: tf.reduce_sum(rows, 1)),
    "UnsortedSegmentJoin": (
        1,
        lambda operation, rows: tf.strings.reduce_join(
            rows, 1, separator=operation.get_attr("separator").decode()
        ),
    ),
    "UnsortedSegmentMax": (1, lambda _, rows: tf.reduce_max(rows, 1)),
    "UnsortedSegmentMin": (1, lambda _, rows: tf.reduce_min(rows, 1)),
    "UnsortedSegmentProd": (1, lambda _, rows: tf.reduce_prod(rows, 1)),
    "UnsortedSegmentSum": (1, lambda _, rows: tf.reduce_sum(rows, 1)),
}
# The last input of these is the number of rows. They stay as they are if TensorFlow's reductions of
# ragged tensors have computed it.
SEGMENT_OPS = frozenset(name for name in OF_ROWS if name.startswith("Unsorted"))
