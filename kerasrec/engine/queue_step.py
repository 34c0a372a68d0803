"""A step of the machine of queues: a place of a body, fired on the frames that wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from kerasrec.engine.block import Block
from kerasrec.engine.blocks import Blocks
from kerasrec.engine.buffers import Buffers
from kerasrec.engine.calls import passed
from kerasrec.engine.layout import FRAME, Group, Key, Link
from kerasrec.engine.tails import Tail
from kerasrec.graph.values import Each, Region, Value
from kerasrec.schedule.build import regions_of
from kerasrec.waves.barriers import apart
from kerasrec.waves.passed import empty
from kerasrec.waves.results import State, Tensors


class _Called(NamedTuple):
    """What a step calls of one body.

    Args:
        callee: its name.
        start: the number of the first frame.
        end: the number after the last.
        depth: of the deepest.
        deepest: its number.
    """

    callee: str
    start: tf.Tensor
    end: tf.Tensor
    depth: tf.Tensor
    deepest: tf.Tensor


class Step:
    """One step of the first sweep.

    Args:
        blocks: of the program.
        bound: how many frames may run at once; None for all.
        recorded: bodies and regions whose numbers of tokens are noted, for a record.
        name: of the body.
        place: of it.
    """

    def __init__(
        self,
        blocks: Blocks,
        bound: int | None,
        recorded: Sequence[Region | str],
        name: str,
        place: int,
    ):
        self.blocks = blocks
        self.bound = bound
        self.recorded = recorded
        self.layout, self.plan, self.graph = blocks.layout, blocks.plan, blocks.plan.graph
        self.names = list(self.graph.bodies)
        self.name = name
        self.place = place
        self.called: list[_Called] = []
        self.block: Block
        self.arrays: dict[Value, tf.TensorArray]

    def run(self, state: State) -> State:
        """Takes frames, computes, keeps, calls, and passes the frames on."""
        self._begin(state)
        block = self.block
        self.blocks.fire(block, 0, self.place)
        self._note()
        for each in self.layout.entries[self.name]:
            if self.plan.decided[each.selector] == self.place:
                self._number_entries(each)
        self.arrays = self.blocks.save(block, 0, self.place, self.at, self.arrays)
        for group in self.layout.calls(self.name, self.place + 1):
            self._call(group)
        if self.bound is not None:
            self._push()
            self._collect()
        self._move()
        return {
            **self._state,
            "buffers": self.buffers.tensors,
            "counts": list(self.counts.values()),
            "new": self.new,
            "ready": list(self.ready.values()),
            "kept": list(self.arrays.values()),
            "called": self._newest_called(),
        }

    def _begin(self, state: State) -> None:
        """Reads the state and takes the frames."""
        self._state, self.at = dict(state), state["step"]
        self.counts = dict(zip(self.blocks.spaces, apart(state["counts"]), strict=True))
        queues = [key for key in self.plan.order if key[1]]
        self.ready = dict(zip(queues, apart(state["ready"]), strict=True))
        self.new = {name: list(tensors) for name, tensors in state["new"].items()}
        self.buffers = Buffers(self.blocks.rooms, state["buffers"])
        self.arrays = dict(zip(self.blocks.kept(0), state["kept"], strict=True))
        arrays = self.arrays
        self.block = self.blocks.block(
            self.name, self._taken(), self.buffers, lambda value: arrays[value].read(self.at),
            self.place,
        )  # fmt: skip
        if not self.place:
            self.block.frame.set(self.graph.bodies[self.name].parameters, self._arguments())

    def _taken(self) -> tf.Tensor:
        """The numbers of the frames that wait; afterwards none does."""
        key, bound = (self.name, self.place), self.bound
        if self.place:
            left = tf.maximum(tf.size(self.ready[key]) - bound, 0) if bound else 0
            numbers, self.ready[key] = self.ready[key][left:], self.ready[key][:left]
            return numbers
        if bound:
            return self._newest(bound)
        heads, index = list(self._state["heads"]), self.names.index(self.name)
        (head,) = apart([heads[index]])
        heads[index] = self.counts[self.name]
        self._state["heads"] = heads
        return tf.range(head, self.counts[self.name])

    def _arguments(self) -> Tensors:
        """What the frames were called with, of those that are taken from the new ones."""
        found = apart(self.new[self.name])
        if self.bound is None:
            self.new[self.name] = empty(self.graph.bodies[self.name].parameters)
            return found
        start = tf.shape(found[0])[0] - self.block.frame.count(None)
        self.new[self.name] = [tensor[:start] for tensor in found]
        return [tensor[start:] for tensor in found]

    def _newest(self, bound: int) -> tf.Tensor:
        """Takes some of the frames that were called last; all called after them are done."""
        (stack,) = apart([self._state["stack"]])
        row = stack[-1]
        body, first, end = tf.unstack(row[:3])
        start = tf.maximum(first, end - bound)
        left = tf.concat([[body, first, start], row[3:]], 0)[tf.newaxis]
        self._state["stack"] = tf.concat([stack[:-1], left[: tf.minimum(start - first, 1)]], 0)
        self.counts = dict(zip(self.counts, tf.unstack(row[3:], len(self.counts)), strict=True))
        return tf.range(start, end)

    def _note(self) -> None:
        """Notes the block for later sweeps, and for a record."""
        block = self.block
        if self.bound is None:
            self._state["numbers"] = self._state["numbers"].write(self.at, block.numbers(None))
        if self.recorded:
            frames = block.read(("frame", self.name), block.numbers(None))
            depth = tf.reduce_max(frames[:, FRAME.index("depth")])
            row = [self.plan.order.index((self.name, self.place)), depth, *self._sizes()]
            self._state["record"] = self._state["record"].write(self.at, tf.stack(row))

    def _sizes(self) -> Iterator[tf.Tensor | int]:
        """How many tokens the block has of each body and region."""
        fired = {region for _, region in self.plan.fired(self.name, self.place)}
        here = {item for region in fired if region for item in region.path()}
        for siblings in regions_of(self.graph.bodies[self.name]):
            if self.plan.decided[siblings[0].selector] == self.place:
                here.update(siblings)
        for item in self.recorded:
            if isinstance(item, str):
                yield self.block.frame.count(None) if item == self.name else 0
            else:
                yield self.block.frame.count(item) if item in here else 0

    def _number_entries(self, each: Region) -> None:
        """Gives the entries of ragged rows numbers."""
        lengths = self.block.frame.get(each.selector)
        first = self.counts[each] + tf.cumsum(lengths, exclusive=True)
        rows = self.block.numbers(each.parent)
        self.buffers.write(("entries", each), rows, first)
        self.counts[each] += tf.reduce_sum(lengths)
        self.buffers.reserve(each, self.counts[each])

    def _call(self, group: Group) -> None:
        """Appends frames for what a group calls."""
        block, callee = self.block, group.callee
        arguments = passed(self.graph.bodies[callee], 0, group.sites, {self.name: block.frame})
        start = first = self.counts[callee]
        frames = []
        for link in group.links:
            numbers, width = block.numbers(link.region), len(link.sites)
            count = tf.size(numbers)
            offsets = tf.range(count) if width == 1 else width * tf.range(count)
            self.buffers.write(link.key, numbers, first + offsets)
            frames.append(self._frames(link, callee, first))
            first += width * count
        found = frames[0] if len(frames) == 1 else tf.concat(frames, 0)
        rows = tf.range(start, first)
        self.buffers.reserve(callee, first)
        self.buffers.write(("frame", callee), rows, found)
        pairs = zip(self.new[callee], arguments, strict=True)
        self.new[callee] = [tf.concat(pair, 0) for pair in pairs]
        depths = tf.concat([[0], found[:, FRAME.index("depth")]], 0)
        deepest = tf.argmax(depths, output_type=tf.int32)  # 0: nothing is called.
        self.called.append(
            _Called(callee, start, first, depths[deepest], start + tf.maximum(deepest - 1, 0))
        )
        self.counts[callee] = first

    def _frames(self, link: Link, callee: str, first: tf.Tensor) -> tf.Tensor:
        """What is kept of the frames that a link calls, int32 `[frames, columns]`."""
        block, width = self.block, len(link.sites)
        if any(isinstance(item, Each) for item in (link.region.path() if link.region else ())):
            callers = tf.gather(block.numbers(None), block.places(link.region))
        else:
            callers = block.numbers(link.region)
        count = tf.size(callers)
        if width > 1:
            callers = tf.repeat(callers, width)
            labels = tf.tile(tf.constant([site.label for site in link.sites]), [count])
        else:
            labels = tf.fill([count], link.sites[0].label)
        own = tf.unstack(block.read(("frame", self.name), callers), axis=1)
        columns = [callers, labels, own[FRAME.index("depth")] + 1]
        if self.layout.has_tail_calls(callee):
            if self.layout.is_tail_call(self.name, link):
                columns += own[len(FRAME) :]
            else:
                columns += [callers, labels, tf.range(first, first + width * count)]
        return tf.stack(columns, 1)

    def _push(self) -> None:
        """Puts what was called in this step on the stack."""
        counts = list(self.counts.values())
        for found in self.called:
            body = self.names.index(found.callee)
            row = tf.stack([body, found.start, found.end, *counts])[tf.newaxis]
            pushed = row[: tf.minimum(found.end - found.start, 1)]
            self._state["stack"] = tf.concat([self._state["stack"], pushed], 0)

    def _collect(self) -> None:
        """Notes what COLLECT nodes collect at this place."""
        here = set(self.plan.computed(self.name, 0, self.place))
        tables, counts = list(self._state["collected"]), list(self._state["num_collected"])
        for at, node in enumerate(self.graph.collects):
            if node in here:
                pairs = zip(tables[at], node.inputs, strict=True)
                tables[at] = [
                    array.write(counts[at], self.block.frame.get(value)) for array, value in pairs
                ]
                counts[at] += 1
        self._state.update(collected=tables, num_collected=counts)

    def _newest_called(self) -> tf.Tensor:
        """The largest depth of this step, how many it called, body and number of the deepest."""
        if not self.called:
            return tf.zeros_like(self._state["called"])
        width = tf.add_n([found.end - found.start for found in self.called])
        rows = tf.stack(
            [
                tf.stack([found.depth, width, self.names.index(found.callee), found.deepest])
                for found in self.called
            ]
        )
        return rows[tf.argmax(rows[:, 0])]

    def _move(self) -> None:
        """Frames that are done return; others wait for their calls, or go on if they made none."""
        parts = list(self.plan.tails[self.name].known(self.plan.decided, self.place))
        for part in parts:
            if part.last == self.place and not part.call:
                self._return(part)
        stays = [part for part in parts if part.last > self.place]
        place = self.place + 1
        if not self.layout.counts_calls(self.name, place) or self._awaited(self.name, place):
            return
        for part in stays:
            self._wait(part)

    def _awaited(self, name: str, place: int) -> int:
        """How many returns all frames wait for that come to a place, counted from zero; else 0."""
        return self.layout.awaited(name, place) if self.bound is None else 0

    def _wait(self, part: Tail) -> None:
        """Frames of a part wait for their calls."""
        block, key = self.block, (self.name, self.place + 1)
        calls = self.layout.calls_of(part, self.name, self.place)
        numbers = block.numbers(part.region)
        waits = tf.fill([tf.size(numbers)], calls.fixed)
        if calls.varied:
            waits += tf.gather(self._counted(calls.varied), block.places(part.region))
        self.buffers.write(("pending", self.name), numbers, waits)
        if not calls.fixed:
            self._enqueue(key, _where(tf.equal(waits, 0), numbers))

    def _counted(self, links: Sequence[Link]) -> tf.Tensor:
        """How many frames each frame of the block has called by some links."""
        places = [(self.block.places(link.region), len(link.sites)) for link in links]
        count = self.block.frame.count(None)
        return tf.add_n(
            [
                width * tf.math.unsorted_segment_sum(tf.ones_like(item), item, count)
                for item, width in places
            ]
        )

    def _enqueue(self, key: tuple[str, int], numbers: tf.Tensor) -> None:
        self.ready[key] = tf.concat([self.ready[key], numbers], 0)

    def _return(self, part: Tail) -> None:
        """Frames of a part return; callers for which all calls have returned are ready."""
        block = self.block
        numbers = block.numbers(part.region)
        frames = tf.unstack(block.read(("frame", self.name), numbers), axis=1)
        callers, labels, rows = frames[0], frames[1], numbers
        if self.layout.has_tail_calls(self.name):
            callers, labels, rows = frames[len(FRAME) :]
            if self.layout.goes_back:
                self.buffers.write(("result", self.name), rows, numbers)
        for number, value in enumerate(part.values):
            tensor = block.frame.get(value)
            self.buffers.write(("output", self.name, 0, number), rows, tensor)
        found = self.layout.callers(self.name)
        if not found:
            return
        queues = [len(found)] * len(self.graph.call_sites)  # The outside has none.
        for queue, of_place in enumerate(found.values()):
            for label in of_place:
                queues[label] = queue
        chosen = tf.gather(tf.constant(queues), labels)
        waiting = tf.dynamic_partition(callers, chosen, len(found) + 1)
        for key, numbers in zip(found, waiting, strict=False):
            self._resume(key, numbers)

    def _resume(self, key: tuple[str, int], numbers: tf.Tensor) -> None:
        """Frames are ready for a place, unless they wait for other calls, too."""
        name, place = key
        if self.layout.counts_calls(name, place):
            pending: Key = ("pending", name)
            self.buffers.subtract(pending, numbers, tf.ones_like(numbers))
            left = self.block.read(pending, numbers)
            is_ready = tf.equal(left, -self._awaited(name, place))
            numbers = tf.unique(_where(is_ready, numbers))[0]
        self._enqueue(key, numbers)


def _where(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """The rows that a mask is true for; with fewer ops than `tf.boolean_mask`."""
    return tf.dynamic_partition(tensor, tf.cast(mask, tf.int32), 2)[1]
