"""A step of the machine of queues, on live rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import num_rows, one_tensor, rows_where
from kerasrec._src.emit.control_flow import apart, empty
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.frames.layout import FRAME, Column
from kerasrec._src.frames.rows_tf.block import LiveBlock, each_call
from kerasrec._src.frames.rows_tf.buffers import Buffers, LiveStore
from kerasrec._src.frames.step import Step
from kerasrec._src.graph.values import Region, Value, each_of
from kerasrec._src.schedule.instructions import Return, Send
from kerasrec._src.schedule.sections import Place


class LiveStep(Step):
    """One step.

    Args:
        store: The store of the run.
        shared: The tensors of SHARED values.
        bound: The number of frames that may run at once; None for all.
        recorded: The bodies and regions whose numbers of tokens are recorded.
        key: The place.
        state: The state before the step.
    """

    block: LiveBlock

    def __init__(
        self,
        store: LiveStore,
        shared: dict[Value, tf.Tensor],
        bound: int | None,
        recorded: Sequence[Region | str],
        key: Place,
        state: State,
    ):
        super().__init__(store.layout, key, state)
        self.store, self.shared = store, shared
        self.bound, self.recorded = bound, recorded
        self.graph, self.at = store.layout.graph, state["step"]
        self.names = list(self.graph.bodies)
        self.called: dict[str, tf.Tensor] = {}
        self.counts, self.ready = _apart(state["counts"]), _apart(state["ready"])
        self.new = self._state["new"]
        self.buffers = Buffers(self.layout.buffer_specs(0), state["buffers"])

    def state(self) -> State:
        """The state after the step."""
        return {
            **self._state,
            "buffers": self.buffers.tensors,
            "counts": self.counts,
            "ready": self.ready,
            "called": self._newest_called(),
        }

    def take(self) -> None:
        """Takes the frames that wait, or with a bound some of them, and makes a block of them."""
        given = self.store, self._taken(), self.buffers, self._state["kept"], self.at
        self.block = LiveBlock(self.graph, self.name, self.shared, self.layout, *given)
        self.block.counts = self.counts
        if not self.place:
            self.block.given = self._arguments()

    def _taken(self) -> tf.Tensor:
        key, bound = self.key, self.bound
        if self.place:
            left = tf.maximum(tf.size(self.ready[key]) - bound, 0) if bound else 0
            numbers, self.ready[key] = self.ready[key][left:], self.ready[key][:left]
            return numbers
        if bound:
            return self._newest(bound)
        heads = self._state["heads"]
        (head,) = apart([heads[self.name]])
        heads[self.name] = self.counts[self.name]
        return tf.range(head, self.counts[self.name])

    def _arguments(self) -> Tensors:
        """Takes the arguments of the frames that are taken."""
        arguments = apart(self.new[self.name])
        if self.bound is None:
            self.new[self.name] = empty(self.graph.bodies[self.name].parameters)
            return arguments
        start = num_rows(arguments[0]) - self.block.count
        self.new[self.name] = [tensor[:start] for tensor in arguments]
        return [tensor[start:] for tensor in arguments]

    def _newest(self, bound: int) -> tf.Tensor:
        """Takes some of the frames that were called last; all called after them are done."""
        (stack,) = apart([self._state["stack"]])
        row = stack[-1]
        body, first, end = tf.unstack(row[:3])
        start = tf.maximum(first, end - bound)
        left = tf.concat([[body, first, start], row[3:]], 0)[tf.newaxis]
        self._state["stack"] = tf.concat([stack[:-1], left[: tf.minimum(start - first, 1)]], 0)
        spaces = self.layout.spaces
        self.counts.update(zip(spaces, tf.unstack(row[3:], len(spaces)), strict=True))
        return tf.range(start, end)

    def note(self) -> None:
        """Records the block for later sweeps and for run traces."""
        block = self.block
        if self.bound is None:
            self._state["numbers"] = self._state["numbers"].write(self.at, block.frames)
        if self.recorded:
            depth = tf.reduce_max(block.columns()["depth"])
            row = [self.layout.order.index(self.key), depth, *self._sizes()]
            self._state["record"] = self._state["record"].write(self.at, tf.stack(row))
        self._before = dict(self.counts)

    def _sizes(self) -> Iterator[tf.Tensor | int]:
        """Yields the number of the block's tokens in each recorded body and region."""
        for recorded in self.recorded:
            if isinstance(recorded, str):
                yield self.block.count if recorded == self.name else 0
            else:
                yield tf.size(self.block.get(recorded)) if self.block.has(recorded) else 0

    def appended(self, space: Hashable, region: Region | None, width: int) -> tf.Tensor:
        """Appends `width` rows to a space for each token of a region; returns the first ones."""
        count = tf.size(self.block.numbers(region))
        offsets = tf.range(count) if width == 1 else width * tf.range(count)
        first = self.counts[space] + offsets
        self.counts[space] += width * count
        return first

    def columns_of_callers(self, send: Send) -> dict[Column, tf.Tensor]:
        """The integers kept for the frames that call, for each call, int32 `[calls]` each."""
        block, sites, width = self.block, send.sites, len(send.sites)
        if each_of(send.region):
            callers = block.spread(block.frames, send.region)
        else:
            callers = block.numbers(send.region)
        count = tf.size(callers)
        if width > 1:
            callers = tf.repeat(callers, width)
            labels = tf.tile(tf.constant([site.label for site in sites]), [count])
        else:
            labels = tf.fill([count], sites[0].label)
        return {**block.columns_of(callers), "caller": callers, "label": labels}

    def each_call(self, first: tf.Tensor, width: int) -> tf.Tensor:
        """The numbers of `width` calls for each token, given the first ones; int32 `[calls]`."""
        return each_call(first, width)

    def call(
        self, callee: str, sends: Sequence[Send], frames: Sequence[dict[Column, tf.Tensor]]
    ) -> None:
        """Appends frames for the calls of a body, given the integers that are kept for them."""
        columns = self.layout.columns(callee)
        table = one_tensor([tf.stack([own[name] for name in columns], 1) for own in frames])
        self.append(callee, table, self.block.arguments(sends))

    def append(self, callee: str, table: tf.Tensor, arguments: Tensors) -> None:
        """Appends frames of a body.

        Args:
            callee: The name of the body.
            table: The integers that are kept for the frames, int32 `[frames, columns]`.
            arguments: Their arguments, `[frames, ...]` each.
        """
        start, end = self._before[callee], self.counts[callee]
        for space in dict.fromkeys([callee, self.layout.results(callee)]):
            if self.counts[space] is not self._before[space]:
                self.buffers.reserve(space, self.counts[space])
        self.buffers.write(("frame", callee), tf.range(start, end), table)
        pairs = zip(self.new[callee], arguments, strict=True)
        self.new[callee] = [tf.concat(pair, 0) for pair in pairs]
        depths = tf.concat([[0], table[:, FRAME.index("depth")]], 0)
        deepest = tf.argmax(depths, output_type=tf.int32)  # 0 if nothing is called.
        number = start + tf.maximum(deepest - 1, 0)
        body = self.names.index(callee)
        self.called[callee] = tf.stack([depths[deepest], end - start, body, number])

    def end_calls(self) -> None:
        """With a bound, pushes the calls onto the stack, and collects rows of tables."""
        if self.bound is not None:
            self._push()
            self._collect()

    def _push(self) -> None:
        """Pushes the calls of this step onto the stack."""
        counts = [self.counts[space] for space in self.layout.spaces]
        for callee in self.called:
            start, end = self._before[callee], self.counts[callee]
            row = tf.stack([self.names.index(callee), start, end, *counts])[tf.newaxis]
            pushed = row[: tf.minimum(end - start, 1)]
            self._state["stack"] = tf.concat([self._state["stack"], pushed], 0)

    def _collect(self) -> None:
        """Records the values of the COLLECT nodes at this place."""
        here = {reduce.node for reduce in self.block.reduced}
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
        rows = list(self.called.values())
        if len(rows) == 1:
            return rows[0]
        table = tf.stack(rows)
        deepest = table[tf.argmax(table[:, 0])]
        return tf.where([False, True, False, False], tf.reduce_sum(table[:, 1]), deepest)

    def is_counted(self, key: Place) -> bool:
        """Whether frames count the calls for which they wait before a place."""
        return super().is_counted(key) and not self._awaited(key)

    def _awaited(self, key: Place) -> int:
        """The number of returns that each frame waits for, if counted from zero; otherwise 0."""
        return self.layout.awaited(*key) if self.bound is None else 0

    def queue(self, key: Place, region: Region | None, where: tf.Tensor | None = None) -> None:
        """Queues the tokens of a region, or those of them that are ready."""
        numbers = self.block.numbers(region)
        self._enqueue(key, numbers if where is None else rows_where(where, numbers))

    def _enqueue(self, key: Place, numbers: tf.Tensor) -> None:
        self.ready[key] = tf.concat([self.ready[key], numbers], 0)

    def resume(self, returns: Sequence[Return]) -> None:
        """Queues the frames whose calls have all returned, now that the block returns."""
        if self.layout.resumed(self.name):
            for returned in returns:
                self.return_to(self.name, *self.block.returns_to(returned.region))

    def return_to(self, callee: str, callers: tf.Tensor, labels: tf.Tensor) -> None:
        """Queues the frames of which all calls have returned, now that some calls have.

        Args:
            callee: The body whose calls have returned.
            callers: The frames that made the calls, int32 `[calls]`.
            labels: The call sites, int32 `[calls]`.
        """
        places = self.layout.resumed(callee)
        queues = [len(places)] * self.graph.num_labels  # The outside has no queue.
        for queue, of_place in enumerate(places.values()):
            for label in of_place:
                queues[label] = queue
        chosen = tf.gather(tf.constant(queues), labels)
        waiting = tf.dynamic_partition(callers, chosen, len(places) + 1)
        for key, numbers in zip(places, waiting, strict=False):
            self._resume(key, numbers)

    def _resume(self, key: Place, numbers: tf.Tensor) -> None:
        """Queues frames for a place, unless they also wait for other calls."""
        if self.layout.counts_calls(*key):
            pending = ("pending", key[0])
            self.buffers.subtract(pending, numbers, tf.ones_like(numbers))
            left = self.block.read(pending, numbers)
            is_ready = tf.equal(left, -self._awaited(key))
            numbers = tf.unique(rows_where(is_ready, numbers))[0]
        self._enqueue(key, numbers)


def _apart(tensors: Mapping[Any, tf.Tensor]) -> dict[Any, tf.Tensor]:
    return dict(zip(tensors, apart(list(tensors.values())), strict=True))
