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
    if node.op == "Reshape":
        value, shape = node.inputs
        is_same = shape.node.op == "Shape" and _same(shape.node.inputs[0], value)
        return [value] if is_same else None
    if node.op == "Sum" and _are_no_axes(node.inputs[1]):
        return [node.inputs[0]]
    return None


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
    is_known = one.type.kind is Kind.TOKEN and one.type.is_static
    return is_known and one.type.as_rows() == two.type.as_rows()
