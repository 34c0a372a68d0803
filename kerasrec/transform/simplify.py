"""Drops ops that do nothing once the shapes of tokens are known.

TensorFlow's gradients undo broadcasting at run time: two shapes are read, compared, and the
cotangent is summed over no axes and reshaped to the shape it has. When the types of both operands
are equal this cannot do anything, whatever the number of tokens.
"""

from __future__ import annotations

from kerasrec.graph.types import Kind
from kerasrec.graph.values import Node, Value


def simpler(node: Node) -> list[Value] | None:
    """Values equal to the node's outputs that exist already, or None."""
    if node.op in ("Identity", "IdentityN"):
        return list(node.inputs)
    if node.op == "Reshape" and _is_shape_of_same_type(node.inputs[1], node.inputs[0]):
        return [node.inputs[0]]
    if node.op == "Sum" and _are_no_axes(node.inputs[1]):
        return [node.inputs[0]]
    return None


def _is_shape_of_same_type(shape: Value, value: Value) -> bool:
    return shape.node.op == "Shape" and _same(shape.node.inputs[0], value)


def _are_no_axes(axes: Value) -> bool:
    """Whether the axes to sum over come from comparing the shapes of two values of one type."""
    if axes.node.op != "BroadcastGradientArgs":
        return False
    shapes = [value.node for value in axes.node.inputs]
    if not all(shape.op == "Shape" for shape in shapes):
        return False
    one, two = (shape.inputs[0] for shape in shapes)
    return two.type.kind is Kind.TOKEN and _same(one, two)


def _same(one: Value, two: Value) -> bool:
    """Whether `one` is a TOKEN of known shape, and `two` has its shape and dtype."""
    return (
        one.type.kind is Kind.TOKEN
        and one.type.is_static
        and one.type.tensor_shape().as_list() == _dims(two)
        and one.type.dtype == two.type.dtype
    )


def _dims(value: Value) -> list[int | None] | None:
    shape = value.type.tensor_shape()
    return None if shape.rank is None else shape.as_list()
