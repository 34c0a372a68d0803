"""Finds which values have rows, of tokens or of entries of ragged rows, and which ops mix these.

In a block, entries are in the order of their frames. Rows without an entry are dead, like rows
without a frame. The lengths of rows must come from tables of ragged rows that all tokens share, as
in `tf.gather(rows, node)`: then the largest number of entries is known beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kerasrec._src.graph.graph import Body
from kerasrec._src.graph.nodes import Accumulate, Computed, Enter, Leave, Primitive, Rows, Switch
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Each, Node, Region, Value, each_of
from kerasrec._src.ops.axes import SUMMED, Place
from kerasrec._src.ops.table import Is, Ragged, has, op_named, places_after
from kerasrec._src.ops.views import cut_of_rows, gathers_rows


@dataclass(frozen=True)
class Lookup:
    """A lookup that gives each token a row of a table of ragged rows.

    Args:
        splits: The splits of the table.
        index: The row of each token.
    """

    splits: Value
    index: Value


def lookup_of(each: Each) -> Lookup | None:
    """The lookup from which the entries of a region come; None if they come from elsewhere."""
    lengths = _source(each.selector).node
    if not has(lengths.op, Is.SUBTRACTING):
        return None
    ends, starts = (_source(value).node for value in lengths.inputs)
    if not (_cuts(ends, 1, None) and _cuts(starts, None, -1)):
        return None
    splits = ends.inputs[0]
    return _lookup_at(splits.node) if splits == starts.inputs[0] and splits.index == 0 else None


def has_entries(body: Body) -> bool:
    """Whether a body has ragged rows."""
    return any(_is_of_rows(node) for node in body.nodes)


def filled_like(node: Node) -> Value | None:
    """The value whose shape an op fills with a number, as `tf.ones_like` does; None for others."""
    shape = node.inputs[0].node if has(node.op, Is.FILLING) else None
    return shape.inputs[0] if shape is not None and has(shape.op, Is.SHAPE) else None


def looks_up_ragged(node: Node) -> bool:
    """Whether an op looks up rows of a table of ragged rows."""
    return op_named(node.op).ragged is Ragged.LOOKS_UP


def _is_of_rows(node: Node) -> bool:
    regions = [node.region, *(value.region for value in node.outputs)]
    return isinstance(node, Rows) or looks_up_ragged(node) or any(map(each_of, regions))


def _lookup_at(node: Node) -> Lookup | None:
    if not looks_up_ragged(node) or len(node.inputs) != 3:
        return None
    splits, values, index = node.inputs
    if not (splits.is_shared and values.is_shared) or index.type.kind is not Kind.TOKEN:
        return None
    return Lookup(splits, _source(index)) if index.type.shape == () else None


def _source(value: Value) -> Value:
    """The value that was cast, selected or passed on to give this one, for the same tokens."""
    while has(value.node.op, Is.SAME_NUMBERS) or isinstance(value.node, Switch):
        value = value.node.inputs[0]
    return value


def _cuts(node: Node, begin: int | None, end: int | None) -> bool:
    """Whether an op cuts the first axis from `begin` to `end`; None means no cut on that side."""
    is_slice = isinstance(node, Primitive) and has(node.op, Is.SLICING)
    return is_slice and cut_of_rows(node.operation) == slice(begin, end, 1)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class RowsOf:
    """The kind of a value's rows: several for each token, or one for each entry of ragged rows.

    Args:
        per_token: How many rows a token has; more than one if it was cut into pieces.
        lookup: The lookup of the entries; None for rows of tokens.
    """

    per_token: int = 1
    lookup: Lookup | None = None


def rows_of(value: Value) -> RowsOf | None:
    """Returns the kind of a value's rows; None if it has none, or if it is not known."""
    facts = value.node.facts
    if ("rows", value.index) not in facts:
        facts["rows", value.index] = _rows_of(value)
    rows: RowsOf | None = facts["rows", value.index]
    return rows


def _rows_of(value: Value) -> RowsOf | None:
    node = value.node
    if value.type.kind is Kind.TOKEN or op_named(node.op).ragged is Ragged.REDUCES:
        return RowsOf()
    if isinstance(node, Leave | Rows):
        region = node.entries if isinstance(node, Rows) else node.inputs[0].region
        return RowsOf(lookup=_lookup_in(region))
    if looks_up_ragged(node):
        return RowsOf(lookup=_lookup_at(node)) if value.index else None
    like = filled_like(node)
    if like is not None:
        return rows_of(like)
    if has(node.op, Is.GATHERING) and is_ids(node.inputs[1]):
        return rows_of(node.inputs[1])
    if has(node.op, Is.BROADCASTING):
        return _after_broadcast(node)
    if value.is_shared or not isinstance(node, Primitive) or _place_of_rows(node) != 0:
        return None
    rows = max(filter(None, map(rows_of, node.inputs)), key=lambda rows: rows.per_token)
    return _after_reshape(node, rows) if has(node.op, Is.RESHAPING) else rows


def _after_broadcast(node: Node) -> RowsOf | None:
    """Returns the kind of rows broadcast to the shape of others, as in a gradient, or None."""
    value, shape = node.inputs
    rows = rows_of(value)
    if not has(shape.node.op, Is.SHAPE) or rows_of(shape.node.inputs[0]) != rows:
        return None
    adds_axes = len(value.type.shape or ()) != len(node.types[0].shape or ())
    return None if adds_axes else rows


