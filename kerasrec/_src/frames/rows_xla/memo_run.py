"""One run of a program in which equal calls are one call, compiled by XLA.

Its sweeps go over calls that are all known: first those that need no other call, then level by
level.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kerasrec._src.emit.control_flow import with_open_tokens
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.emit.schedule_run import ScheduleRun, with_prepared
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.compiled_run import CompiledRun
from kerasrec._src.frames.rows_xla.memo_order import Order, order_of
from kerasrec._src.frames.rows_xla.memo_store import (
    MemoBlock,
    MemoLayout,
    MemoStore,
)
from kerasrec._src.frames.rows_xla.programs import Values
from kerasrec._src.frames.rows_xla.sizes import Sizes
from kerasrec._src.frames.rows_xla.sweeps import LaterSweep
from kerasrec._src.host import integers_on_host
from kerasrec._src.memo.calls import CallFinder, Calls
from kerasrec._src.memo.memo_run import MemoRun
from kerasrec._src.schedule.instructions import Return, Wait
from kerasrec._src.schedule.sections import Segment

_FAULT = ("fault",)


class FirstMemoSweep(LaterSweep):
    """The first sweep, upwards from the calls that call nobody; arguments as for `Sweep`."""

    store: MemoStore

    def run(self, given: Any) -> None:
        """Runs all calls, in an `Order`."""
        store = self.store
        store.take(given)
        # Not a constant: TensorFlow's bridge to XLA fails on constants that several loops pass on.
        no_fault = store.num_roots < 0
        self._run_from({**store.empty(self.specs), **store.empty_tables(), _FAULT: no_fault})
        store.is_full = tf.constant(False)
        store.faults.append(store.done.pop(_FAULT))

    def _run(self, block: MaskedBlock, segment: Segment) -> None:
        """Runs a segment on a block, fills tables, and records which calls wait for others."""
        assert isinstance(block, MemoBlock)
        block.run(segment.instructions)
        block.fill()
        waits = segment.of(Wait)
        if waits:
            block.wait(waits)
        block.give_back(segment.of(Return), self.sweep)
        block.rows.written[_FAULT] |= block.has_fault


class MemoValues(Values):
    """Runs the values of a program on known calls; arguments as for `Values`."""

    layout: MemoLayout
    layout_type = MemoLayout
    store_type = MemoStore
    first_sweep = FirstMemoSweep

    def run_in(self, order: Order, sizes: State, num_roots: tf.Tensor) -> State:
        """Runs the program, if there is enough memory for its buffers.

        Args:
            order: The order of all calls.
            sizes: The sizes of the buffers; see `Sizes`.
            num_roots: The number of root tokens, an int32 scalar.

        Returns:
            The same as `Values.run`.
        """
        tokens = tf.reduce_prod(tf.cast([Sizes(**sizes).rows, sizes["copies"]], tf.int64))
        return self._run_with(sizes, num_roots, order, fits=tokens <= self.room.most_tokens)


class MemoCompiledRun(CompiledRun):
    """One run of a program; arguments as for `CompiledRun`.

    The first loop of the schedule that waves run finds the calls.
    """

    values_of = MemoValues
    _calls: Calls

    def _run_values(self, arguments: Tensors, num_roots: tf.Tensor) -> State:
        """Finds all calls on the host, and runs their values."""
        schedule = super()._wave_run().schedule
        shared = with_prepared(self.shared, schedule.prepared_for([0]))
        with integers_on_host():
            finder = CallFinder(schedule, shared, self.limits, is_for_copies=True)
            self._calls = finder.find(with_open_tokens(arguments))
            values = self._values
            assert isinstance(values, MemoValues)
            given = self.schedule.graph, values.layout.waiting, self._calls, num_roots
            order, sizes = order_of(*given)
        return values.run_in(order, sizes, num_roots)

    def _wave_run(self) -> ScheduleRun:
        """Makes a run in waves, of the calls that were found."""
        run = super()._wave_run()
        if isinstance(run, MemoRun):
            run.calls = self._calls
        return run
