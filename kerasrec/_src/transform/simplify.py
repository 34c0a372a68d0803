"""Drops ops that do nothing once the shapes of tokens are known.

TensorFlow's gradients undo broadcasting at run time. They read and compare two shapes, sum the
cotangent over some axes, if any, and reshape it. If the shapes of both operands are known, so are
the axes, whatever the number of tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.graph.types import Kind, Shape
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.table import Is, has


def simpler(node: Node) -> list[Value] | None:
    """Returns existing values that are equal to the node's outputs; None if there are none."""
    if has(node.op, Is.PASSING):
        return list(node.inputs)
    if has(node.op, Is.RESHAPING):
        value, shape = node.inputs
        is_same = has(shape.node.op, Is.SHAPE) and _same(shape.node.inputs[0], value)
        return [value] if is_same else None
    operands = _operands(node.inputs[1]) if _is_sum(node) else []
    if operands and operands[1].type.kind is Kind.TOKEN and _same(*operands):
        return [node.inputs[0]]  # There are no axes to sum over.
    return None


def sum_of_broadcast(node: Node) -> tuple[Value, list[int]] | None:
    """Finds the sum that a Reshape completes if it undoes the broadcasting of a TOKEN.

    Returns:
        A value, and the axes over which to sum it; these axes are kept with size 1. None if the
        node does something else, or if shapes are not known.
    """
    if not has(node.op, Is.RESHAPING) or not _is_sum(node.inputs[0].node):
        return None
    value, axes = node.inputs[0].node.inputs
    operands, like = _operands(axes), node.inputs[1].node
    if not operands or not has(like.op, Is.SHAPE):
        return None
    own, shape = operands[axes.index], broadcast_of(operands)
    is_broadcast = value.type.kind is Kind.TOKEN and value.type.shape == shape
    if shape is None or not (is_broadcast and _same(own, like.inputs[0])):
        return None
    pairs = enumerate(zip(own.type.shape or (), shape, strict=True), start=1)
    return value, [axis for axis, (mine, all_of_it) in pairs if mine != all_of_it]


def _is_sum(node: Node) -> bool:
    return has(node.op, Is.SUMMING)


def broadcast_of(values: Sequence[Value]) -> Shape:
    """The shape of one token's result if an op broadcasts its inputs.

    None if it is not certain: if some shape is not known, TOKENs have different ranks, a shared
    value may be broadcast along the token axis, or a value is neither TOKEN nor SHARED.
    """
    tokens = [value.type for value in values if value.type.kind is Kind.TOKEN]
    others = [value.type for value in values if value.type.kind is not Kind.TOKEN]
    ranks = {len(item.shape or ()) for item in tokens}
    if len(ranks) != 1 or not all(item.is_static for item in (*tokens, *others)):
        return None
    (rank,) = ranks
    if any(item.kind is Kind.WAVE or len(item.shape or ()) > rank for item in others):
        return None
    try:
        shapes = [tf.TensorShape(item.shape) for item in (*tokens, *others)]
        found = functools.reduce(tf.broadcast_static_shape, shapes)
    except ValueError:
        return None
    return tuple(found.as_list())


def _operands(axes: Value) -> list[Value]:
    """The two values with shapes that determine the axes to sum over; empty if unknown."""
    shapes = [size.node for size in axes.node.inputs]
    is_known = has(axes.node.op, Is.BROADCAST_AXES) and all(
        has(node.op, Is.SHAPE) for node in shapes
    )
    return [shape.inputs[0] for shape in shapes] if is_known else []


def _same(one: Value, two: Value) -> bool:
    """Whether `one` is a TOKEN of known shape, and `two` has its shape and dtype."""
    is_known = one.type.kind is Kind.TOKEN and one.type.is_static
    return is_known and one.type.as_rows() == two.type.as_rows()
