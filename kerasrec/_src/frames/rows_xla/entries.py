"""Finds values with a row for each entry of ragged rows, and ops on them that may be compiled.

In a block, entries are in the order of their frames. Rows without an entry are dead, like rows
without a frame. The lengths of rows must come from tables of ragged rows that all tokens share, as
in `tf.gather(rows, node)`: then the largest number of entries is known beforehand.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.graph.graph import Body
from kerasrec._src.graph.nodes import Accumulate, Computed, Enter, Leave, Primitive, Rows, Switch
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Each, Node, Region, Value, each_of
from kerasrec._src.ops.axes import broadcast, gathered, reshaped, sliced
from kerasrec._src.ops.table import Fails, Is, facts_of, has
from kerasrec._src.ops.views import cut_of_rows
from kerasrec._src.trace.row_reductions import SEGMENT_OPS


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
    if not has(lengths.op, Is.DIFFERENCE):
        return None
    ends, starts = (_source(value).node for value in lengths.inputs)
    if not (_cuts(ends, 1, None) and _cuts(starts, None, -1)):
        return None
    splits = ends.inputs[0]
    return _lookup_at(splits.node) if splits == starts.inputs[0] and splits.index == 0 else None


def has_entries(body: Body) -> bool:
    """Whether a body has ragged rows."""
    return any(_is_of_rows(node) for node in body.nodes)


@functools.lru_cache(maxsize=4096)
def is_of_entries(value: Value) -> bool:
    """Whether a value that belongs to no token has a row for each entry of ragged rows."""
    node, shape = value.node, value.type.shape
    if value.type.kind is not Kind.WAVE or not shape or shape[0] is not None:
        return False
    if isinstance(node, Leave | Rows):
        return True
    if looks_up_ragged(node):
        return value.index == 1
    like = filled_like(node)
    if like is not None:
        return is_of_entries(like)
    is_known = node.op in SEGMENT_OPS or has(node.op, Is.SIZES)
    return not is_known and any(map(is_of_entries, node.inputs))


def filled_like(node: Node) -> Value | None:
    """The value whose shape an op fills with a number, as `tf.ones_like` does; None for others."""
    shape = node.inputs[0].node if has(node.op, Is.FILLING) else None
    return shape.inputs[0] if shape is not None and has(shape.op, Is.SHAPE) else None


def looks_up_ragged(node: Node) -> bool:
    """Whether an op looks up rows of a table of ragged rows."""
    return facts_of(node.op).fails is Fails.RAGGED_ROW_OUTSIDE


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
    is_slice = isinstance(node, Primitive) and facts_of(node.op).axes is sliced
    return is_slice and cut_of_rows(node.operation) == slice(begin, end, 1)  # type: ignore[attr-defined]


class Entries:
    """Finds which values of a body have a row for each entry of ragged rows, and what is refused.

    Args:
        body: The body whose nodes are examined, in order.
        keeps_rows: Returns whether an op has a row of output for each row that it reads.
        is_reduction: Returns whether an op sums over all rows.

    Attributes:
        known: The nodes that need no check elsewhere.
        special: The known nodes whose op may be compiled only for entries.
        refused: The nodes that cannot be compiled, each with the reason.
    """

    def __init__(
        self,
        body: Body,
        keeps_rows: Callable[[Node], bool],
        is_reduction: Callable[[Node], bool],
    ):
        self._keeps_rows = keeps_rows
        self._is_reduction = is_reduction
        self._lookups: dict[Value, Lookup] = {}
        self._splits: dict[Value, Lookup] = {}
        self._ids: set[Value] = set()
        self.known: set[Node] = set()
        self.special: set[Node] = set()
        self.refused: list[tuple[Node, str]] = []
        for node in body.nodes:
            found = self._refusal(node)
            if found:
                self.refused.append((node, found))

    def _refusal(self, node: Node) -> str | None:
        """Returns why a node cannot be compiled; None if it can, or has nothing to do with rows."""
        regions = [node.region, *(value.region for value in node.outputs)]
        if isinstance(node, Rows):
            regions.append(node.entries)
        for region in filter(None, regions):
            of_entries = [item for item in region.path() if isinstance(item, Each)]
            if len(of_entries) > 1:
                return "maps over rows inside of a map over rows"
            if of_entries and lookup_of(of_entries[0]) is None:
                return "has rows whose lengths do not come from tf.gather of shared ragged rows"
        if isinstance(node, Enter):
            return self._refusal_of_enter(node)
        if isinstance(node, Leave):
            self._put(node, _lookup_in(node.inputs[0].region))
            return None
        if isinstance(node, Rows):
            self._put(node, _lookup_in(node.entries))
            self._ids.add(node.output())
            return None
        if isinstance(node, Computed):
            return self._refusal_of_op(node)
        if isinstance(node, Accumulate) and len(node.inputs) > 1:
            found = {self._lookups.get(value) for value in node.inputs}
            return None if len(found) == 1 else "adds gradients to a table of ragged rows"
        return "passes entries of rows on" if self._reads(node) else None

    def _refusal_of_enter(self, node: Enter) -> str | None:
        value = node.inputs[0]
        if self._lookups.get(value) != _lookup_in(node.region):
            return "maps over rows together that were looked up apart"
        return None

    def _refusal_of_op(self, node: Computed) -> str | None:
        if looks_up_ragged(node):
            found = _lookup_at(node)
            if found is None:
                return "looks up rows that tokens do not share, or with another index than a number"
            self._splits[node.outputs[0]] = found
            self._put(node, found, 1)
            self.special.add(node)
            return None
        if any(value in self._splits for value in node.inputs):
            is_part = _cuts(node, 1, None) or _cuts(node, None, -1)
            self.known.add(node)
            return None if is_part else f"computes {node.op} of where rows begin"
        if node.op in SEGMENT_OPS:
            return self._refusal_of_segments(node)
        if facts_of(node.op).axes is gathered and node.inputs[1] in self._ids:
            self._put(node, self._lookups[node.inputs[1]])
            self.special.add(node)
            axis = tf.get_static_value(node.operation.inputs[2])  # type: ignore[attr-defined]
            is_of_frames = node.inputs[0] not in self._lookups
            return None if axis == 0 and is_of_frames else "looks up rows of entries"
        like = filled_like(node)
        if like in self._lookups:
            self._put(node, self._lookups[like])
            return None
        if not self._reads(node):
            return None
        self.known.add(node)
        if has(node.op, Is.SIZES) or self._is_reduction(node):
            return None
        lookups = {self._lookups[value] for value in node.inputs if value in self._lookups}
        others = [
            value
            for value in node.inputs
            if value not in self._lookups and value.type.kind is Kind.TOKEN
        ]
        is_in_rows = self._is_of_known_rows(node) or (
            self._keeps_rows(node) and self._has_same_rows(node)
        )
        if len(lookups) > 1 or others or not is_in_rows:
            return f"computes {node.op} of entries of rows, outside of kerasrec.map_fn"
        for index in range(len(node.types)):
            self._put(node, next(iter(lookups)), index)
        if has(node.op, Is.SAME_IDS) and any(value in self._ids for value in node.inputs):
            self._ids.update(node.outputs)
        return None

    def _refusal_of_segments(self, node: Node) -> str | None:
        data, ids, _ = node.inputs
        self.known.add(node)
        self.special.add(node)
        if ids not in self._ids or self._lookups.get(data) != self._lookups[ids]:
            return f"computes {node.op} of what is not entries of rows"
        return None

    def _put(self, node: Node, lookup: Lookup | None, index: int = 0) -> None:
        self.known.add(node)
        if lookup:
            self._lookups[node.output(index)] = lookup

    def _has_same_rows(self, node: Node) -> bool:
        """Whether an op keeps the rows of its input, without cutting or joining any."""
        if facts_of(node.op).axes is not reshaped:
            return True
        before, after = node.inputs[0].type.shape, node.types[0].shape
        if not before or not after or after[0] is not None:
            return False
        sizes = [math.prod(dim or 0 for dim in shape[1:]) for shape in (before, after)]
        return None not in (*before[1:], *after[1:]) and sizes[0] == sizes[1]

    def _is_of_known_rows(self, node: Node) -> bool:
        """Whether an op gives entries the shape of others; a gradient that of its value."""
        facts = facts_of(node.op)
        if facts.axes not in (reshaped, broadcast):
            return False
        value, shape = node.inputs
        wanted = self._lookups.get(shape.node.inputs[0]) if has(shape.node.op, Is.SHAPE) else None
        adds_axes = len(value.type.shape or ()) != len(node.types[0].shape or ())
        if wanted is None or (facts.axes is broadcast and adds_axes):
            return False
        return self._lookups.get(value) == wanted

    def _reads(self, node: Node) -> bool:
        return any(value in self._lookups or value in self._splits for value in node.inputs)


def _lookup_in(region: Region | None) -> Lookup | None:
    each = each_of(region)
    return lookup_of(each) if each else None


def tables_of_rows(body: Body) -> Iterator[tuple[Value, Value]]:
    """The splits and the entries of each table of ragged rows that a body looks up."""
    for node in body.nodes:
        if _lookup_at(node):
            splits, entries, _ = node.inputs
            yield splits, entries
