"""Which ops compute one value from several tokens, or from all entries of rows.

TensorFlow's shape inference leaves the size of the token axis open. It cannot say whether an op
cut, joined or reduced that axis; the tables below say that of ops that have it first, and
`token_axis.py` of all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kerasrec.graph.types import Kind
from kerasrec.trace.known import Known, has_open_rows
from kerasrec.trace.token_axis import AXIS_OPS, ELEMENTWISE, REDUCTIONS, SIZES, Axes

# Their leading axis has an open size that depends on the values of tokens.
_COUNTING_OPS = frozenset(
    {"BroadcastGradientArgs", "Where", "Unique", "UniqueV2", "RaggedGather", "RaggedRange", "Range"}
)
# They add up rows, or change their order.
_ROW_OPS = frozenset({
    "RandomShuffle", "SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd",
    "UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd",
    "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN",
})  # fmt: skip
# They work along the last axis, which is that of tokens if there is no other.
_LAST_AXIS_OPS = frozenset({"Softmax", "LogSoftmax", "TopKV2"})
# `tf.searchsorted` makes one row of a sequence with one axis, and searches in that.
_SEARCHES = frozenset({"LowerBound", "UpperBound"})
# They add up all that they read, if their result has no axis of open size. Not the largest: a
# softmax of each row may subtract that of all rows.
_TOTALS = frozenset({"Sum", "Mean", "Prod", "EuclideanNorm", "L2Loss"})
# They put rows back where the tokens are.
_SCATTERS = frozenset(
    {"ScatterNd", "TensorScatterUpdate", "TensorScatterAdd", "DynamicStitch", "GatherNd"}
)


def mixes_tokens(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes from several tokens, or from what is of several tokens."""
    if any(item.is_mixed for item in inputs) and operation.type not in _SCATTERS:
        return True
    return _works_along_first_axis(operation, [item.axis for item in inputs])


def _works_along_first_axis(operation: tf.Operation, axes: Axes) -> bool:
    """Whether an op cuts, joins, reorders or reduces the token axis, where it is the first."""
    if operation.type in _COUNTING_OPS:
        return True
    if operation.type == "ConcatV2" and 0 in axes:
        return tf.get_static_value(operation.inputs[-1]) == 0
    if axes[0] != 0:
        return False
    if operation.type in _ROW_OPS:
        return True
    if operation.type == "ReverseSequence":
        return operation.get_attr("seq_dim") == 0
    if operation.type in REDUCTIONS:
        return not has_open_rows(operation.outputs[0])
    if operation.type == "GatherV2":
        axis = tf.get_static_value(operation.inputs[2])
        return axis == 0 and operation.get_attr("batch_dims") == 0
    if operation.type == "StridedSlice":
        return _cuts_first_axis(operation)
    if operation.type in _LAST_AXIS_OPS:
        return operation.inputs[0].shape.rank == 1
    if operation.type in _SEARCHES:
        made = operation.inputs[0].op
        return made.type == "Reshape" and made.inputs[0].shape.rank == 1
    if operation.type in AXIS_OPS:
        along = tf.get_static_value(operation.inputs[-1])
        return along is not None and bool((np.asarray(along) == 0).any())
    return False


def reads_all_entries(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes from all entries of rows, or of a stack of what tokens have."""
    source, output = operation.inputs[0], operation.outputs[0] if operation.outputs else None
    if output is None or inputs[0].kind is not Kind.WAVE or not source.dtype.is_floating:
        return False
    if operation.type in ("Softmax", "LogSoftmax"):
        return source.shape.rank == 1 and source.shape[0] is None
    if operation.type not in _TOTALS or None in (source.shape.rank, output.shape.rank):
        return False
    return None in source.shape and output.shape.is_fully_defined()


def passes_on_all_entries(
    operation: tf.Operation, inputs: Sequence[Known], leads_back: bool
) -> bool:
    """Whether values that are computed from all entries are among those of an op's result.

    Args:
        operation: any.
        inputs: what is known of its inputs.
        leads_back: whether it makes one value per token from rows.
    """
    if operation.type in SIZES:
        return False
    # Other inputs are places and sizes, in which all entries may have a part.
    reads_all = operation.type in ELEMENTWISE or leads_back
    return any(item.is_of_all_entries for item in (inputs if reads_all else inputs[:1]))


def is_of_single_tokens(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op makes a list of single tokens, or computes from an entry of such a list."""
    if operation.type == "TensorListFromTensor":
        return inputs[0].axis == 0
    return operation.type != "TensorListStack" and any(item.is_single for item in inputs)


def _cuts_first_axis(operation: tf.Operation) -> bool:
    if operation.get_attr("ellipsis_mask") & 1 or operation.get_attr("new_axis_mask") & 1:
        return False
    is_whole = operation.get_attr("begin_mask") & operation.get_attr("end_mask") & 1
    strides = tf.get_static_value(operation.inputs[3])
    return not is_whole or strides is None or strides[0] != 1
