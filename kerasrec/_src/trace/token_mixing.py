"""Finds ops that compute one value from several tokens.

TensorFlow's shape inference leaves the size of the token axis open. It cannot say whether an op
cut, joined or reduced that axis. The tables below say so if it is the first axis, and
`token_axis.py` if it is another one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.trace.known import Known, has_open_rows
from kerasrec._src.trace.token_axis import AXIS_OPS, ELEMENTWISE, REDUCTIONS, Axes, static_value

# Ops whose outputs have a leading axis of open size that depends on the values of tokens.
_COUNTING_OPS = frozenset({
    "BroadcastGradientArgs", "Where", "Unique", "UniqueV2", "UniqueWithCounts",
    "UniqueWithCountsV2", "RaggedGather", "RaggedRange", "Range",
})  # fmt: skip
# Ops that add up rows, or change their order.
_ROW_OPS = frozenset({
    "RandomShuffle", "StatelessShuffle", "SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin",
    "SegmentProd", "UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin",
    "UnsortedSegmentProd", "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN",
    "Gather", "Diag", "DiagPart",
})  # fmt: skip
# Ops along the last axis, which is the token axis if there is no other.
_LAST_AXIS_OPS = frozenset({
    "Softmax", "LogSoftmax", "TopKV2", "LowerBound", "UpperBound", "IsotonicRegression",
    "DenseBincount", "MatrixDiag", "MatrixDiagV2", "MatrixDiagV3",
})  # fmt: skip
# Ops that put rows back at the places of their tokens, or take them from there, by the tokens'
# numbers. For each, how many of its first inputs are values of tokens: if one of these is mixed, so
# is the result, whatever the numbers are.
# fmt: off
_SCATTERS = {"DynamicStitch": 0, "ScatterNd": 0, "CropAndResize": 2} | dict.fromkeys((
    "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax",
    "TensorScatterMin", "GatherNd", "TensorListGather",
), 1)
# fmt: on
# Ops that take the range of numbers from their whole input, unless they are given a range.
_QUANTIZERS = frozenset(f"QuantizeAndDequantizeV{version}" for version in (2, 3, 4))
# Ops that leave the first axis unchanged if their second input begins with this number.
_WHOLE = {"Tile": 1, "Pad": 0, "PadV2": 0, "MirrorPad": 0, "Slice": 0}


def mixes_tokens(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes from several tokens, or from a value that is mixed already."""
    if operation.type in _SCATTERS:
        values = inputs[: _SCATTERS[operation.type]]
        return any(item.is_mixed for item in values) or _scatters_by_values(operation, inputs)
    if any(item.is_mixed for item in inputs):
        return True
    if operation.type == "TensorListSetItem" and inputs[2].is_single:
        return _hands_on(operation)
    if averages_open_axis(operation):
        is_padded = inputs[0].kind is Kind.WAVE or _is_padded(operation.inputs[0])
        if is_padded:
            return True
    return works_along_first_axis(operation, [item.axis for item in inputs])


def _hands_on(operation: tf.Operation) -> bool:
    """Whether an op puts an item at a fixed place of a list that a loop passes to its next turn.

    `keras.ops.scan` passes values to the next token in this way. A list that is made in the turn
    itself belongs to this turn.
    """
    if tf.get_static_value(operation.inputs[1]) is None:
        return False
    made_by = operation.inputs[0].op
    while made_by.type in ("TensorListSetItem", "TensorListResize", "Identity"):
        made_by = made_by.inputs[0].op
    return bool(made_by.type == "Placeholder")


