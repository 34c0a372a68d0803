"""What sums over tokens, and what has a row for each token, among values of no single token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from kerasrec.emit.xla_ops import TOKENWISE
from kerasrec.graph.graph import Body
from kerasrec.graph.nodes import Accumulate, Computed, Primitive
from kerasrec.graph.types import Kind
from kerasrec.graph.values import Node, Value

_SHAPES = frozenset({"Shape", "Size"})
_IN_ROWS = TOKENWISE | {"BiasAdd", "GatherV2", "Reshape"}


def is_reduction(node: Node) -> bool:
    """Whether an op sums over the tokens, so that rows of zeros change nothing."""
    if node.types[0].kind is not Kind.WAVE or not isinstance(node, Primitive):
        return False
    if node.op == "BiasAddGrad":
        return True
    if node.op == "MatMul":
        get = node.operation.get_attr
        return bool(get("transpose_a")) and not get("transpose_b")
    return node.op == "Sum" and 0 in (_axes(node) or ())


def _axes(node: Primitive) -> list[int] | None:
    """The axes that an op sums over, where they are known."""
    found = tf.get_static_value(node.operation.inputs[1])
    return None if found is None else list(found.reshape(-1))


def _is_within_tokens(node: Primitive) -> bool:
    """Whether an op that is no reduction is known to sum over the entries of each token alone."""
    if _axes(node) is not None:
        return True
    # The gradient of an op that repeats entries of one value as another has more of them. Between
    # tokens these are never along the token axis, except where it has one row.
    axes = node.inputs[1].node
    if axes.op != "BroadcastGradientArgs":
        return False
    found = list(map(_whose_shape, axes.inputs))
    return _rank_of_tokens(found) >= 0


def _whose_shape(value: Value) -> Value | None:
    """The value whose shape another one is, or the beginning of whose shape."""
    node = value.node
    if node.op == "StridedSlice" and isinstance(node, Primitive):
        begin = tf.get_static_value(node.operation.inputs[1])
        if begin is None or begin.any():
            return None
        node = node.inputs[0].node
    return node.inputs[0] if node.op == "Shape" else None


def _rank_of_tokens(values: Sequence[Value | None]) -> int:
    """The rank of each token's part of some values; -1 if not all are of tokens and of one rank."""
    ranks = {
        -1
        if value is None or value.type.kind is not Kind.TOKEN or value.type.shape is None
        else len(value.type.shape)
        for value in values
    }
    return ranks.pop() if len(ranks) == 1 else -1


def unknown_sums(body: Body) -> Iterator[Node]:
    """Nodes that mix the tokens of a wave in another way than by a sum, or may do so."""
    in_rows: set[Value] = set()
    for node in body.nodes:
        read = [value for value in node.inputs if _has_rows(value, in_rows)]
        if isinstance(node, Accumulate):
            if len(node.inputs) == 1 and read:
                yield node
        elif read and isinstance(node, Computed) and node.types[0].kind is Kind.WAVE:
            if node.op == "BatchMatMulV2" and _rank_of_tokens(node.inputs) >= 2:
                in_rows.update(node.outputs)
            elif node.op in _IN_ROWS or (node.op == "Sum" and not is_reduction(node)):
                if node.op == "Sum" and not _is_within_tokens(node):  # type: ignore[arg-type]
                    yield node
                in_rows.update(node.outputs)
            elif not (is_reduction(node) or node.op in _SHAPES):
                yield node


def _has_rows(value: Value, in_rows: set[Value]) -> bool:
    return value.type.kind is Kind.TOKEN or value in in_rows
