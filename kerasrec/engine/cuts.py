"""Nodes of TensorFlow that cut a value of each token into pieces."""

from __future__ import annotations

from collections.abc import Sequence

from kerasrec.graph.types import Kind
from kerasrec.graph.values import Node, Value

CUTS = frozenset({"Split", "SplitV", "Unpack"})


def cut_value(node: Node) -> Value:
    """What a node of `CUTS` cuts into pieces."""
    return node.inputs[1 if node.op == "Split" else 0]


def cuts_into(node: Node, values: Sequence[Value]) -> bool:
    """Whether a node cuts the row of a token into these values, from left to right, all alike."""
    if node.op not in CUTS or list(values) != node.outputs:
        return False
    types = {value.type for value in values}
    (found, *others) = types
    whole = cut_value(node).type
    if others or not found.is_static or found.kind is not Kind.TOKEN:
        return False
    if node.op == "Unpack":
        return whole.shape == (len(values), *(found.shape or ()))
    return len(found.shape or ()) == 1
