"""Finds numbers that depend on how many tokens there are.

How many there are depends on which tokens happen to run together. So such a number may be the size
of a tensor, but must not be part of what is computed for a token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.axes import unstacked
from kerasrec._src.ops.shapes import OpenSize, entries_of, entries_taken
from kerasrec._src.ops.table import Is, facts_of, has
from kerasrec._src.ops.views import has_open_rows
from kerasrec._src.trace.known import Known, Size


def sizes_after(operation: tf.Operation, inputs: Sequence[Known]) -> Sequence[Size]:
    """Returns how the outputs of an op depend on the number of tokens.

    Ops that are not known here, such as those that make a tensor of a given size, count as
    independent of it.

    Args:
        operation: Any op.
        inputs: What is known of its inputs.
    """
    kind, outputs = operation.type, operation.outputs
    is_size = has(kind, Is.SIZES)
    if is_size and outputs[0].shape.rank != 0:
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
    is_quotient = has(kind, Is.QUOTIENT) and all(is_count)
    depends = (
        (is_size and inputs[0].axis is not None)
        or (facts_of(kind).is_elementwise and any(is_count) and not is_quotient)
        or (has(kind, Is.RESHAPING) and is_count[0])
        or (has(kind, Is.FILLING) and is_count[1])
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
    is_sum = has(operation.type, Is.SUM | Is.DIFFERENCE) and output.shape.rank == 0
    is_value = has_open_rows(output) or any(item.is_single for item in inputs)
    return (is_sum and not size.is_of_other_axes) or (size.is_count and is_value)


def begins_with_count(shape: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether the first size in a shape is the number of tokens, and not a multiple of it, say.

    Args:
        shape: A shape, or a single size.
        kind: Returns the kind of a tensor.
    """
    first = next(iter(entries_of(shape)), None)
    return isinstance(first, OpenSize) and first.axis == 0 and _has_rows(first.tensor, kind)


def _has_rows(tensor: tf.Tensor, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether a tensor has a row for each token, whatever is in the row."""
    if kind(tensor) is Kind.TOKEN:
        return True
    alike = [source for source in tensor.op.inputs if source.shape.rank == tensor.shape.rank]
    is_elementwise = facts_of(tensor.op.type).is_elementwise
    return is_elementwise and any(_has_rows(source, kind) for source in alike)


def _after_shape(operation: tf.Operation, sizes: Sequence[Size]) -> Sequence[Size]:
    """Returns what is known of the sizes that an op computes from a shape with a token axis."""
    facts, outputs, place = facts_of(operation.type), operation.outputs, sizes[0].count_at
    count, other = Size(is_count=True), Size(is_of_other_axes=True)
    if facts.is_elementwise and outputs[0].shape == operation.inputs[0].shape:
        return [next(size for size in sizes if size.count_at is not None)]
    if place is None:
        return [Size()] * len(outputs)
    if facts.axes is unstacked:
        return [count if number == place else other for number in range(len(outputs))]
    chosen = entries_taken(operation)
    if chosen is not None and place not in chosen:
        return [other]
    if outputs[0].shape.rank == 0:
        return [count]
    if chosen is not None:
        return [Size(count_at=list(chosen).index(place))]
    return [Size()] * len(outputs)
