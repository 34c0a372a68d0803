"""Among WAVE values, finds sums over tokens, and values that have a row for each token."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from kerasrec._src.frames.rows_xla.entries import is_of_entries
from kerasrec._src.graph.graph import Body
from kerasrec._src.graph.nodes import Accumulate, Computed, Primitive
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.axes import SUMMED, reshaped
from kerasrec._src.ops.table import Is, facts_of, has
from kerasrec._src.trace.row_reductions import SEGMENT_OPS


def is_reduction(node: Node) -> bool:
    """Whether an op sums over the tokens, so that rows of zeros change nothing."""
    if node.types[0].kind is not Kind.WAVE or not isinstance(node, Primitive):
        return False
    if has(
        node.op, Is.SCATTERING
    ):  # Into a table of a size that has nothing to do with the tokens.
        return node.inputs[2].is_shared
    return node.place_of_rows is SUMMED


def keeps_rows(node: Node) -> bool:
    """Whether an op has a row of output for each row that it reads."""
    return isinstance(node, Primitive) and node.place_of_rows == 0


def rows_of_token(value: Value) -> int:
    """The number of a value's rows for each token; more than one if rows were cut into pieces."""
    if value.type.kind is Kind.TOKEN or not _is_reshaped(value.node):
        return 1
    if is_of_entries(value.node.inputs[0]):
        return 1
    before, mine = value.node.inputs[0].type.shape or (), value.type.shape or ()
    return _num_elements(before) // max(1, _num_elements(mine[1:]))


def _is_reshaped(node: Node) -> bool:
    return facts_of(node.op).axes is reshaped


def _row_size(value: Value) -> int:
    """The number of elements in a row of a value."""
    shape = value.type.shape or ()
    return _num_elements(shape if value.type.kind is Kind.TOKEN else shape[1:])


def _num_elements(shape: Sequence[int | None]) -> int:
    return math.prod(dim or 0 for dim in shape)


def unknown_sums(body: Body, left_out: Collection[Node]) -> Iterator[Node]:
    """Yields the nodes that mix, or may mix, the tokens of a wave other than by a sum.

    Args:
        body: The body whose nodes are examined, in order.
        left_out: The nodes that are not checked.
    """
    in_rows: dict[Value, int] = {}  # How many rows of the value a token has.
    for node in body.nodes:
        if node.op in SEGMENT_OPS:
            in_rows.update(dict.fromkeys(node.outputs, 1))
        if node in left_out:
            continue
        read = [value for value in node.inputs if value.type.kind is Kind.TOKEN or value in in_rows]
        rows = max((in_rows.get(value, 1) for value in read), default=1)
        if isinstance(node, Accumulate):
            if len(node.inputs) == 1 and read:
                yield node
        elif read and isinstance(node, Computed) and node.types[0].kind is Kind.WAVE:
            if keeps_rows(node):
                if _is_reshaped(node) and not is_of_entries(node.inputs[0]):
                    rows = rows * _row_size(node.inputs[0]) // max(1, _row_size(node.output()))
                in_rows.update(dict.fromkeys(node.outputs, rows))
            elif not ((is_reduction(node) and rows == 1) or has(node.op, Is.SIZES)):
                yield node