def _scatters_by_values(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op finds tokens by numbers other than their own.

    A token's own number is computed from all tokens, by `tf.range(tf.shape(x)[0])` or `tf.where`.
    """
    kind, axes = operation.type, [item.axis for item in inputs]
    if kind == "DynamicStitch":
        half = len(inputs) // 2
        return 0 in axes[half:] and not all(item.is_mixed for item in inputs[:half])
    if kind == "ScatterNd":
        return has_open_rows(operation.outputs[0]) and not inputs[0].is_mixed
    if kind == "CropAndResize":
        return axes[0] == 0 and not inputs[2].is_mixed
    if kind == "TensorListGather":
        return inputs[0].is_single and not inputs[1].is_mixed
    return axes[0] == 0 and not inputs[1].is_mixed


def works_along_first_axis(operation: tf.Operation, axes: Axes) -> bool:
    """Whether an op cuts, joins, reorders or reduces the token axis, if it is the first."""
    if operation.type in _COUNTING_OPS:
        return True
    if operation.type == "ConcatV2" and 0 in axes:
        return tf.get_static_value(operation.inputs[-1]) == 0
    if axes[0] != 0:
        return False
    if operation.type in _ROW_OPS:
        return True
    if operation.type.startswith("FusedBatchNorm"):
        return operation.get_attr("is_training")
    if operation.type in _QUANTIZERS:
        return not operation.get_attr("range_given") and operation.get_attr("axis") != 0
    if operation.type in _WHOLE:
        return _begins_with_another(operation.inputs[1], _WHOLE[operation.type])
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
        shape = operation.inputs[0].shape
        return shape.rank is not None and shape[-1] is None
    if operation.type in AXIS_OPS:
        along, rank = static_value(operation.inputs[-1]), operation.inputs[0].shape.rank
        return along is None or rank is None or 0 in np.atleast_1d(along) % rank
    return False


def averages_open_axis(operation: tf.Operation) -> bool:
    """Whether an op is a mean or product along an open axis other than the first.

    Padded rows have such an axis. It is as long as the longest row of the tokens that run together,
    so the result depends on them, whatever rows are padded with. A sum does not if it is zeros.
    """
    if operation.type not in ("Mean", "Prod"):
        return False
    axes, shape = static_value(operation.inputs[1]), operation.inputs[0].shape
    if axes is None or shape.rank is None:
        return False
    return any(axis and shape[axis] is None for axis in np.atleast_1d(axes) % shape.rank)


def _is_padded(tensor: tf.Tensor) -> bool:
    """Whether a tensor is computed from padded rows, element by element."""
    pending, seen = [tensor.op], set()
    while pending:
        operation = pending.pop()
        if operation.type == "RaggedTensorToTensor":
            return True
        if operation.type in ELEMENTWISE and operation not in seen:
            seen.add(operation)
            pending += [source.op for source in operation.inputs]
    return False


def is_of_single_tokens(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op makes a list of single tokens, or computes from an element of such a list.

    Single entries of rows count, too.
    """
    if operation.type == "TensorListFromTensor":
        (item,) = inputs[:1]
        return 0 in (item.axis, item.entries and item.entries.axis)
    return operation.type != "TensorListStack" and any(item.is_single for item in inputs)


def is_of_one_token(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes only from elements for one token, and not from a list of elements."""
    if operation.type.startswith("TensorList") or not any(item.is_single for item in inputs):
        return False
    return all(item.is_single or item.kind is Kind.SHARED for item in inputs)


def _begins_with_another(tensor: tf.Tensor, number: int) -> bool:
    """Whether the first entry of a list differs from a number; False if it cannot be read.

    A list that a user writes has an entry for each axis, and some of these may be computed. The
    lists that TensorFlow computes for gradients are not made of single entries.
    """
    entries, operation = static_value(tensor), tensor.op
    if entries is not None:
        return bool(np.any(entries[:1] != number))
    if operation.type == "Cast" or (
        operation.type == "ConcatV2" and tf.get_static_value(operation.inputs[-1]) == 0
    ):
        return _begins_with_another(operation.inputs[0], number)
    if operation.type == "Pack" and operation.get_attr("axis") == 0:
        first = static_value(operation.inputs[0])
        return first is None or bool(np.any(first != number))
    return False


def _cuts_first_axis(operation: tf.Operation) -> bool:
    if operation.get_attr("ellipsis_mask") & 1 or operation.get_attr("new_axis_mask") & 1:
        return False
    is_whole = operation.get_attr("begin_mask") & operation.get_attr("end_mask") & 1
    strides = tf.get_static_value(operation.inputs[3])
    return not is_whole or strides is None or strides[0] != 1
