"""A step of a compiled run, on masked rows; and how frames of new calls are written."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence

import tensorflow as tf

from kerasrec._src.emit.results import State
from kerasrec._src.frames.layout import RETURNS, Column
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.rows import MaskedRows
from kerasrec._src.frames.rows_xla.sizes import Sizes
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.frames.step import Step
from kerasrec._src.graph.values import Region, each_of
from kerasrec._src.private import update_slice
from kerasrec._src.schedule.instructions import Return, Send, Wait
from kerasrec._src.schedule.sections import Place


class MaskedStep(Step):
    """One step.

    Args:
        store: The store of the run.
        key: The place.
        sizes: The sizes of its blocks.
        state: The state of the sweep before the step.
    """

    layout: MaskedLayout
    block: MaskedBlock

    def __init__(self, store: MaskedStore, key: Place, sizes: Sizes, state: State):
        super().__init__(store.layout, key, state)
        self.store, self.sizes = store, sizes
        self.counts, self.heads, self.tails = (
            self._state[name] for name in ("counts", "heads", "tails")
        )
        self._ready: list[tuple[Place, tf.Tensor, tf.Tensor]] = []
        self.start, self.count = self._taken()

    def record(self, component: int, at: int) -> None:
        """Records the block for later sweeps: its place in a component, its start and its count."""
        steps, traces = self._state["steps"], self._state["traces"]
        row = tf.stack([at, self.start, self.count])[tf.newaxis]
        traces[component] = update_slice(traces[component], row, steps[component])
        steps[component] += 1

    def state(self) -> State:
        """The state of the sweep after the step."""
        block, found = self.block, {**self._state, "buffers": self.block.rows.finished()}
        if block.sent:
            found["fault"] |= block.has_fault
        else:
            found["failed"] |= block.failed(tf.shape(found["failed"])[0])
        return found

    def take(self) -> None:
        """Takes frames from the queue, but for those whose entries have no room in the block."""
        from_end = self.layout.is_walked(self.key)
        count = self._block().num_with_room(self.segment, from_end)
        if count is not None:
            if from_end:
                self.start += self.count - count
            self.count = count
        self.block = self._block()
        self.block.counts = self.counts
        self.heads[self.key] += self.count

    def _block(self) -> MaskedBlock:
        given = self.start, self.count, self._state["buffers"], self.sizes
        block = self.store.block(self.segment, *given)
        if not self.place:
            block.given += block.read_arguments()
        return block

    def _taken(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns where the frames to take begin in the queue, and their number; int32 scalars."""
        head, width = self.heads[self.key], self.sizes.width
        end = self.tails[self.key] if self.place else self.counts[self.name]
        if not self.layout.is_walked(self.key):
            return head, tf.minimum(end - head, width)
        end -= head
        start = tf.maximum(end - width, 0)
        if self.layout.walked(self.name) == self.key:
            start = tf.maximum(start, self._end_of_callers(start, end))
        return start, end - start

    def _end_of_callers(self, start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        """Where the frames end in the list that may have called those from `start` to `end`."""
        rows = self.store.rows(self.sizes, self._state["buffers"])
        numbers = self.store.listed(rows, self.key, start)
        listed = self.layout.columns(self.name).index("listed")
        of_block = rows.read(("frame", self.name), numbers)[:, listed]
        is_there = tf.range(self.sizes.width) < end - start
        return tf.reduce_max(tf.where(is_there, of_block, 0))

    def note(self) -> None:
        """Counts the tokens of regions that make calls or wait for them, all at once."""
        regions = [wait.region for wait in self.segment.of(Wait)]
        regions += [send.region for send in self.block.sent]
        regions = [region for region in dict.fromkeys(regions) if each_of(region) is None]
        self._ranks: dict[Region | None, tf.Tensor] = {}
        if regions:
            ranks = _ranks(tf.stack([self.block.mask(region) for region in regions]))
            self._ranks.update(zip(regions, tf.unstack(ranks, len(regions)), strict=True))

    def _ranks_of(self, region: Region | None) -> tf.Tensor:
        """For each row of a block, how many up to and with it are tokens of a region, int32."""
        if region not in self._ranks:
            self._ranks[region] = _ranks(self.block.mask(region))
        return self._ranks[region]

    def appended(self, space: Hashable, region: Region | None, width: int) -> tf.Tensor:
        """Appends `width` rows to a space for each token of a region; returns the first ones."""
        ranks = self._ranks_of(region)
        first = self.counts[space] + width * (ranks - 1)
        self.counts[space] += width * ranks[-1]
        return first

    def columns_of_callers(self, send: Send) -> dict[Column, tf.Tensor]:
        """The integers kept for the frames that call, int32 `[tokens, 1]`, and labels `[calls]`."""
        block = self.block
        names = ("depth", *(RETURNS if send.sites[0] in self.layout.handed_on else ()))
        own = {name: tensor for name, tensor in block.columns().items() if name in names}
        found = {
            name: tf.expand_dims(block.spread(tensor, send.region), 1)
            for name, tensor in {**own, "caller": block.frames}.items()
        }
        return {**found, "label": tf.constant([site.label for site in send.sites])}

    def each_call(self, first: tf.Tensor, width: int) -> tf.Tensor:
        """The numbers of `width` calls for each token, given the first: int32 `[tokens, width]`."""
        return tf.expand_dims(first, 1) + tf.range(width)

    def call(
        self, callee: str, sends: Sequence[Send], frames: Sequence[dict[Column, tf.Tensor]]
    ) -> None:
        """Appends frames for the calls of a body, given the integers that are kept for them."""
        block, walked = self.block, self.layout.walked(callee)
        for send, columns in zip(sends, frames, strict=True):
            block.fail(tf.squeeze(columns["depth"], 1) >= self.store.max_depth, send.region)
            numbers = self.each_call(columns["first"], len(send.sites))
            live = tf.expand_dims(block.mask(send.region), 1) & (numbers < self.sizes.capacity)
            known = columns | dict(enumerate(tf.stack(each, 1) for each in block.passed(send)))
            if walked:
                known["listed"] = self.tails[walked]
            write_frames(block.rows, self.layout, callee, numbers, known, live)

    def end_calls(self) -> None:
        """Reads the arguments again, now that those of the calls are written, and fills tables."""
        if not self.place:
            self.block.read_arguments()
        self.block.fill()

    def wait(self, waits: Sequence[Wait]) -> None:
        """Makes frames wait for their calls; those that are ready are queued at once."""
        super().wait(waits)
        if self._ready:
            self._enqueue(self.name, self._ready, self.block.frames)

    def queue(self, key: Place, region: Region | None, where: tf.Tensor | None = None) -> None:
        """Notes which frames are ready: the tokens of a region, or some of them."""
        mask = self.block.mask(region)
        if where is None:
            self._ready.append((key, mask, self._ranks_of(region)))
        else:
            self._ready.append((key, mask & where, _ranks(mask & where)))

    def _enqueue(
        self, body: str, ready: Sequence[tuple[Place, tf.Tensor, tf.Tensor]], numbers: tf.Tensor
    ) -> None:
        """Appends frames of a body to the lists of places, each frame to at most one.

        Args:
            body: The body.
            ready: Places, with the frames that are ready, bool `[width]`, and their ranks.
            numbers: The numbers of the frames, int32 `[width]`.
        """
        places, columns = tf.zeros_like(numbers), tf.zeros_like(numbers)
        for key, mask, ranks in ready:
            places = tf.where(mask, self.tails[key] + ranks - 1, places)
            columns = tf.where(mask, self.layout.places(body).index(key[1]), columns)
            self.tails[key] += ranks[-1]
        is_ready = functools.reduce(tf.logical_or, (mask for _, mask, _ in ready))
        self.block.rows.write(("lists", body), tf.stack([places, columns], 1), numbers, is_ready)

    def resume(self, returns: Sequence[Return]) -> None:
        """Queues the frames whose calls have all returned; those at walked places are listed."""
        num_labels = self.layout.graph.num_labels
        for key, of_place in self.layout.resumed(self.name).items():
            callers, labels = self.block.returns_to()
            mask = self.block.returning(returns)
            is_there = tf.constant([label in of_place for label in range(num_labels)])
            self._resume(key, callers, mask & tf.gather(is_there, labels))

    def _resume(self, key: Place, callers: tf.Tensor, mask: tf.Tensor) -> None:
        """Makes frames ready for a place, unless they also wait for other calls."""
        name, place = key
        rows = self.block.rows
        if self.layout.counts_calls(name, place):
            rows.subtract_one(("pending", name), callers, mask)
            mask &= tf.equal(rows.read(("pending", name), callers), 0)
            # Of several rows that return to one frame, one puts it into the queue.
            own = tf.range(self.sizes.width)
            rows.write(("owner", name), callers, own, mask)
            mask &= tf.equal(rows.read(("owner", name), callers), own)
        self._enqueue(name, [(key, mask, _ranks(mask))], callers)


def write_frames(
    rows: MaskedRows,
    layout: MaskedLayout,
    body: str,
    numbers: tf.Tensor,
    known: Mapping[Column, tf.Tensor],
    live: tf.Tensor,
) -> None:
    """Writes the values kept of calls when they are made.

    Args:
        rows: The buffers.
        layout: The layout of the program.
        body: The body that is called.
        numbers: The numbers of the frames, int32 `[n]` or `[n, m]`.
        known: All columns and parameters. Columns have the shape of `numbers`, or one that
            broadcasts to it; other parameters have the axes of `numbers` and then their own.
        live: Which of the frames are called, bool, in the shape of `numbers`.
    """
    flat, is_live = tf.reshape(numbers, [-1]), tf.reshape(live, [-1])
    columns, shape = layout.columns(body), tf.shape(numbers)
    table = tf.stack([tf.broadcast_to(known[name], shape) for name in columns], -1)
    rows.write(("frame", body), flat, tf.reshape(table, [-1, len(columns)]), is_live)
    for number, kind in enumerate(layout.parameters(body)):
        if number not in columns:
            values = tf.reshape(known[number], [-1, *(kind.shape or ())])
            rows.write(("input", body, 0, number), flat, values, is_live)


def _ranks(mask: tf.Tensor) -> tf.Tensor:
    """How many are true up to and with each element of a row, int32; `mask` bool `[..., width]`."""
    return tf.cumsum(tf.cast(mask, tf.int32), -1)
