"""Finds numbers that depend on how many tokens there are.

How many there are depends on which tokens happen to run together. So such a number may be the size
of a tensor, but must not be part of what is computed for a token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.trace.known import Known, Size, has_open_rows
from kerasrec._src.trace.token_axis import ELEMENTWISE, static_value

_REDUCTIONS = frozenset({"Sum", "Prod", "Max", "Min"})
# A quotient of two counts is how many of something there are for each token.
_QUOTIENTS = frozenset({"FloorDiv", "RealDiv", "Div", "DivNoNan", "TruncateDiv"})
# Ops that move or repeat their first input.
_MOVES = frozenset({"BroadcastTo", "ExpandDims", "Reshape", "Squeeze", "StridedSlice", "Tile"})


def sizes_after(operation: tf.Operation, inputs: Sequence[Known]) -> Sequence[Size]:
    """Returns how the outputs of an op depend on the number of tokens.

    Ops that are not known here, such as those that make a tensor of a given size, count as
    independent of it.

    Args:
        operation: Any op.
        inputs: What is known of its inputs.
    """
    kind, outputs = operation.type, operation.outputs
    if kind in ("Shape", "ShapeN"):
        return [Size(count_at=item.axis) for item in inputs]
    sizes = [item.size for item in inputs]
    is_count = [size.is_count for size in sizes]
    if any(size.count_at is not None for size in sizes) and not any(is_count):
        return _after_shape(operation, sizes)
    is_other = [size.is_of_other_axes for size in sizes]
    is_shared = [item.kind is Kind.SHARED for item in inputs]
    pairs = zip(is_other, is_shared, strict=True)
    if any(is_other) and all(other or shared for other, shared in pairs):
        return [Size(is_of_other_axes=True)] * len(outputs)
    is_quotient = kind in _QUOTIENTS and all(is_count)
    depends = (
        (kind == "Size" and inputs[0].axis is not None)
        or (kind in ELEMENTWISE and any(is_count) and not is_quotient)
        or (kind in _MOVES and is_count[0])
        or (kind == "Fill" and is_count[1])
    )
    return [Size(is_count=depends)] * len(outputs)


def has_count_as_value(operation: tf.Operation, inputs: Sequence[Known], size: Size) -> bool:
    """Whether an op makes the number of tokens part of what is computed for a token.

    Args:
        operation: Any op with an output.
        inputs: What is known of its inputs.
        size: How its first output depends on the number of tokens.
    """
    output = operation.outputs[0]
    # A count plus or minus something is not the size of a tensor that these tokens have.
    is_sum = operation.type in ("AddV2", "Sub") and output.shape.rank == 0
    is_value = has_open_rows(output) or any(item.is_single for item in inputs)
    return (is_sum and not size.is_of_other_axes) or (size.is_count and is_value)


def sizes_in(shape: tf.Tensor) -> list[int | None] | None:
    """Returns the sizes in a shape, None for those that are open; None if nothing is known of it.

    TensorFlow itself does not know those of a shape that is computed as `tf.tensordot` does.
    """
    kind, inputs = shape.op.type, list(shape.op.inputs)
    found = static_value(shape)
    if found is not None:
        return [int(size) if size >= 0 else None for size in np.atleast_1d(found)]
    if kind == "Shape":
        dims = inputs[0].shape
        return None if dims.rank is None else dims.as_list()
    if kind not in ("ConcatV2", "GatherV2", "Pack", "Prod"):
        return None
    joined = {"Pack": inputs, "ConcatV2": inputs[:-1]}.get(kind, inputs[:1])
    parts = list(map(sizes_in, joined))
    if None in parts:
        return None
    sizes = [size for part in parts for size in part or ()]
    if kind == "GatherV2":
        chosen = _chosen(shape.op)
        return None if chosen is None else [sizes[place] for place in chosen]
    if kind == "Prod":
        return [None if None in sizes else math.prod(size or 0 for size in sizes)]
    return sizes


def begins_with_count(shape: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether the first size in a shape is the number of tokens, and not a multiple of it, say.

    Args:
        shape: A shape.
        kind: Returns the kind of a tensor.
    """
    operation = shape.op
    if operation.type == "Shape":
        return _has_rows_of_tokens(operation.inputs[0], kind)
    if operation.type == "Pack":
        return is_count(operation.inputs[0], kind)
    if operation.type in ("Cast", "Identity") or (
        operation.type in ("ConcatV2", "StridedSlice") and _keeps_first(operation)
    ):
        return begins_with_count(operation.inputs[0], kind)
    return False


