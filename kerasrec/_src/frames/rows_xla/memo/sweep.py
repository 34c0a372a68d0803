"""Sweeps over calls that are all known: first what needs no other call, then level by level."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.frames.layout import of_kind
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.later_sweep import BlockSweep, LaterSweep
from kerasrec._src.frames.rows_xla.memo.program import MemoBlock, MemoProgram
from kerasrec._src.frames.rows_xla.rows import Buffers
from kerasrec._src.schedule.instructions import Return, Wait
from kerasrec._src.schedule.sections import Segment

_FAULT = ("fault",)


class FirstMemoSweep(BlockSweep):
    """The first sweep, upwards from the calls that call nobody; arguments as for `BlockSweep`."""

    program: MemoProgram

    def run_all(self) -> tf.Tensor:
        """Runs all blocks; returns whether an op failed, a bool scalar."""
        empty = self.program.empty_tables()
        tables: Buffers = {("table", name): table for name, table in empty.items()}
        # Not a constant: TensorFlow's bridge to XLA fails on constants that several loops pass on.
        no_fault = self.program.num_roots < 0
        self._run_from({**self.program.empty(self.specs), **tables, _FAULT: no_fault})
        done = self.program.done
        self.program.tables = {
            name: done.pop(("table", name)) for name in self.program.rows_of_tables
        }
        return done.pop(_FAULT)

    def _run(self, block: MaskedBlock, segment: Segment) -> None:
        """Runs a segment on a block, fills tables, and records which calls wait for others."""
        assert isinstance(block, MemoBlock)
        block.run(segment.instructions)
        written = block.rows.written
        tables = {name: written["table", name] for name in self.program.rows_of_tables}
        block.fill(tables)
        written.update((("table", name), table) for name, table in tables.items())
        waits = of_kind(Wait, segment.instructions)
        if waits:
            block.wait(waits)
        block.give_back(of_kind(Return, segment.placed), self.sweep)
        written[_FAULT] |= block.has_fault


class LaterMemoSweep(LaterSweep):
    """A later sweep, from callers down; arguments as for `LaterSweep`."""

    program: MemoProgram

    def _begin(self, roots: tf.Tensor, is_root: tf.Tensor, given: Tensors) -> Buffers:
        """Returns the buffers before the first block, with the values that the outside passes.

        They are added up, since several root tokens may have made the same call.
        """
        program, entry = self.program, self.layout.graph.entry
        rows = program.rows(program.sizes, program.empty(self.specs))
        for number, tensor in enumerate(given):
            key = self.layout.input(entry, self.sweep, number)
            rows.add_tokens(key, program.roots, tensor, is_root)
        return rows.finished()
