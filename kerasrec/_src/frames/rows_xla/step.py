"""One step of the first sweep of a compiled run: a place runs on a block of waiting frames."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence

import tensorflow as tf

from kerasrec._src.emit.results import State
from kerasrec._src.frames.rows_tf.buffers import BufferSpec
from kerasrec._src.frames.rows_xla.block import Block
from kerasrec._src.frames.rows_xla.frame_columns import CALLS, RETURNS, Column
from kerasrec._src.frames.rows_xla.program import Program
from kerasrec._src.frames.rows_xla.row_room import fitting
from kerasrec._src.frames.rows_xla.rows import Sizes
from kerasrec._src.graph.values import Region, each_of
from kerasrec._src.private import update_slice
from kerasrec._src.schedule.instructions import Return, Send, Wait
from kerasrec._src.schedule.sections import Place


class Step:
    """One step.

    Args:
        program: The program in this run.
        specs: The specs of the buffers of the sweep.
        key: The place.
        sizes: The sizes of its blocks.
        state: The state of the sweep before the step.
    """

    def __init__(
        self,
        program: Program,
        specs: Mapping[Hashable, BufferSpec],
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
        self.fault, self.failed = state["fault"], state["failed"]
        self._buffers = dict(zip(specs, state["buffers"], strict=True))
        self.start, self.count = self._taken()
        self.block: Block

    def run(self) -> None:
        """Runs the place on the frames of the block.

        This computes and keeps values, makes calls, returns results, and queues frames that are
        ready.
        """
        self._leave_what_does_not_fit()
        self.block = block = self._block()
        block.counts = self.counts
        self.heads[self.name, self.place] += self.count
        block.run(self.segment.instructions)
        self._ranks = self._ranks_of_tokens()
        self._wait([one for one in self.segment.placed if isinstance(one, Wait)])
        for send in block.sent:
            self._call(send)
        if not self.place:  # Again, now that the arguments of the calls are written.
            block.read_arguments()
        block.fill(self.tables)
        returns = [one for one in self.segment.placed if isinstance(one, Return)]
        if returns:
            self._return(returns)

    def note(self, component: int, at: int) -> None:
        """Records the block for later sweeps: its place in a component, its start and its count."""
        step = self.steps[component]
        row = tf.stack([at, self.start, self.count])[tf.newaxis]
        self.traces[component] = update_slice(self.traces[component], row, step)
        self.steps[component] = step + 1

    def state(self) -> State:
        """The state of the sweep after the step."""
        block, fault, failed = self.block, self.fault, self.failed
        if block.sent:
            fault |= block.has_fault
        else:
            failed |= block.failed(tf.shape(failed)[0])
        return {
            "buffers": list(self.block.rows.finished().values()),
            "counts": list(self.counts.values()),
            "heads": list(self.heads.values()),
            "tails": list(self.tails.values()),
            "steps": self.steps,
            "traces": self.traces,
            "tables": list(self.tables.values()),
            "fault": fault,
            "failed": failed,
        }

    def _taken(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns where the frames to take begin in the queue, and their number; int32 scalars."""
        key, walks = (self.name, self.place), self.program.walks
        head, width = self.heads[key], self.sizes.width
        end = self.tails[key] if self.place else self.counts[self.name]
        if not walks.has(key):
            return head, tf.minimum(end - head, width)
        end -= head
        start = tf.maximum(end - width, 0)
        if walks.own(self.name) == key:
            start = tf.maximum(start, self._end_of_callers(start, end))
        return start, end - start

    def _end_of_callers(self, start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        """Where the frames end in the list that may have called those from `start` to `end`."""
        rows = self.program.rows(self.sizes, self._buffers)
        numbers = self.program.listed(rows, (self.name, self.place), start)
        listed = self.program.frames.columns(self.name).index("listed")
        of_block = rows.read(("frame", self.name), numbers)[:, listed]
        is_there = tf.range(self.sizes.width) < end - start
        return tf.reduce_max(tf.where(is_there, of_block, 0))

    def _leave_what_does_not_fit(self) -> None:
        """Leaves frames in the queue whose entries of ragged rows have no room in the block."""
        from_end = self.program.walks.has((self.name, self.place))
        count = fitting(self._block(), self.segment, from_end)
        if count is None:
            return
        if from_end:
            self.start += self.count - count
        self.count = count

    def _block(self) -> Block:
        given = self.start, self.count, self._buffers, self.sizes
        block = self.program.block_of(self.program, self.segment, *given)
        if not self.place:
            block.given += block.read_arguments()
        return block

    def _call(self, send: Send) -> None:
        """Appends frames for the calls of some call sites."""
        block, callee, width = self.block, send.sites[0].callee, len(send.sites)
        mask = block.mask(send.region)
        first = self._appended(callee, send.region, width)
        block.write_own(self.layout.link(send.sites), first, mask, send.region)
        results = self._rows_of_results(send, first, mask)
        depth = block.spread(block.frames()["depth"], send.region) + 1
        block.fail(depth >= self.program.max_depth, send.region)
        places = tf.range(width)
        numbers = tf.expand_dims(first, 1) + places
        live = tf.expand_dims(mask, 1) & (numbers < self.sizes.capacity)
        labels = tf.constant([site.label for site in send.sites])
        columns: dict[Column, tf.Tensor] = {
            **dict(enumerate(tf.stack(tensors, 1) for tensors in block.passed(send))),
            "depth": tf.expand_dims(depth, 1),
            "caller": tf.expand_dims(block.spread(block.numbers, send.region), 1),
            "label": labels,
        }
        if send.sites[0] in self.layout.handed_on:
            own = {
                name: block.spread(tensor, send.region) for name, tensor in block.frames().items()
            }
            columns |= {name: tf.expand_dims(own[name], 1) for name in RETURNS if name in own}
        else:
            rows = tf.expand_dims(results, 1) + places
            columns |= dict(zip(RETURNS, (columns["caller"], labels, rows), strict=True))
        walked = self.program.walks.own(callee)
        if walked:
            columns["listed"] = self.tails[walked]
        self.program.frames.write(block.rows, callee, numbers, columns, live)

    def _ranks_of_tokens(self) -> dict[Region | None, tf.Tensor]:
        """For regions that make calls or wait for them, what `_ranks_of` returns, found at once."""
        regions = [one.region for one in self.segment.placed if isinstance(one, Wait)]
        regions += [one.region for one in self.block.sent]
        regions = [region for region in dict.fromkeys(regions) if each_of(region) is None]
        if not regions:
            return {}
        ranks = _ranks(tf.stack([self.block.mask(region) for region in regions]))
        return dict(zip(regions, tf.unstack(ranks, len(regions)), strict=True))

    def _ranks_of(self, region: Region | None) -> tf.Tensor:
        """For each row of a block, how many up to and with it are tokens of a region, int32."""
        if region not in self._ranks:
            self._ranks[region] = _ranks(self.block.mask(region))
        return self._ranks[region]

    def _appended(self, space: Hashable, region: Region | None, width: int) -> tf.Tensor:
        """Appends `width` rows to a space for each token of a region; returns the first ones."""
        ranks = self._ranks_of(region)
        first = self.counts[space] + width * (ranks - 1)
        self.counts[space] += width * ranks[-1]
        return first

    def _rows_of_results(self, send: Send, first: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """For each token, the first row of its calls' results, int32."""
        callee = send.sites[0].callee
        space = self.layout.results(callee)
        if space == callee or send.sites[0] in self.layout.handed_on:
            return first
        found = self._appended(space, send.region, len(send.sites))
        self.block.write_own(self.layout.link(send.sites, True), found, mask, send.region)
        return found

    def _wait(self, ones: Sequence[Wait]) -> None:
        """Makes frames wait for their calls; they are queued if they made none or need not wait."""
        block, ready = self.block, []
        for one in ones:
            key, mask = (self.name, one.then), block.mask(one.region)
            if self.program.walks.has(key) or not (one.sites or one.others):
                ready.append((key, mask, self._ranks_of(one.region)))
            elif self.layout.counts_calls(*key):
                waits = tf.fill(tf.shape(mask), len(one.sites))
                for sites in one.others:
                    waits += len(sites) * block.num_called(sites[0].region)
                block.write_own(("pending", self.name), waits, mask)
                if not one.sites:
                    mask &= tf.equal(waits, 0)
                    ready.append((key, mask, _ranks(mask)))
        if ready:
            self._enqueue(self.name, ready, block.numbers)

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
            columns = tf.where(mask, self.program.places(body).index(key[1]), columns)
            self.tails[key] += ranks[-1]
        is_ready = functools.reduce(tf.logical_or, (mask for _, mask, _ in ready))
        self.block.rows.write(("lists", body), tf.stack([places, columns], 1), numbers, is_ready)

    def _return(self, returns: Sequence[Return]) -> None:
        """Returns results; callers become ready if they wait for no other call.

        Callers at walked places are in their list already.
        """
        mask = self.block.give_back(returns, 0)
        num_labels = len(self.layout.graph.call_sites)
        for place, of_place in self.program.walks.resumed(self.name).items():
            frames = self.block.frames()
            is_tail = self.layout.has_tail_calls(self.name)
            callers, labels = (frames[name] for name in (RETURNS[:2] if is_tail else CALLS))
            is_there = tf.constant([label in of_place for label in range(num_labels)])
            self._resume(place, callers, mask & tf.gather(is_there, labels))

    def _resume(self, key: Place, callers: tf.Tensor, mask: tf.Tensor) -> None:
        """Makes frames ready for a place, unless they wait for other calls, too."""
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


def _ranks(mask: tf.Tensor) -> tf.Tensor:
    """How many are true up to and with each element of a row, int32; `mask` bool `[..., width]`."""
    return tf.cumsum(tf.cast(mask, tf.int32), -1)
