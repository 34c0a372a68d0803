"""Runs a program of several rounds in which equal calls are one call.

There, results of calls decide which calls are made, so the calls are not known before the run
(see `memo/calls.py`). Instead, a call looks its key up when it is made. If an equal call has been
made before, it makes no frame. It waits until that call has returned, which may be at once. A frame
may have several callers, and cotangents from all of them are added up. A loop that changes floats
belongs to the call that begins it, so its calls are not looked up.

Calls that wait are in a list for each body that is called, with their callers and call sites. If
nothing is ready, and calls still wait, then a call waits for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import one_tensor, rows_where
from kerasrec._src.emit.control_flow import apart
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.frames.layout import CALLS, Column
from kerasrec._src.frames.rows_tf.queue_run import QueueRun
from kerasrec._src.frames.rows_tf.step import LiveStep
from kerasrec._src.memo.call_table import CallTable
from kerasrec._src.memo.calls import Calls
from kerasrec._src.memo.levels import check_order
from kerasrec._src.schedule.instructions import Return, Send
from kerasrec._src.schedule.sections import Place


class MemoStep(LiveStep):
    """One step.

    Args:
        table: The calls that have been made.
        parallel_tokens: The largest number of frames that run at once; None for all that are ready.
            Further arguments are those of `LiveStep`.
    """

    def __init__(self, table: CallTable, parallel_tokens: int | None, *given: Any):
        super().__init__(*given)
        self.table, self.parallel_tokens = table, parallel_tokens

    def run(self) -> None:
        """Runs the place; then frames go on that wait for calls which have returned by now."""
        super().run()
        for name in dict.fromkeys([self.name, *self.block.calls()]):
            self._go_on(name)

    def _taken(self) -> tf.Tensor:
        numbers, most = super()._taken(), self.parallel_tokens
        if most and self.place:
            self.ready[self.key] = numbers[most:]
        elif most:
            self._state["heads"][self.name] -= tf.size(numbers[most:])
        return numbers[:most]

    def _arguments(self) -> Tensors:
        arguments, most = super()._arguments(), self.parallel_tokens
        if most:
            self.new[self.name] = [tensor[most:] for tensor in arguments]
        return [tensor[:most] for tensor in arguments]

    def _frames(self, callee: str, send: Send) -> dict[Column, tf.Tensor]:
        """The integers kept for the frame of each call, if it is new."""
        own = self.columns_of_callers(send)
        columns: dict[Column, tf.Tensor] = {name: own[name] for name in CALLS}
        return columns | {"depth": own["depth"] + 1}

    def call(
        self, callee: str, sends: Sequence[Send], frames: Sequence[dict[Column, tf.Tensor]]
    ) -> None:
        """Looks calls up, and appends frames for those that are new."""
        arguments = self.block.arguments(sends)
        sizes = [tf.size(own["depth"]) for own in frames]
        if self.graph.bodies[callee].may_repeat:
            keys = self.table.keys(callee, arguments)
            numbers, is_new = self.table.number(keys, self.counts[callee])
        else:
            numbers = self.counts[callee] + tf.range(tf.add_n(sizes))
            is_new = tf.ones_like(numbers, tf.bool)
        for send, called in zip(sends, tf.split(numbers, sizes), strict=True):
            rows = tf.reshape(called, [-1, len(send.sites)])
            self.block.write_own(self.layout.link(send.sites), rows, send.region)
        callers, labels, _ = columns = [
            one_tensor([own[name] for own in frames]) for name in self.layout.columns(callee)
        ]
        waiting = [self._state["waiting"][callee], tf.stack([numbers, callers, labels], 1)]
        self._state["waiting"][callee] = tf.concat(waiting, 0)
        self.counts[callee] += tf.reduce_sum(tf.cast(is_new, tf.int32))
        new = [rows_where(is_new, tensor) for tensor in arguments]
        self.append(callee, rows_where(is_new, tf.stack(columns, 1)), new)

    def append(self, callee: str, table: tf.Tensor, arguments: Tensors) -> None:
        """Appends frames of a body, and keeps their scalar arguments for errors."""
        super().append(callee, table, arguments)
        rows = tf.range(self._before[callee], self.counts[callee])
        for number, tensor in enumerate(arguments):
            if ("argument", callee, number) in self.buffers.specs:
                self.buffers.write(("argument", callee, number), rows, tensor)

    def resume(self, returns: Sequence[Return]) -> None:
        """Notes that the frames have returned."""
        for returned in returns:
            numbers = self.block.numbers(returned.region)
            self.buffers.write(("done", self.name), numbers, tf.ones_like(numbers, tf.bool))

    def _go_on(self, callee: str) -> None:
        """Takes calls that have returned out of the list of those that wait."""
        (waiting,) = apart([self._state["waiting"][callee]])
        is_done = self.buffers.read(("done", callee), waiting[:, 0])
        self._state["waiting"][callee] = rows_where(~is_done, waiting)
        _, callers, labels = tf.unstack(rows_where(is_done, waiting), axis=1)
        self.return_to(callee, callers, labels)


@dataclass(eq=False)
class MemoQueueRun(QueueRun):
    """One run of a program.

    Args:
        parallel_tokens: The largest number of frames that run at once; None for all. Further
            arguments are those of `QueueRun`. There is no bound on the frames that are kept.
    """

    parallel_tokens: int | None = None

    def _first_state(self, arguments: Tensors) -> State:
        self._table = CallTable(self.graph)
        keys = self._table.keys(self.graph.entry, arguments)
        roots, is_new = self._table.number(keys, tf.constant(0))
        state = super()._first_state([rows_where(is_new, tensor) for tensor in arguments])
        self.roots = roots
        state["waiting"] = {name: tf.zeros([0, 3], tf.int32) for name in self.graph.bodies}
        return state

    def _make_step(self, key: Place, state: State) -> MemoStep:
        given = self.store, self.shared, self.bound, self.recorded, key, state
        return MemoStep(self._table, self.parallel_tokens, *given)

    def _of_roots(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.gather(rows, self.roots)

    def _check(self, end: State) -> tf.Tensor:
        """Fails if the run was stopped by a limit, or if a call waits for itself."""
        with tf.control_dependencies([super()._check(end)]):
            return self._check_order(end["waiting"])

    def _check_order(self, waiting: dict[str, tf.Tensor]) -> tf.Tensor:
        """Fails if calls still wait: int32 `[calls, 3]` for each body that is called."""
        names, done = list(self.graph.bodies), self.store.done
        sizes = [self.store.counts[name] for name in names]
        *starts, count = tf.unstack(tf.cumsum([0, *sizes]))
        bodies = [0] * self.graph.num_labels
        for site in self.graph.inner_sites:
            bodies[site.label] = names.index(site.caller or "")
        start_of_label = tf.gather(tf.stack(starts), bodies)
        callees, callers, labels = tf.unstack(tf.concat(list(waiting.values()), 0), axis=1)
        callees += tf.repeat(tf.stack(starts), [tf.shape(of)[0] for of in waiting.values()])
        callers += tf.gather(start_of_label, labels)
        is_open = tf.scatter_nd(callers[:, tf.newaxis], tf.ones_like(callers), [count]) > 0
        arguments, numbers = {}, {}
        for name, start, size in zip(names, starts, sizes, strict=True):
            parameters = range(len(self.graph.bodies[name].parameters))
            keys = [("argument", name, place) for place in parameters]
            vector = tf.zeros([size, 1])  # It is not shown.
            arguments[name] = [done[key][:size] if key in done else vector for key in keys]
            numbers[name] = start + tf.range(size)
        calls = Calls(arguments, numbers, self.roots, tf.constant(1), {}, count)
        return check_order(self.graph, calls, callers, callees, is_open)