def _after_reshape(node: Primitive, rows: RowsOf) -> RowsOf | None:
    """Returns the kind of rows after a reshape, which may cut or join them; None if not known."""
    value, shape = node.inputs
    if has(shape.node.op, Is.SHAPE) and rows_of(shape.node.inputs[0]):
        return rows_of(shape.node.inputs[0])
    shapes = (value.type.as_rows().shape or ())[1:], (node.types[0].shape or ())[1:]
    before, after = (math.prod(dim or 0 for dim in shape) for shape in shapes)
    found = replace(rows, per_token=rows.per_token * before // max(after, 1))
    return found if found == rows or (found.per_token and not rows.lookup) else None


def _place_of_rows(node: Primitive) -> Place:
    """Where the rows that an op reads are in its first output."""
    if "place" not in node.facts:
        axes = [0 if rows_of(value) else None for value in node.inputs]
        node.facts["place"] = places_after(node.operation, axes)[0]
    place: Place = node.facts["place"]
    return place


def num_rows_of_token(value: Value) -> int:
    """The number of a value's rows for each token or entry."""
    rows = rows_of(value)
    return rows.per_token if rows else 1


def is_ids(value: Value) -> bool:
    """Whether a value has the numbers of the rows to which entries belong."""
    node = value.node
    return isinstance(node, Rows) or (has(node.op, Is.SAME_IDS) and any(map(is_ids, node.inputs)))


def is_of_entries(value: Value) -> bool:
    """Whether a value that belongs to no token has a row for each entry of ragged rows."""
    return _lookup_of_rows(value) is not None


def _lookup_of_rows(value: Value) -> Lookup | None:
    rows = rows_of(value)
    return rows.lookup if rows else None


def is_reduction(node: Node) -> bool:
    """Whether an op sums over the tokens, so that rows of zeros change nothing."""
    if node.types[0].kind is not Kind.WAVE or not isinstance(node, Primitive):
        return False
    if has(node.op, Is.SCATTERING):  # Into a table whose size has nothing to do with the tokens.
        return node.inputs[2].is_shared
    return _place_of_rows(node) is SUMMED


def mixes_rows(node: Node) -> bool:
    """Whether a node may mix the tokens of a wave other than by a sum."""
    if isinstance(node, Accumulate):
        return len(node.inputs) == 1 and rows_of(node.inputs[0]) is not None
    is_checked = isinstance(node, Computed) and node.types[0].kind is Kind.WAVE
    if not is_checked or not any(map(rows_of, node.inputs)):
        return False
    is_right = is_reduction(node) or has(node.op, Is.SIZES) or is_of_entries_alone(node)
    return not is_right and rows_of(node.output()) is None


def is_of_entries_alone(node: Node) -> bool:
    """Whether an op may be compiled only since it is one on entries of ragged rows."""
    is_gather = has(node.op, Is.GATHERING) and is_ids(node.inputs[1])
    return is_gather or looks_up_ragged(node) or op_named(node.op).ragged is Ragged.REDUCES


_PRODUCT_OF_ROWS = (
    "as `h * w[..., None]` of ragged rows does; write "
    "kerasrec.map_fn(lambda pair: pair[0] * pair[1][:, None], (h, w))"
)


def refusal(node: Node) -> str | None:
    """Returns why a node cannot be compiled because of ragged rows; None if it can."""
    regions = [node.region, *(value.region for value in node.outputs)]
    if isinstance(node, Rows):
        regions.append(node.entries)
    for region in filter(None, regions):
        of_entries = [item for item in region.path() if isinstance(item, Each)]
        if len(of_entries) > 1:
            return "maps over rows inside of a map over rows"
        if of_entries and lookup_of(of_entries[0]) is None:
            return "has rows with lengths that do not come from tf.gather of shared ragged rows"
    lookups = {rows.lookup for rows in map(rows_of, node.inputs) if rows}
    if isinstance(node, Enter):
        is_same = _lookup_of_rows(node.inputs[0]) == _lookup_in(node.region)
        return None if is_same else "maps over rows together that were looked up apart"
    if isinstance(node, Leave | Rows):
        return None
    if isinstance(node, Computed):
        return _refusal_of_op(node, lookups)
    if isinstance(node, Accumulate) and len(node.inputs) > 1:
        is_one = len(set(map(_lookup_of_rows, node.inputs))) == 1
        return None if is_one else "adds gradients to a table of ragged rows"
    is_read = lookups - {None} or any(map(_is_splits, node.inputs))
    return "passes entries of rows on" if is_read else None


def _refusal_of_op(node: Computed, lookups: set[Lookup | None]) -> str | None:
    if looks_up_ragged(node):
        is_right = _lookup_at(node) is not None
        reason = "looks up rows that tokens do not share, or with another index than a number"
        return None if is_right else reason
    if any(map(_is_splits, node.inputs)):
        is_part = _cuts(node, 1, None) or _cuts(node, None, -1)
        return None if is_part else f"computes {node.op} of where rows begin ({_PRODUCT_OF_ROWS})"
    if op_named(node.op).ragged is Ragged.REDUCES:
        data, ids, _ = node.inputs
        is_right = is_ids(ids) and rows_of(data) == rows_of(ids)
        return None if is_right else f"computes {node.op} of values that are not entries of rows"
    if is_of_entries_alone(node):
        is_right = isinstance(node, Primitive) and gathers_rows(node.operation)
        is_right = is_right and not is_of_entries(node.inputs[0])
        return None if is_right else "looks up rows of entries"
    if not lookups - {None} or has(node.op, Is.SIZES) or is_reduction(node):
        return None
    if len(lookups) > 1 or any(rows_of(value) is None for value in node.outputs):
        return f"computes {node.op} of entries of rows, outside of kerasrec.map_fn"
    return None


def _is_splits(value: Value) -> bool:
    return looks_up_ragged(value.node) and value.index == 0


def _lookup_in(region: Region | None) -> Lookup | None:
    each = each_of(region)
    return lookup_of(each) if each else None
