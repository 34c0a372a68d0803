"""Later sweeps of a compiled run, which run the blocks of the first sweep again."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.frames.rows_xla.block import Block
from kerasrec._src.frames.rows_xla.block_sweep import BlockSweep
from kerasrec._src.frames.rows_xla.rows import Buffers
from kerasrec._src.schedule.sections import Segment


class LaterSweep(BlockSweep):
    """A later sweep, over the blocks that the first has recorded; arguments as for `BlockSweep`."""

    def run(self, roots: tf.Tensor, is_root: tf.Tensor, given: Tensors) -> None:
        """Runs the sweep.

        Args:
            roots: The frames to which the outside passes values, padded, int32 `[tokens]`.
            is_root: Which of them are real, bool `[tokens]`.
            given: The values that the outside passes, `[tokens, ...]` each.
        """
        self._run_from(self._begin(roots, is_root, given))

    def _begin(self, roots: tf.Tensor, is_root: tf.Tensor, given: Tensors) -> Buffers:
        """Returns the buffers before the first block."""
        program, entry = self.program, self.layout.graph.entry
        rows = program.rows(program.sizes, program.empty(self.specs))
        for number, tensor in enumerate(given):
            rows.write(self.layout.input(entry, self.sweep, number), roots, tensor, is_root)
        return rows.finished()

    def _pass_on(self, block: Block, segment: Segment) -> None:
        """Passes values to the frames that were called, or gradients to those that returned."""
        for one in block.sent:
            called = block.called(one.sites, self.is_back)
            rows = tf.concat(called, 0)
            live = tf.tile(block.mask(one.region), [len(called)])
            for number, tensors in enumerate(block.passed(one)):
                key = self.layout.input(one.sites[0].callee, self.sweep, number)
                block.rows.pass_on(key, rows, tf.concat(tensors, 0), live)
