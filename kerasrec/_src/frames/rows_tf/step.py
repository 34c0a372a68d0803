"""A step of the machine of queues: a place of a body, run on the frames that wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from kerasrec._src.emit.arrays import num_rows, one_tensor, rows_where
from kerasrec._src.emit.barriers import apart
from kerasrec._src.emit.empty_waves import empty
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.frames.layout import FRAME
from kerasrec._src.frames.rows_tf.block import Block
from kerasrec._src.frames.rows_tf.buffers import Buffers, Key
from kerasrec._src.frames.rows_tf.store import FrameStore
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.values import Region, Value, each_of
from kerasrec._src.schedule.instructions import Return, Select, Send, Wait


class _Called(NamedTuple):
    """The calls of one body in a step.

    Args:
        callee: The body's name.
        start: The number of the first frame.
        end: The number after the last frame.
        depth: The depth of the deepest frame.
        deepest: The number of the deepest frame.
    """

    callee: str
    start: tf.Tensor
    end: tf.Tensor
    depth: tf.Tensor
    deepest: tf.Tensor


@dataclass(eq=False)
class Step:
    """One step of the first sweep.

    Args:
        store: The store of the run.
        shared: The tensors of SHARED values.
        bound: The number of frames that may run at once; None for all.
        recorded: The bodies and regions whose numbers of tokens are recorded.
        name: The body's name.
        place: The place in the body.
    """

    store: FrameStore
    shared: dict[Value, tf.Tensor]
    bound: int | None
    recorded: Sequence[Region | str]
    name: str
    place: int

    def __post_init__(self) -> None:
        self.layout, self.graph = self.store.layout, self.store.layout.graph
        self.names = list(self.graph.bodies)
        self.segment = self.layout.segment(self.name, 0, self.place)
        self.called: list[_Called] = []
        self.block: Block
        self.arrays: dict[Value, tf.TensorArray]

    def run(self, state: State) -> State:
        """Runs the place on the frames that wait for it, and returns the state after that.

        This computes and keeps values, makes calls, returns results, and queues frames that are
        ready.
        """
        self._begin(state)
        block = self.block
        block.run(self.segment.instructions)
        self._note()
        for one in self.segment.placed:
            if isinstance(one, Select) and one.regions[0] in self.layout.entries[self.name]:
                self._number_entries(one.regions[0])
        self.arrays = block.saved()
        for callee, sends, arguments in block.calls():
            self._call(callee, sends, arguments)
        if self.bound is not None:
            self._push()
            self._collect()
        for one in self.segment.placed:
            if isinstance(one, Return):
                self._return(one)
            elif isinstance(one, Wait) and self._is_counted():
                self._wait(one)
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
        self.counts = dict(zip(self.layout.spaces, apart(state["counts"]), strict=True))
        queues = [key for key in self.layout.order if key[1]]
        self.ready = dict(zip(queues, apart(state["ready"]), strict=True))
        self.new = {name: list(tensors) for name, tensors in state["new"].items()}
        self.buffers = Buffers(self.layout.buffer_specs(0), state["buffers"])
        self.arrays = dict(zip(self.layout.kept_by_block(0), state["kept"], strict=True))
        frames, at = self._taken(), self.at
        self.block = Block(
            self.graph, self.name, self.shared, self.store, frames, self.buffers, self.arrays, at
        )
        if not self.place:
            self.block.given = self._arguments()

    def _taken(self) -> tf.Tensor:
        """Takes the frames that wait, or with a bound some of them; returns their numbers."""
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
        """Takes the arguments of the frames that are taken."""
        found = apart(self.new[self.name])
        if self.bound is None:
            self.new[self.name] = empty(self.graph.bodies[self.name].parameters)
            return found
        start = num_rows(found[0]) - self.block.count
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
        """Records the block for later sweeps and for run traces."""
        block = self.block
        if self.bound is None:
            self._state["numbers"] = self._state["numbers"].write(self.at, block.numbers(None))
        if self.recorded:
            frames = block.read(("frame", self.name), block.numbers(None))
            depth = tf.reduce_max(frames[:, FRAME.index("depth")])
            row = [self.layout.order.index((self.name, self.place)), depth, *self._sizes()]
            self._state["record"] = self._state["record"].write(self.at, tf.stack(row))

    def _sizes(self) -> Iterator[tf.Tensor | int]:
        """Yields the number of the block's tokens in each recorded body and region."""
        for item in self.recorded:
            if isinstance(item, str):
                yield self.block.count if item == self.name else 0
            else:
                yield tf.size(self.block.get(item)) if self.block.has(item) else 0

    def _number_entries(self, each: Region) -> None:
        """Numbers the entries of ragged rows."""
        lengths = self.block.get(each.selector)
        first = self.counts[each] + tf.cumsum(lengths, exclusive=True)
        rows = self.block.numbers(each.parent)
        self.buffers.write(("entries", each), rows, first)
        self.counts[each] += tf.reduce_sum(lengths)
        self.buffers.reserve(each, self.counts[each])

    def _call(self, callee: str, sends: Sequence[Send], arguments: Tensors) -> None:
        """Appends frames for the calls of a body."""
        block = self.block
        start = first = self.counts[callee]
        frames = []
        for one in sends:
            numbers, width = block.numbers(one.region), len(one.sites)
            count = tf.size(numbers)
            offsets = tf.range(count) if width == 1 else width * tf.range(count)
            self.buffers.write(self.layout.link(one.sites), numbers, first + offsets)
            frames.append(self._frames(one, callee, first, offsets))
            first += width * count
        found = one_tensor(frames)
        rows = tf.range(start, first)
        self.buffers.reserve(callee, first)
        self.buffers.write(("frame", callee), rows, found)
        pairs = zip(self.new[callee], arguments, strict=True)
        self.new[callee] = [tf.concat(pair, 0) for pair in pairs]
        depths = tf.concat([[0], found[:, FRAME.index("depth")]], 0)
        deepest = tf.argmax(depths, output_type=tf.int32)  # 0 if nothing is called.
        self.called.append(
            _Called(callee, start, first, depths[deepest], start + tf.maximum(deepest - 1, 0))
        )
        self.counts[callee] = first

    def _frames(self, send: Send, callee: str, first: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
        """The integers kept for the frames that call sites call, int32 `[frames, columns]`.

        Args:
            send: The instruction that passes values to them.
            callee: The body that is called.
            first: The number of the first frame, an int32 scalar.
            offsets: The offset of each token's first frame from `first`, int32 `[tokens]`.
        """
        block, sites, width = self.block, send.sites, len(send.sites)
        if each_of(send.region):
            callers = tf.gather(block.numbers(None), block.places(send.region))
        else:
            callers = block.numbers(send.region)
        count = tf.size(callers)
        if width > 1:
            callers = tf.repeat(callers, width)
            labels = tf.tile(tf.constant([site.label for site in sites]), [count])
        else:
            labels = tf.fill([count], sites[0].label)
        own = tf.unstack(block.read(("frame", self.name), callers), axis=1)
        columns = [callers, labels, own[FRAME.index("depth")] + 1]
        if self.layout.has_tail_calls(callee):
            if sites[0] in self.layout.handed_on:
                columns += own[len(FRAME) :]
            else:
                rows = self._rows_of_results(send, callee, first, offsets)
                columns += [callers, labels, tf.range(rows, rows + width * count)]
        return tf.stack(columns, 1)

    def _rows_of_results(
        self, send: Send, callee: str, first: tf.Tensor, offsets: tf.Tensor
    ) -> tf.Tensor:
        """The first row of the frames' results, an int32 scalar; arguments as for `_frames`."""
        space = self.layout.results(callee)
        if space == callee:
            return first
        start, numbers = self.counts[space], self.block.numbers(send.region)
        self.counts[space] += len(send.sites) * tf.size(numbers)
        self.buffers.reserve(space, self.counts[space])
        self.buffers.write(self.layout.link(send.sites, True), numbers, start + offsets)
        return start

    def _push(self) -> None:
        """Pushes the calls of this step onto the stack."""
        counts = list(self.counts.values())
        for found in self.called:
            body = self.names.index(found.callee)
            row = tf.stack([body, found.start, found.end, *counts])[tf.newaxis]
            pushed = row[: tf.minimum(found.end - found.start, 1)]
            self._state["stack"] = tf.concat([self._state["stack"], pushed], 0)

    def _collect(self) -> None:
        """Records the values of the COLLECT nodes at this place."""
        here = {one.node for one in self.block.reduced}
        tables, counts = list(self._state["collected"]), list(self._state["num_collected"])
        for at, node in enumerate(self.graph.collects):
            if node in here:
                pairs = zip(tables[at], node.inputs, strict=True)
                tables[at] = [
                    array.write(counts[at], self.block.get(value)) for array, value in pairs
                ]
                counts[at] += 1
        self._state.update(collected=tables, num_collected=counts)

    def _newest_called(self) -> tf.Tensor:
        """Returns four numbers about the calls of this step, int32 `[4]`.

        They are the largest depth, the number of calls, and the body and number of the deepest
        frame.
        """
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

    def _is_counted(self) -> bool:
        """Whether frames that go to the next place count the calls for which they wait."""
        place = self.place + 1
        return self.layout.counts_calls(self.name, place) and not self._awaited(self.name, place)

    def _awaited(self, name: str, place: int) -> int:
        """The number of returns that each frame waits for, if counted from zero; otherwise 0."""
        return self.layout.awaited(name, place) if self.bound is None else 0

    def _wait(self, one: Wait) -> None:
        """Makes frames wait for their calls; those that made none go on."""
        block, key = self.block, (self.name, self.place + 1)
        numbers = block.numbers(one.region)
        waits = tf.fill([tf.size(numbers)], len(one.sites))
        if one.others:
            waits += tf.gather(self._counted(one.others), block.places(one.region))
        self.buffers.write(("pending", self.name), numbers, waits)
        if not one.sites:
            self._enqueue(key, rows_where(tf.equal(waits, 0), numbers))

    def _counted(self, calls: Sequence[Sequence[CallSite]]) -> tf.Tensor:
        """The number of frames that each frame of the block has called by some call sites."""
        count = self.block.count
        found = []
        for sites in calls:
            places = self.block.places(sites[0].region)
            ones = tf.math.unsorted_segment_sum(tf.ones_like(places), places, count)
            found.append(len(sites) * ones)
        return tf.add_n(found)

    def _enqueue(self, key: tuple[str, int], numbers: tf.Tensor) -> None:
        self.ready[key] = tf.concat([self.ready[key], numbers], 0)

    def _return(self, one: Return) -> None:
        """Returns results; callers become ready when all their calls have returned."""
        block = self.block
        numbers = block.numbers(one.region)
        frames = tf.unstack(block.read(("frame", self.name), numbers), axis=1)
        callers, labels, rows = frames[0], frames[1], numbers
        if self.layout.has_tail_calls(self.name):
            callers, labels, rows = frames[len(FRAME) :]
        for number, value in enumerate(one.values):
            self.buffers.write(self.layout.output(self.name, 0, number), rows, block.get(value))
        found = self.layout.callers(self.name)
        if not found:
            return
        queues = [len(found)] * len(self.graph.call_sites)  # The outside has no queue.
        for queue, of_place in enumerate(found.values()):
            for label in of_place:
                queues[label] = queue
        chosen = tf.gather(tf.constant(queues), labels)
        waiting = tf.dynamic_partition(callers, chosen, len(found) + 1)
        for key, numbers in zip(found, waiting, strict=False):
            self._resume(key, numbers)

    def _resume(self, key: tuple[str, int], numbers: tf.Tensor) -> None:
        """Makes frames ready for a place, unless they wait for other calls, too."""
        name, place = key
        if self.layout.counts_calls(name, place):
            pending: Key = ("pending", name)
            self.buffers.subtract(pending, numbers, tf.ones_like(numbers))
            left = self.block.read(pending, numbers)
            is_ready = tf.equal(left, -self._awaited(name, place))
            numbers = tf.unique(rows_where(is_ready, numbers))[0]
        self._enqueue(key, numbers)
