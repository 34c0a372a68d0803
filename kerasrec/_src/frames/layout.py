"""The values that are kept for each frame of a program in queues, and their places.

A frame is a call of a body. Frames are numbered in the order in which they are called. The values
kept for a frame are in buffers, in the row with its number: its arguments and results, its caller,
and values that several of its places read. An entry of a ragged row has a separate number and
separate rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.graph import CallSite, present
from kerasrec._src.graph.nodes import New, Put
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Each, Node, Region, Value, each_of
from kerasrec._src.half_precision import wide
from kerasrec._src.schedule.instructions import (
    HandOn,
    InTable,
    Item,
    OfKind,
    Save,
    Send,
    Wait,
    region_of,
)
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Place, Queues, Segment

# The frame that made a call, and the call site.
CALLS = ("caller", "label")
# The frame and call site to which a frame returns (not its caller, after a tail call), and the row
# of its results.
RETURNS = ("returns_to", "return_label", "result")

# The integers kept for each frame, with the number of calls in which it is nested.
FRAME = (*CALLS, "depth")

Column = str | int
"""A column of the integers kept for a frame: a name, or the number of a parameter."""

Key = tuple[Hashable, ...]
"""The name of a buffer."""


@dataclass(frozen=True)
class BufferSpec:
    """The rows of a buffer: what they represent, and their type.

    Args:
        space: The objects that rows represent, such as the frames of a body. All buffers of a space
            have the same number of rows.
        dtype: The dtype of a row.
        shape: The shape of a row. A size that only a run knows is None. It must be the same for
            all rows, which is checked when they are written; until then it is 0.
    """

    space: Hashable
    dtype: tf.DType
    shape: tuple[int | None, ...]


Specs = dict[Any, BufferSpec]
"""The specs of buffers, by key."""


class Layout:
    """The values that are kept for a program.

    Args:
        schedule: The program's schedule, in queues.

    Attributes:
        order: All places, in the order in which they run.
        components: The same by component; see `Queues`.
        bytes_kept: The least number of bytes that a frame of each body keeps in the forward pass,
            and a row that the run makes, by space.
    """

    def __init__(self, schedule: Schedule):
        self.graph = schedule.graph
        self.queues = {
            section.sweep: section for section in schedule.sections if isinstance(section, Queues)
        }
        self.order, self.components = self.queues[0].order, self.queues[0].components
        self.handed_on = {tail.site for _, tail in self._all(HandOn)}
        self._together = self._return_together()
        self.inputs: dict[Node, tuple[int, Key]] = {}
        for name, body in self.graph.bodies.items():
            for index, sweep in enumerate(body.sweeps):
                for number, node in enumerate(present(sweep.parameters) if index else ()):
                    self.inputs[node] = index, self.input(name, index, number)
        self.bytes_kept: dict[Hashable, int] = {
            name: schedule.bytes_kept(name) + sum(node.types[0].num_bytes for node in body.outputs)
            for name, body in self.graph.bodies.items()
        }
        nodes = [row.node for _, row in self._all(InTable)]
        for put in {node.name: node for node in nodes if isinstance(node, Put)}.values():
            space = "rows", put.rows
            self.bytes_kept[space] = self.bytes_kept.get(space, 0) + put.inputs[0].type.num_bytes
        saves = [save for _, _, save in schedule.instructions() if isinstance(save, Save)]
        self.entries = self._entries([save.item for save in saves if save.by_frame])

    def segment(self, body: str, sweep: int, place: int) -> Segment:
        """Returns the segment that runs at a place of a body."""
        segments = self.queues[sweep].segments
        return next(segment for segment in segments if segment.key == (body, place))

    def resumed(self, body: str) -> dict[Place, list[int]]:
        """Returns the places to which a body returns, with the labels of calls that wait there.

        Walked places are left out.
        """
        found: dict[Place, list[int]] = defaultdict(list)
        for segment, send in self._all(Send):
            key = segment.body, segment.number + 1
            for site in () if self.is_walked(key) else send.sites:
                if site.callee in self._together[body] and site not in self.handed_on:
                    found[key].append(site.label)
        return found

    def has_tail_calls(self, body: str) -> bool:
        """Whether a body makes tail calls, or is called by one."""
        return any(body in (site.caller, site.callee) for site in self.handed_on)

    def columns(self, body: str) -> list[Column]:
        """Returns the integers kept for each frame of a body.

        In a body with tail calls, they also hold where to return to, and the row of its results.
        """
        return [*FRAME, *(RETURNS if self.has_tail_calls(body) else ())]

    def columns_of_roots(self, roots: tf.Tensor, zero: tf.Tensor) -> dict[Column, tf.Tensor]:
        """Returns the integers kept for the frames of root tokens, which nothing has called.

        Args:
            roots: The frames, int32 `[tokens]`.
            zero: An int32 scalar, or one for each token.
        """
        label = tf.zeros_like(roots) + self.graph.root.label
        found: dict[Column, tf.Tensor] = {"label": label, "return_label": label, "result": roots}
        return found | dict.fromkeys(("depth", "caller", "returns_to", "listed"), zero)

    def results(self, body: str) -> Hashable:
        """Returns the space of a body's results.

        Usually there is a row for each frame of the body. If tail calls let the body return for
        frames of other bodies, there is a row for each call of these bodies that is not a tail
        call.
        """
        together = self._together[body]
        return together if len(together) > 1 else body

    def input(self, body: str, sweep: int, number: int) -> Key:
        """Returns the key of values passed to a later sweep of a body: gradients, by result."""
        return ("input", self.results(body) if sweep % 2 else body, sweep, number)

    def output(self, body: str, sweep: int, number: int) -> Key:
        """Returns the key of the results of a sweep of a body: gradients, by frame."""
        return ("output", body if sweep % 2 else self.results(body), sweep, number)

    def link(self, sites: Sequence[CallSite], to_results: bool = False) -> Key:
        """Returns the key of the first frame that call sites called for each token.

        With `memo`, it is that of all frames that they called, int32 `[sites]` for each token.

        Args:
            sites: Call sites that call for the same tokens.
            to_results: Whether to return the key of the row of that frame's result instead.
        """
        is_frame = not to_results or self.results(sites[0].callee) == sites[0].callee
        return ("frame of" if is_frame else "result of", sites[0].label)

    def is_walked(self, key: Place) -> bool:
        """Whether frames need not wait for their calls before a place; see `MaskedLayout`."""
        return False

    def counts_calls(self, body: str, place: int) -> bool:
        """Whether frames that wait for a place may have made no call, or more than one."""
        return any(len(wait.sites) != 1 or wait.others for wait in self._waits(body, place))

    def awaited(self, body: str, place: int) -> int:
        """The number of calls that each frame makes before a place.

        It is 0 if frames differ in it, or if they also count calls for other places.
        """
        places = {number for name, number in self.order if name == body and number}
        counting = [other for other in places if self.counts_calls(body, other)]
        waits = self._waits(body, place)
        is_fixed = not any(wait.others for wait in waits)
        numbers = {len(wait.sites) for wait in waits}
        return numbers.pop() if counting == [place] and is_fixed and len(numbers) == 1 else 0

    def kept_by_block(self, sweep: int) -> dict[Value, tuple[Place, ...]]:
        """Returns the values that the blocks of a sweep keep for themselves, with their places."""
        found: dict[Value, tuple[Place, ...]] = {}
        for segment, save in self._all(Save, sweep):
            if isinstance(save.item, Value) and not save.by_frame:
                found[save.item] = (*found.get(save.item, ()), segment.key)
        return found

    def space(self, region: Region | None, body: str) -> Hashable:
        """The space of a region's values: entries of ragged rows, or frames of the body."""
        return each_of(region) or body

    @property
    def spaces(self) -> list[Hashable]:
        """All spaces: those of frames, of results and of entries."""
        entries = (each for found in self.entries.values() for each in found)
        results = (self.results(name) for name in self.graph.bodies)
        return list(dict.fromkeys([*self.graph.bodies, *results, *entries]))

    @property
    def spaces_of_rows(self) -> list[Hashable]:
        """The spaces of rows that the run makes; with a bound they outlive the frames."""
        return list(dict.fromkeys(("rows", row.node.rows) for _, row in self._all(InTable)))

    def buffer_specs(self, sweep: int) -> Specs:
        """Returns the specs of the buffers that the queues of a sweep fill.

        Buffers that sum the cotangents from several callers, with `memo`, or from all readers of a
        made row, are float32 in half precision.
        """
        specs: Specs = {}
        for name, body in self.graph.bodies.items():
            for number, node in enumerate(present(body.sweeps[sweep].parameters) if sweep else ()):
                key = self.input(name, sweep, number)
                specs[key] = _spec(key[1], node.types[0])
                if self.graph.memo:
                    specs[key] = replace(specs[key], dtype=wide(specs[key].dtype))
            for number, output in enumerate(present(body.sweeps[sweep].outputs)):
                key = self.output(name, sweep, number)
                specs[key] = _spec(key[1], output.types[0])
        for segment, save in self._all(Save, sweep):
            if save.by_frame and isinstance(save.item, Value):
                specs[("value", save.item)] = self.buffer_spec(save.item, segment.body)
        for _, row in self._all(InTable, sweep):
            if not isinstance(row.node, New):
                key = "table", row.node.name
                specs[key] = _spec(
                    ("rows", row.node.rows), (*row.outputs, *row.node.inputs)[0].type
                )
                if sweep:
                    specs[key] = replace(specs[key], dtype=wide(specs[key].dtype))
        return specs if sweep else {**specs, **self._specs_of_calls()}

    def buffer_spec(self, value: Value, body: str) -> BufferSpec:
        """Returns the spec of the buffer of a value."""
        return _spec(self.space(value.region, body), value.type)

    def block_spec(self, value: Value) -> BufferSpec:
        """Returns the spec of a buffer in which blocks keep a value, one after another."""
        return _spec(None, value.type)

    def _specs_of_calls(self) -> Specs:
        specs: Specs = {}
        for name, body in self.graph.bodies.items():
            specs["frame", name] = BufferSpec(name, tf.int32, (len(self.columns(name)),))
            if any(self.counts_calls(name, place) for body, place in self.order if body == name):
                specs["pending", name] = BufferSpec(name, tf.int32, ())
            for each in self.entries[name]:
                specs["entries", each] = BufferSpec(self.space(each.parent, name), tf.int32, ())
            if self.graph.memo:
                specs["done", name] = BufferSpec(name, tf.bool, ())
                for number, node in enumerate(body.parameters):
                    if node.types[0].shape == ():
                        specs["argument", name, number] = _spec(name, node.types[0])
        for segment, send in self._all(Send):
            shape = (len(send.sites),) if self.graph.memo else ()
            for key in dict.fromkeys([self.link(send.sites), self.link(send.sites, True)]):
                specs[key] = BufferSpec(self.space(send.region, segment.body), tf.int32, shape)
        return specs

    def _return_together(self) -> dict[str, tuple[str, ...]]:
        """For each body, all bodies whose frames return for each other because of tail calls."""
        found = {name: {name} for name in self.graph.bodies}
        for site in self.handed_on:
            together = found[site.caller or ""] | found[site.callee]
            found.update(dict.fromkeys(together, together))
        return {
            name: tuple(other for other in found if other in together)
            for name, together in found.items()
        }

    def _entries(self, saved: Sequence[Item]) -> dict[str, list[Each]]:
        """For each body, ragged rows whose entries have rows in buffers, the outermost first."""
        found: dict[str, list[Each]] = {name: [] for name in self.graph.bodies}
        bodies = {node: name for name, body in self.graph.bodies.items() for node in body.nodes}
        regions = [send.region for _, send in self._all(Send)]
        regions += [region_of(kept) for kept in saved]
        around = dict.fromkeys(each for region in filter(None, regions) for each in region.path())
        for each in sorted(around, key=lambda each: len(each.path())):
            if isinstance(each, Each):
                found[bodies[each.selector.node]].append(each)
        return found

    def _all(self, kind: type[OfKind], sweep: int = 0) -> Iterator[tuple[Segment, OfKind]]:
        """The instructions of a kind in the queues of a sweep."""
        for segment in self.queues[sweep].segments if sweep in self.queues else ():
            yield from ((segment, instruction) for instruction in segment.of(kind))

    def _waits(self, body: str, place: int) -> list[Wait]:
        """The instructions by which frames of a body wait for calls before a place."""
        return [
            wait for segment, wait in self._all(Wait) if segment.body == body and wait.then == place
        ]


def _spec(space: Hashable, found: Type) -> BufferSpec:
    if found.shape is None:
        raise GraphError(f"A value of type {found} is kept for other calls, without a known rank.")
    return BufferSpec(space, found.dtype, found.shape)
