"""The values that are kept for each frame of a program in blocks.

The values that a call writes are together, so that it writes them at once: the integers among them
are columns of one buffer.

A place is *walked* if all of its frames are there before the first of them runs. They are in a
list, which is walked from its end, since the calls of a frame come after it. No record of the ready
frames is needed. A block must not contain both a frame and a frame that it has called. It begins no
earlier than with the first frame that was listed after all frames that may have called one of the
block. This is asked of each frame of the block, since frames that were called earlier may be listed
later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import cached_property
from typing import Any

import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.frames.layout import CALLS, RETURNS, BufferSpec, Column, Layout, Specs
from kerasrec._src.frames.rows_xla.rows import JoinedBuffers
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Each, Value
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import Broadcast, Fire, Return, Save, Select
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Component, Place, Section


class MaskedLayout(Layout):
    """The values that are kept for a program; arguments as for `Layout`.

    Attributes:
        arguments: The arguments of calls, by number, which need not be kept once more for other
            places.
    """

    def __init__(self, schedule: Schedule):
        super().__init__(schedule)
        # All ragged rows, so that there is room for sums over their entries.
        self.entries = {name: [] for name in self.graph.bodies}
        for segment, select in self._all(Select):
            rows = [region for region in select.regions if isinstance(region, Each)]
            known = self.entries[segment.body]
            known += [region for region in rows if region not in known]
        self.arguments = {
            Value(node, 0): number
            for body in self.graph.bodies.values()
            for number, node in enumerate(body.parameters)
        }

    @cached_property
    def _fed(self) -> dict[Place, set[Place]]:
        return self.queues[0].feeds

    @cached_property
    def _walked(self) -> frozenset[Place]:
        return frozenset(
            places[0] for places in self.components if len(places) == 1 and places[0][1]
        )

    def is_walked(self, key: Place) -> bool:
        """Whether a place is walked, so that frames need not wait for their calls before it."""
        return key in self._walked

    def counts_calls(self, body: str, place: int) -> bool:
        """Whether frames that wait for a place have to count the calls that have not returned."""
        return not self.is_walked((body, place)) and super().counts_calls(body, place)

    def walked(self, body: str) -> Place | None:
        """The walked place of a body at which frames may wait for each other.

        All other frames that a frame waits for are done, since other places that feed this one run
        before it.
        """
        found = [key for key in self._walked if key[0] == body and key in self._fed[key]]
        return found[0] if found else None

    def has_wide_blocks(self, component: Component) -> bool:
        """Whether all frames of a component are there beforehand, or dead rows cost it little."""
        is_fed = any(not self._fed[key].isdisjoint(component) for key in component)
        return not is_fed or all(self._is_light(*key) for key in component)

    def _is_light(self, body: str, place: int) -> bool:
        """Whether a place, in all sweeps, only computes integers and moves numbers.

        Places with ragged rows also compare each of their entries with each frame of the block.
        """
        if self.entries[body]:
            return False
        segments = (self.segment(body, sweep, place) for sweep in self.queues)
        ops = [one for item in segments for one in item.instructions if isinstance(one, Fire)]
        return all(
            has(one.node.op, Is.MOVING)
            or not any(value.type.dtype.is_floating for value in one.outputs)
            for one in ops
        )

    def calls_before(self, body: str, place: int) -> int:
        """Returns how many calls of one body each frame makes at least before a place; at least 1.

        There are that many frames of that body for each frame that gets to the place.
        """
        made = [Counter(site.callee for site in wait.sites) for wait in self._waits(body, place)]
        callees = self.graph.bodies if made else ()
        return max([1, *(min(calls[callee] for calls in made) for callee in callees)])

    @cached_property
    def shares(self) -> dict[Place, int]:
        """For each place, how many frames of some body there are for each that gets there."""
        return {key: self.calls_before(*key) for key in self.order}

    @cached_property
    def share_of(self) -> dict[Hashable, int]:
        """For buffers that blocks of a place write one after another, the share of the place."""
        found: dict[Hashable, int] = {}
        for sweep in self.queues:
            for value, places in self.kept_by_block(sweep).items():
                key: Hashable = ("value", value)
                found[self.joined.whole(key)] = min(self.shares[place] for place in places)
        return found

    def places(self, body: str) -> list[int]:
        """The places of a body at which frames wait in lists: all but place 0."""
        return [place for name, place in self.order if name == body and place]

    def parameters(self, body: str) -> list[Type]:
        """The types of a body's parameters."""
        return [node.types[0] for node in self.graph.bodies[body].parameters]

    def columns(self, body: str) -> list[Column]:
        """Returns the columns of a body's buffer of integers.

        The first is the number of calls in which a frame is nested. If a frame has to resume its
        caller, the frame that called it and the call site follow. In a body with tail calls, these
        are the frame and the call site to return to, and the row of results follows in any case. If
        frames wait for each other at a walked place of the body, the number of frames that were
        listed at the time of the call follows. The last are the parameters that are integers.
        """
        columns: list[Column] = ["depth"]
        resumes = bool(self.resumed(body))
        if self.has_tail_calls(body):
            columns += RETURNS if resumes else RETURNS[-1:]
        elif resumes:
            columns += CALLS
        if self.walked(body):
            columns.append("listed")
        kinds = enumerate(self.parameters(body))
        columns += (at for at, kind in kinds if kind.dtype == tf.int32 and kind.shape == ())
        return columns

    def kept_by_block(self, sweep: int) -> dict[Value, tuple[Place, ...]]:
        """Returns the values that the blocks of a sweep keep for themselves, with their places."""
        found = super().kept_by_block(sweep).items()
        return {value: places for value, places in found if value not in self.arguments}

    @cached_property
    def joined(self) -> JoinedBuffers:
        """The buffers that are columns of others, since they are always written together.

        These are the arguments of a body. With a GPU, they are also its results, the values that a
        later sweep passes to it, and those that blocks keep.
        """
        groups: dict[Hashable, Specs] = {}
        has_gpu = host.has_gpu()
        for sweep in self.queues:
            for key, spec in self._specs(sweep).items():
                is_written_together = key[0] in ("input", "output") if has_gpu else False
                if is_written_together or (key[0] == "input" and not sweep):
                    groups.setdefault(key[:-1], {})[key] = spec
            for value, places in self.kept_by_block(sweep).items() if has_gpu else ():
                groups.setdefault((sweep, *places), {})["value", value] = self.block_spec(value)
        return JoinedBuffers(groups)

    def buffer_specs(self, sweep: int) -> Specs:
        """Returns the specs of the buffers that the queues of a sweep fill."""
        return self.joined.joined_specs(self._specs(sweep))

    def _specs(self, sweep: int) -> Specs:
        """The specs before any are joined."""
        found: Specs = dict(super().buffer_specs(sweep))
        for value in self.arguments:
            found.pop(("value", value), None)
        for value in self.kept_by_block(sweep):
            found["value", value] = self.block_spec(value)
        for name in self.graph.bodies if not sweep else ():
            found |= self._specs_of_frames(name)
            if ("pending", name) in found:
                found["owner", name] = found["pending", name]
        return found

    def _specs_of_frames(self, body: str) -> Specs:
        """The specs of the arguments of each call, and of the lists of waiting calls."""
        found: Specs = {}
        columns, places = self.columns(body), self.places(body)
        for number, kind in enumerate(self.parameters(body)):
            if number not in columns:
                found["input", body, 0, number] = BufferSpec(body, kind.dtype, kind.shape or ())
        if places:
            found["lists", body] = BufferSpec(body, tf.int32, (len(places),))
        return found

    def specs_of_saves(self, section: Section) -> Specs:
        """Returns the specs of the buffers that a section for all tokens fills."""
        return {
            ("value", one.item): self.buffer_spec(one.item, segment.body)
            for segment in section.segments
            for one in segment.instructions
            if isinstance(one, Save) and isinstance(one.item, Value)
        }

    @cached_property
    def shared_results(self) -> dict[Return, dict[Hashable, Value]]:
        """The branches that return only SHARED values, such as the zeros of a missing child.

        A frame returns once. If a buffer of results begins with these values, only frames of other
        branches write to it. There is at most one such branch for each space of results, with the
        value of each buffer.
        """
        found: dict[Return, dict[Hashable, Value]] = {}
        spaces: set[Hashable] = set()
        for segment in self.queues[0].segments:
            instructions, space = segment.instructions, self.results(segment.body)
            shared: dict[Any, Any] = {
                one.output: one.inputs[0] for one in instructions if isinstance(one, Broadcast)
            }
            for one in instructions:
                if not isinstance(one, Return) or space in spaces:
                    continue
                if all(value in shared for value in one.values):
                    found[one] = {
                        self.output(segment.body, 0, number): shared[value]
                        for number, value in enumerate(one.values)
                    }
                    spaces.add(space)
        return found
