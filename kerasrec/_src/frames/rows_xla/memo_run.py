"""One run of a program in which equal calls are one call, compiled by XLA.

Its sweeps go over calls that are all known: first what needs no other call, then level by level.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kerasrec._src.emit.control_flow import with_open_tokens
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.emit.schedule_run import ScheduleRun, with_prepared
from kerasrec._src.frames.layout import of_kind
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.compiled_run import CompiledRun
from kerasrec._src.frames.rows_xla.memo_order import Order, order_of
from kerasrec._src.frames.rows_xla.memo_store import (
    COPIES,
    ROOTS,
    MemoBlock,
    MemoLayout,
    MemoStore,
    called_key,
)
from kerasrec._src.frames.rows_xla.rows import Buffers
from kerasrec._src.frames.rows_xla.sizes import Sizes, known_num_rows
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.frames.rows_xla.sweeps import BlockSweep, LaterSweep
from kerasrec._src.frames.rows_xla.values import Values
from kerasrec._src.host import integers_on_host
from kerasrec._src.memo.calls import CallFinder, Calls
from kerasrec._src.memo.memo_run import MemoRun
from kerasrec._src.schedule.instructions import Return, Wait
from kerasrec._src.schedule.linkage import groups_of
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Segment

_FAULT = ("fault",)


class FirstMemoSweep(BlockSweep):
    """The first sweep, upwards from the calls that call nobody; arguments as for `BlockSweep`."""

    store: MemoStore

    def run_all(self) -> tf.Tensor:
        """Runs all blocks; returns whether an op failed, a bool scalar."""
        empty = self.store.empty_tables()
        tables: Buffers = {("table", name): table for name, table in empty.items()}
        # Not a constant: TensorFlow's bridge to XLA fails on constants that several loops pass on.
        no_fault = self.store.num_roots < 0
        self._run_from({**self.store.empty(self.specs), **tables, _FAULT: no_fault})
        done = self.store.done
        self.store.tables = {name: done.pop(("table", name)) for name in self.store.rows_of_tables}
        return done.pop(_FAULT)

    def _run(self, block: MaskedBlock, segment: Segment) -> None:
        """Runs a segment on a block, fills tables, and records which calls wait for others."""
        assert isinstance(block, MemoBlock)
        block.run(segment.instructions)
        written = block.rows.written
        tables = {name: written["table", name] for name in self.store.rows_of_tables}
        block.fill(tables)
        written.update((("table", name), table) for name, table in tables.items())
        waits = of_kind(Wait, segment.instructions)
        if waits:
            block.wait(waits)
        block.give_back(of_kind(Return, segment.placed), self.sweep)
        written[_FAULT] |= block.has_fault


class LaterMemoSweep(LaterSweep):
    """A later sweep, from callers down; arguments as for `LaterSweep`."""

    store: MemoStore

    def _begin(self, roots: tf.Tensor, is_root: tf.Tensor, given: Tensors) -> Buffers:
        """Returns the buffers before the first block, with the values that the outside passes.

        They are added up, since several root tokens may have made the same call.
        """
        store, entry = self.store, self.layout.graph.entry
        rows = store.rows(store.sizes, store.empty(self.specs))
        for number, tensor in enumerate(given):
            key = self.layout.input(entry, self.sweep, number)
            rows.add_tokens(key, store.roots, tensor, is_root)
        return rows.finished()


class MemoValues(Values):
    """Runs the values of a program on known calls; arguments as for `Values`."""

    layout_type = MemoLayout
    store_type = MemoStore
    later_sweep = LaterMemoSweep

    def run_in(self, order: Order, sizes: State, num_roots: tf.Tensor, most: int) -> State:
        """Runs the program, if there is enough memory for its buffers.

        Args:
            order: The order of all calls.
            sizes: The sizes of the buffers; see `rows.Sizes`.
            num_roots: The number of root tokens, an int32 scalar.
            most: The number of tokens of each body for which there is memory.

        Returns:
            The same as `Values.run`.
        """
        tokens = tf.reduce_prod(tf.cast([Sizes(**sizes).rows, sizes["copies"]], tf.int64))
        return self._run_with(sizes, num_roots, order, fits=tokens <= most)

    def _padded_roots(self, given: Order) -> tf.Tensor:
        return tf.shape(given.roots)[0]

    def _first(
        self, store: MaskedStore, given: Order, num_roots: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        bodies = list(self.graph.bodies)
        for name, tensors in zip(bodies, given.arguments, strict=True):
            store.done.update(
                (("argument", name, number), tensor) for number, tensor in enumerate(tensors)
            )
        for group, called in zip(groups_of(self.graph), given.called, strict=True):
            store.done[called_key(group)] = called
        store.done |= {("trace", 0): given.entrance, ("trace", 1): given.levels}
        store.done |= {ROOTS: given.roots, COPIES: given.num_copies}
        store.steps = given.num_blocks
        store.counts = dict(zip(bodies, given.counts, strict=True))
        store.tails = {key: store.counts[key[0]] for key in self.layout.order}
        has_fault = FirstMemoSweep(store, self.layout.queues[0]).run_all()
        return tf.constant(False), has_fault


class MemoCompiledRun(CompiledRun):
    """One run of a program.

    Args:
        in_waves: The schedule that waves run, whose first loop finds the calls. The further
            arguments are those of `CompiledRun`.
    """

    values_of = MemoValues

    def __init__(self, in_waves: Schedule, *arguments: Any):
        super().__init__(*arguments)
        self.in_waves = in_waves
        self._calls: Calls

    def _run_values(self, arguments: Tensors) -> State:
        """Finds all calls on the host, and runs their values."""
        shared = with_prepared(self.shared, self.in_waves.prepared_for([0]))
        with integers_on_host():
            finder = CallFinder(self.in_waves, shared, self.limits, is_for_copies=True)
            self._calls = finder.find(with_open_tokens(arguments))
            num_roots = known_num_rows(arguments[0])
            values = self._values
            assert isinstance(values, MemoValues)
            given = self.schedule.graph, values.layout.waiting, self._calls, num_roots
            order, sizes = order_of(*given)
        return values.run_in(order, sizes, num_roots, self._most_in_memory())

    def _in_waves(self) -> ScheduleRun:
        """Makes a run by waves, of the calls that were found."""
        run = super()._in_waves()
        assert isinstance(run, MemoRun)
        run.calls = self._calls
        return run
