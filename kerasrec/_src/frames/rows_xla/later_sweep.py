"""Sweeps of a compiled run whose blocks are known: all later ones, and with `memo` the first."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.frames.loops import run_loop
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.program import ProgramInBlocks
from kerasrec._src.frames.rows_xla.rows import Buffers, Sizes
from kerasrec._src.schedule.sections import Component, Direction, Place, Queues, Segment


class BlockSweep:
    """A sweep over the blocks that are recorded for each component, under `("trace", number)`.

    Args:
        program: The program, which has the values kept so far, and takes those of this sweep.
        section: The section of the schedule.
    """

    def __init__(self, program: ProgramInBlocks, section: Queues):
        self.program = program
        self.layout = program.layout
        self.sweep = section.sweep
        self.is_back = section.direction is Direction.BACK
        self.specs = self.layout.buffer_specs(section.sweep)

    def _run_from(self, buffers: Buffers) -> None:
        """Runs all blocks, from given buffers."""
        components = list(enumerate(self.layout.components))
        for number, component in reversed(components) if self.is_back else components:
            buffers = self._run_component(number, component, buffers)
        self.program.done.update(buffers)

    def _run_component(self, number: int, component: Component, buffers: Buffers) -> Buffers:
        last, trace = self.program.steps[number] - 1, self.program.done["trace", number]
        first, step = (last, -1) if self.is_back else (tf.constant(0), 1)
        sizes = self.program.sizes_for(component)

        def is_left(state: State) -> tf.Tensor:
            return (state["at"] >= 0) & (state["at"] <= last)

        def run_place(place: int, state: State) -> State:
            """Runs the next blocks as long as they are of one place."""

            def run(state: State) -> State:
                # Not `trace[at]`: a slice makes XLA compile separately for each number of blocks.
                _, start, count = tf.unstack(tf.gather(trace, state["at"]), 3)
                given = sizes, start, count, state["buffers"]
                found = self._run_block(component[place], *given)
                return {"at": state["at"] + step, "buffers": found}

            def is_next(state: State) -> tf.Tensor:
                here = tf.gather(trace, tf.clip_by_value(state["at"], 0, last))
                return is_left(state) & tf.equal(tf.unstack(here, 3)[0], place)

            return run_loop(is_next, run, state)

        def turns(state: State) -> State:
            places = range(len(component))
            for place in reversed(places) if self.is_back else places:
                state = run_place(place, state)
            return state

        state = {"at": first, "buffers": buffers}
        state = turns(state) if len(component) == 1 else run_loop(is_left, turns, state)
        found: Buffers = state["buffers"]
        return found

    def _run_block(
        self, key: Place, sizes: Sizes, start: tf.Tensor, count: tf.Tensor, buffers: Buffers
    ) -> Buffers:
        """Runs a place on one block."""
        segment = self.layout.segment(key[0], self.sweep, key[1])
        block = self.program.block(segment, start, count, buffers, sizes)
        self._run(block, segment)
        return block.rows.finished()

    def _run(self, block: MaskedBlock, segment: Segment) -> None:
        """Runs a segment on a block."""
        block.run_again(segment, self.sweep)


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
