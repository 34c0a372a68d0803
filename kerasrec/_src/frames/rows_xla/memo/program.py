"""A program in a compiled run with `memo`: what all parts of the run know of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.frames.layout import BufferSpec, Layout, Specs
from kerasrec._src.frames.rows_xla.joined_buffers import JoinedBuffers
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.memo.block import COPIES, ROOTS, MemoBlock, RowsOfCalls
from kerasrec._src.frames.rows_xla.program import ProgramInBlocks
from kerasrec._src.frames.rows_xla.rows import Buffers, Sizes
from kerasrec._src.half_precision import wide
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Component, Place, Segment


class MemoLayout(MaskedLayout):
    """The values that are kept for a program; arguments as for `MaskedLayout`.

    Calls are not written one by one, so arguments are kept like other values. No buffers are
    joined: some are added to, and others are replaced.

    Attributes:
        waiting: The bodies of which some calls wait for others, and go on at place 1.

    Raises:
        GraphError: If a body has other places than those before and after calls.
    """

    def __init__(self, schedule: Schedule):
        super().__init__(schedule)
        others = [key for key in self.order if key[1] > 1]
        if others:
            raise GraphError(f"With memo a body has places 0 and 1, and there are {others}.")
        self.arguments = {}
        self.waiting = [name for name in self.graph.bodies if (name, 1) in self.order]

    @cached_property
    def joined(self) -> JoinedBuffers:
        """No buffers."""
        return JoinedBuffers({})

    @cached_property
    def shares(self) -> dict[Place, int]:
        """One for each place, since blocks of place 1 stand among all other calls."""
        return dict.fromkeys(self.order, 1)

    @property
    def components(self) -> tuple[Component, ...]:
        """Two groups of places: those that run in any order, and those that run by level."""
        entrances = tuple((name, 0) for name in self.graph.bodies)
        return entrances, tuple((name, 1) for name in self.waiting)

    def has_wide_blocks(self, component: Component) -> bool:
        """Whether blocks may be wide: not if levels wait for each other."""
        return not component[0][1]

    def buffer_specs(self, sweep: int) -> Specs:
        """Returns the specs of the buffers that a sweep fills.

        Buffers that sum the cotangents from several callers are float32 in half precision.
        """
        kinds = ("input", "output", "value")
        found: Specs = {
            key: replace(spec, dtype=wide(spec.dtype)) if key[0] == "input" else spec
            for key, spec in Layout.buffer_specs(self, sweep).items()
            if key[0] in kinds
        }
        for value in self.kept_by_block(sweep):
            found["value", value] = self.block_spec(value)
        if not sweep:
            found |= {("waits", name): BufferSpec(name, tf.bool, ()) for name in self.waiting}
        return found


@dataclass
class MemoProgram(ProgramInBlocks):
    """A program in one run; `done` has the tensors of the `Order`."""

    layout: MemoLayout

    def rows(self, sizes: Sizes, written: Buffers) -> RowsOfCalls:
        """The program's buffers, of which some may be written."""
        return RowsOfCalls(sizes, written, self.done, self.layout.joined)

    def block(
        self,
        segment: Segment,
        start: tf.Tensor,
        count: tf.Tensor,
        written: Buffers,
        sizes: Sizes,
    ) -> MemoBlock:
        """Makes a block of rows of a body; arguments as for `ProgramInBlocks`."""
        rows = self.rows(sizes, written)
        is_call, is_copy = tf.range(sizes.width) < count, tf.range(rows.copies) < self.done[COPIES]
        live = tf.reshape(tf.expand_dims(is_call, 1) & is_copy, [-1])
        if segment.place:
            live &= rows.read_block(("waits", segment.body), start)
        given = self.layout.graph, segment.body, self.shared, self.layout, self.sizes_of_tables
        frames = start + tf.range(sizes.width), live, start, segment.settled, True
        block = MemoBlock(*given, rows, *frames)
        if not segment.place:
            block.given = block.arguments()
        return block

    @property
    def roots(self) -> tf.Tensor:
        """The calls and copies of root tokens, int32 `[tokens, 2]`."""
        return self.done[ROOTS]

    def of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """The rows of root tokens."""
        return tf.gather_nd(tensor, self.roots)
