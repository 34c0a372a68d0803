"""Matrix products and what cuts them into columns."""

from __future__ import annotations

from collections.abc import Sequence

from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.instructions import Fire

CUTS = frozenset({"Split", "SplitV", "Unpack"})


def cut_value(one: Fire) -> Value:
    """What an op of `CUTS` cuts into pieces."""
    return one.inputs[1 if one.node.op == "Split" else 0]


def cuts_into(one: Fire, values: Sequence[Value]) -> bool:
    """Whether an op cuts the row of a token into these values, from left to right, all alike."""
    if one.node.op not in CUTS or tuple(values) != one.outputs:
        return False
    types = {value.type for value in values}
    (found, *others) = types
    whole = cut_value(one).type
    if others or not found.is_static or found.kind is not Kind.TOKEN:
        return False
    if one.node.op == "Unpack":
        return whole.shape == (len(values), *(found.shape or ()))
    return len(found.shape or ()) == 1


def widths(columns: Sequence[Value]) -> list[int]:
    """How many numbers each column has for a token."""
    return [(value.type.shape or (0,))[-1] or 0 for value in columns]


def is_product(one: Fire, transpose_b: bool) -> bool:
    """Whether an op multiplies a value of each token by a shared weight."""
    if not isinstance(one.node, Primitive) or one.node.op != "MatMul":
        return False
    if one.inputs[0].is_shared or not one.inputs[1].is_shared:
        return False
    get = one.node.operation.get_attr
    is_plain = not get("transpose_a") and one.outputs[0].type.is_static
    return is_plain and get("transpose_b") == transpose_b


def is_transposing(one: Fire) -> bool:
    """Whether an op multiplies by the transpose of a weight, on whatever device."""
    return is_product(one, transpose_b=True) and not one.node.device
