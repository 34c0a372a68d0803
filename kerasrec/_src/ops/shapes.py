"""Follows single sizes through the ops by which TensorFlow computes shapes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from kerasrec._src.ops.views import cut_of_rows, static_value


@dataclass(frozen=True)
class OpenSize:
    """The size of an axis that is not known while tracing.

    Args:
        tensor: The tensor.
        axis: The axis.
    """

    tensor: tf.Tensor
    axis: int


# See `moves_of_bound`.
_OF_BOUNDS: dict[str, Callable[[int, int], int | None]] = {
    "AddV2": operator.add,
    "Sub": operator.sub,
    "Minimum": lambda one, other: one if one == other else None,
    "Maximum": lambda one, other: one if one == other else None,
}
Entry = int | OpenSize | None
# Stands for the number of tokens; no other size of a program has this value.
_TOKENS = 1_000_003


def entries_of(shape: tf.Tensor) -> list[Entry]:
    """Returns the first entries of a vector of sizes, or the only one of a scalar.

    An entry is None if it is computed in another way. There are fewer entries than in the vector if
    its size is not known.
    """
    static, operation = static_value(shape), shape.op
    if static is not None:
        return [int(size) if size >= 0 else None for size in np.atleast_1d(static)]
    found = _computed(operation, shape.value_index)
    size = 1 if shape.shape.rank == 0 else None if shape.shape.rank is None else shape.shape[0]
    return found if size is None else (found + [None] * size)[:size]


def _computed(operation: tf.Operation, index: int) -> list[Entry]:
    """Returns the first entries of an output of an op."""
    kind, inputs = operation.type, list(operation.inputs)
    if kind in ("Shape", "Size"):
        dims = inputs[0].shape
        if dims.rank is None or (kind == "Size" and dims.rank != 1):
            return []
        pairs = enumerate(dims.as_list())
        return [OpenSize(inputs[0], axis) if size is None else size for axis, size in pairs]
    if kind in ("Cast", "Identity"):
        return entries_of(inputs[0])
    if kind == "Pack" and inputs[0].shape.rank == 0:
        return [entries_of(tensor)[0] for tensor in inputs]
    if kind == "ConcatV2":
        found: list[Entry] = []
        for tensor in inputs[:-1]:
            found += entries_of(tensor)
            if not tensor.shape.is_fully_defined():
                break
        return found
    if kind == "Unpack" and inputs[0].shape.rank == 1:
        return entries_of(inputs[0])[index : index + 1]
    if kind in ("GatherV2", "StridedSlice"):
        places = entries_taken(operation)
        whole = entries_of(inputs[0])
        if places is not None:
            return [whole[place] for place in places]
        taken = cut_of_rows(operation) if kind == "StridedSlice" else None
        begins_alike = isinstance(taken, slice) and taken.start is None and taken.step == 1
        return whole[:1] if begins_alike or taken == 0 else []
    if kind == "Prod":
        factors = [factor for factor in entries_of(inputs[0]) if isinstance(factor, int)]
        return [math.prod(factors)] if len(factors) == inputs[0].shape.num_elements() else []
    return []


def bounded_size(size: tf.Tensor) -> int | None:
    """Returns a size with equal lower and upper bounds; None if they differ.

    `tf.math.bincount` computes such a size, from its `minlength` and `maxlength`.
    """
    bounds = []
    for kind in ("Minimum", "Maximum"):
        while size.op.type == "Cast":
            size = size.op.inputs[0]
        if size.op.type != kind:
            return None
        bound, size = size.op.inputs
        bounds.append(tf.get_static_value(bound))
    most, least = bounds
    return int(most) if None not in bounds and least >= most else None


def moves_of_bound(operation: tf.Operation) -> Callable[[int, int], int | None] | None:
    """Returns how far a bound of a slice moves if the two numbers that it is computed from move.

    Returns None if an op is not one by which TensorFlow computes such bounds.
    """
    return _OF_BOUNDS.get(operation.type)


def first_size(shape: tf.Tensor) -> tf.Tensor:
    """Returns the scalar that is the first size in a shape, if it was computed separately."""
    first = shape.op.inputs[0] if shape.op.type == "ConcatV2" else shape
    is_one = first.op.type in ("ExpandDims", "Pack", "StridedSlice")
    return first.op.inputs[0] if is_one and first.op.inputs[0].shape.rank == 0 else first


def lengths_of_splits(operation: tf.Operation) -> tf.Tensor | None:
    """Returns the lengths of rows of which an op computes the row splits; None for other ops."""
    if operation.type != "ConcatV2" or len(operation.inputs) != 3:
        return None
    start, sums = static_value(operation.inputs[0]), operation.inputs[1].op
    if start is None or start.tolist() != [0] or sums.type != "Cumsum":
        return None
    is_other = sums.get_attr("exclusive") or sums.get_attr("reverse")
    return None if is_other else sums.inputs[0]


def named_axes(tensor: tf.Tensor) -> list[int] | None:
    """Returns the axes that an input names; None if they are not known.

    The gradient of an op that broadcasts computes them at run time: those along which shapes
    differ. The first axis of values of tokens has the same size in all of them.
    """
    static = static_value(tensor)
    if static is not None:
        return [int(axis) for axis in static.flat]
    if tensor.op.type != "BroadcastGradientArgs":
        return None
    shapes = []
    for source in tensor.op.inputs:
        sizes = [_TOKENS if _is_of_rows(size) else size for size in entries_of(source)]
        if len(sizes) != source.shape.num_elements() or not all(isinstance(n, int) for n in sizes):
            return None
        shapes.append(sizes)
    with tf.init_scope():
        found = tf.raw_ops.BroadcastGradientArgs(s0=shapes[0], s1=shapes[1])
        return [int(axis) for axis in found[tensor.value_index].numpy()]


def _is_of_rows(size: Entry) -> bool:
    return isinstance(size, OpenSize) and size.axis == 0


def entries_taken(operation: tf.Operation) -> np.ndarray | None:
    """Returns the places of the entries of a vector that an op takes; None if not known."""
    if operation.type not in ("GatherV2", "StridedSlice"):
        return None
    if operation.inputs[0].shape.rank != 1 or operation.inputs[0].shape[0] is None:
        return None
    size = operation.inputs[0].shape[0]
    if operation.type == "GatherV2":
        places = static_value(operation.inputs[1])
        return None if places is None else np.atleast_1d(places) % size
    taken = cut_of_rows(operation)
    return None if taken is None else np.atleast_1d(np.arange(size)[taken])
