"""One step of the first sweep of a compiled run: a place, on a block of frames that wait for it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import tensorflow as tf

from kerasrec.compiled.block import Block, block_of
from kerasrec.compiled.program import Program
from kerasrec.compiled.rows import Sizes
from kerasrec.emit.results import State
from kerasrec.graph.nodes import Collect
from kerasrec.queues.buffers import Room
from kerasrec.queues.layout import FRAME
from kerasrec.schedule.instructions import Return, Send, Wait
from kerasrec.schedule.turns import Place


class Step:
    """One step.

    Args:
        program: in this run.
        rooms: the buffers of the sweep.
        key: the place.
        sizes: of its blocks.
        state: of the sweep, before.
    """

    def __init__(
        self,
        program: Program,
        rooms: Mapping[Hashable, Room],
        key: Place,
        sizes: Sizes,
        state: State,
    ):
        self.program = program
        self.layout, self.sizes = program.layout, sizes
        self.name, self.place = key
        self.segment = self.layout.segment(self.name, 0, self.place)
        self.counts = dict(zip(self.layout.spaces, state["counts"], strict=True))
        self.heads = dict(zip(self.layout.order, state["heads"], strict=True))
        self.tails = dict(zip(self.layout.order, state["tails"], strict=True))
        self.tables = dict(zip(program.rows_of_tables, state["tables"], strict=True))
        self.steps, self.traces = list(state["steps"]), list(state["traces"])
        self.fault = state["fault"]
        self.start = self.heads[key]
        self._buffers = dict(zip(rooms, state["buffers"], strict=True))
        self.block: Block

    def run(self, count: tf.Tensor) -> None:
        """Takes `count` frames, an int32 scalar; computes, keeps, calls, and passes them on."""
        self.block = block = self._block(count)
        self.heads[self.name, self.place] = self.start + count
        block.run(self.segment.instructions)
        for reduce in block.reduced:
            if isinstance(reduce.node, Collect):
                self._fill(reduce.node)
        for send in block.sent:
            self._call(send)
        for one in self.segment.placed:
            if isinstance(one, Return):
                self._return(one)
            elif isinstance(one, Wait) and self.layout.counts_calls(self.name, one.then):
                self._wait(one)

    def note(self, circle: int, at: int, count: tf.Tensor) -> None:
        """Notes the block for later sweeps: which place of a circle, where it begins, its count."""
        step = self.steps[circle]
        row = tf.stack([at, self.start, count])[tf.newaxis]
        place = step[tf.newaxis, tf.newaxis]
        self.traces[circle] = tf.tensor_scatter_nd_update(self.traces[circle], place, row)
        self.steps[circle] = step + 1

    def state(self) -> State:
        """The state of the sweep after the step."""
        return {
            "buffers": list(self.block.rows.written.values()),
            "counts": list(self.counts.values()),
            "heads": list(self.heads.values()),
            "tails": list(self.tails.values()),
            "steps": self.steps,
            "traces": self.traces,
            "tables": list(self.tables.values()),
            "fault": self.fault | self.block.has_fault,
        }

    def _block(self, count: tf.Tensor) -> Block:
        block = block_of(self.program, self.segment, self.start, count, self._buffers, self.sizes)
        if not self.place:
            parameters = self.layout.graph.bodies[self.name].parameters
            keys = [("input", self.name, 0, number) for number in range(len(parameters))]
            block.given = [block.rows.read_block(key, self.start) for key in keys]
        return block

    def _fill(self, node: Collect) -> None:
        """Adds what a COLLECT gives to the rows of its table."""
        block, (value, index) = self.block, self.block.all(node.inputs)
        size = tf.cast(block.get(node.size), index.dtype)  # type: ignore[arg-type]
        mask, is_inside = block.mask(node.region), (index >= 0) & (index < size)
        self.fault |= tf.reduce_any(mask & ~is_inside)
        dead = self.program.rows_of_tables[node.name]
        places = tf.where(mask & is_inside, tf.cast(index, tf.int32), dead)[:, tf.newaxis]
        self.tables[node.name] = tf.tensor_scatter_nd_add(self.tables[node.name], places, value)

    def _call(self, send: Send) -> None:
        """Appends frames for what is called by some call sites."""
        block, rows, callee = self.block, self.block.rows, send.sites[0].callee
        mask = block.mask(send.region)
        first = self._appended(callee, mask, len(send.sites))
        rows.write(self.layout.link(send.sites), block.numbers, first, mask)
        results = self._rows_of_results(send, first, mask)
        own = tf.unstack(rows.read(("frame", self.name), block.numbers), axis=1)
        depth = own[FRAME.index("depth")] + 1
        self.fault |= tf.reduce_any(mask & (depth >= self.program.max_depth))
        passed = block.passed(send)
        for place, site in enumerate(send.sites):
            numbers, label = first + place, tf.fill(tf.shape(mask), site.label)
            live = mask & (numbers < self.sizes.capacity)
            for number, tensors in enumerate(passed):
                rows.write(("input", callee, 0, number), numbers, tensors[place], live)
            columns = [block.numbers, label, depth]
            if site in self.layout.handed_on:
                columns += own[len(FRAME) :]
            elif self.layout.has_tail_calls(callee):
                columns += [block.numbers, label, results + place]
            rows.write(("frame", callee), numbers, tf.stack(columns, 1), live)

    def _appended(self, space: Hashable, mask: tf.Tensor, width: int) -> tf.Tensor:
        """For each row of a mask, int32, the first of `width` new rows of a space."""
        ranks = tf.cumsum(tf.cast(mask, tf.int32))
        first = self.counts[space] + width * (ranks - 1)
        self.counts[space] += width * ranks[-1]
        return first

    def _rows_of_results(self, send: Send, first: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """For each token, int32, the first row of what its calls return."""
        callee = send.sites[0].callee
        space = self.layout.results(callee)
        if space == callee or send.sites[0] in self.layout.handed_on:
            return first
        found = self._appended(space, mask, len(send.sites))
        self.block.rows.write(self.layout.link(send.sites, True), self.block.numbers, found, mask)
        return found

    def _wait(self, one: Wait) -> None:
        """Frames wait for their calls, or go on if they made none."""
        block, key = self.block, (self.name, one.then)
        mask = block.mask(one.region)
        if not (one.sites or one.others):
            self._enqueue(key, block.numbers, mask)
            return
        waits = tf.fill(tf.shape(mask), len(one.sites))
        for sites in one.others:
            waits += len(sites) * tf.cast(block.mask(sites[0].region), tf.int32)
        block.rows.write(("pending", self.name), block.numbers, waits, mask)
        if not one.sites:
            self._enqueue(key, block.numbers, mask & tf.equal(waits, 0))

    def _enqueue(self, key: Place, numbers: tf.Tensor, is_ready: tf.Tensor) -> None:
        ranks = tf.cumsum(tf.cast(is_ready, tf.int32))
        places = self.tails[key] + ranks - 1
        self.block.rows.write(("list", *key), places, numbers, is_ready)
        self.tails[key] += ranks[-1]

    def _return(self, one: Return) -> None:
        """Frames return; callers for which all calls have returned are ready."""
        block, mask = self.block, self.block.mask(one.region)
        frames = tf.unstack(block.rows.read(("frame", self.name), block.numbers), axis=1)
        callers, labels, rows = frames[0], frames[1], block.numbers
        if self.layout.has_tail_calls(self.name):
            callers, labels, rows = frames[len(FRAME) :]
        for number, value in enumerate(one.values):
            key = self.layout.output(self.name, 0, number)
            block.rows.write(key, rows, block.get(value), mask)
        num_labels = len(self.layout.graph.call_sites)
        for place, of_place in self.layout.callers(self.name).items():
            is_there = tf.constant([label in of_place for label in range(num_labels)])
            self._resume(place, callers, mask & tf.gather(is_there, labels))

    def _resume(self, key: Place, callers: tf.Tensor, mask: tf.Tensor) -> None:
        """Frames are ready for a place, unless they wait for other calls, too."""
        name, place = key
        rows = self.block.rows
        if self.layout.counts_calls(name, place):
            rows.subtract_one(("pending", name), callers, mask)
            mask &= tf.equal(rows.read(("pending", name), callers), 0)
            # Of several rows that return to one frame, one puts it into the queue.
            own = tf.range(self.sizes.width)
            rows.write(("owner", name), callers, own, mask)
            mask &= tf.equal(rows.read(("owner", name), callers), own)
        self._enqueue(key, callers, mask)