def _has_rows_of_tokens(tensor: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether a tensor has a row for each token, whatever is in the row."""
    if kind(tensor) is Kind.TOKEN:
        return True
    alike = [source for source in tensor.op.inputs if source.shape.rank == tensor.shape.rank]
    return tensor.op.type in ELEMENTWISE and any(
        _has_rows_of_tokens(source, kind) for source in alike
    )


def is_count(number: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether a scalar is the number of tokens."""
    operation = number.op
    if operation.type in ("Cast", "Identity"):
        return is_count(operation.inputs[0], kind)
    if operation.type == "Size":
        (tensor,) = operation.inputs
        return kind(tensor) is Kind.TOKEN and tensor.shape.rank == 1
    is_first = operation.type == "Unpack" and number.value_index == 0
    is_first |= operation.type == "StridedSlice" and _keeps_first(operation)
    return is_first and begins_with_count(operation.inputs[0], kind)


def _keeps_first(operation: tf.Operation) -> bool:
    """Whether the first number of an op's first input, a vector, is the first of its output."""
    if operation.type == "ConcatV2":
        return bool(operation.inputs[0].shape[0])
    begin, _, strides = (tf.get_static_value(tensor) for tensor in operation.inputs[1:])
    is_plain = not operation.get_attr("new_axis_mask") and not operation.get_attr("ellipsis_mask")
    starts = bool(operation.get_attr("begin_mask")) or (begin is not None and begin[0] == 0)
    return is_plain and starts and strides is not None and strides[0] == 1


def _after_shape(operation: tf.Operation, sizes: Sequence[Size]) -> Sequence[Size]:
    """Returns what is known of the sizes that an op computes from a shape with a token axis."""
    kind, outputs, place = operation.type, operation.outputs, sizes[0].count_at
    count, other = Size(is_count=True), Size(is_of_other_axes=True)
    if kind in ELEMENTWISE and outputs[0].shape == operation.inputs[0].shape:
        return [next(size for size in sizes if size.count_at is not None)]
    if place is not None and kind == "Unpack":
        return [count if number == place else other for number in range(len(outputs))]
    if place is not None and kind in _REDUCTIONS:
        return [count]
    if place is not None and kind in ("StridedSlice", "GatherV2"):
        chosen = _chosen(operation)
        if chosen is not None and place not in chosen:
            return [other]
        if chosen is not None:
            is_one = outputs[0].shape.rank == 0
            return [count if is_one else Size(count_at=list(chosen).index(place))]
    return [Size()] * len(outputs)


def _chosen(operation: tf.Operation) -> np.ndarray | None:
    """Returns the places of the entries of a vector that an op chooses; None if not known."""
    size = operation.inputs[0].shape[0]
    given = [static_value(tensor) for tensor in operation.inputs[1:]]
    known = [np.atleast_1d(value) for value in given if value is not None]
    if size is None or len(known) < len(given):
        return None
    if operation.type == "GatherV2":
        return known[0] % size
    begin, end, stride = (int(value[0]) for value in known)
    if operation.get_attr("shrink_axis_mask"):
        return np.array([begin % size])
    first = None if operation.get_attr("begin_mask") else begin
    last = None if operation.get_attr("end_mask") else end
    return np.arange(size)[first:last:stride]
