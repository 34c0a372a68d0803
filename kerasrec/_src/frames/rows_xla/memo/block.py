"""A block of calls of a body, which are in consecutive rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.frames.rows_xla.block import Block
from kerasrec._src.frames.rows_xla.memo.program import COPIES, called_key
from kerasrec._src.frames.rows_xla.memo.rows import RowsOfCalls
from kerasrec._src.frames.rows_xla.program import Program
from kerasrec._src.frames.rows_xla.rows import Buffers, Sizes
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.values import Node
from kerasrec._src.memo.copies import in_line
from kerasrec._src.private import rows_from
from kerasrec._src.schedule.instructions import Wait
from kerasrec._src.schedule.sections import Segment


class MemoBlock(Block):
    """The registers of a segment on a block; arguments as for `Block`."""

    rows: RowsOfCalls

    def called(self, sites: Sequence[CallSite], to_results: bool) -> Tensors:
        """For each call site, the numbers of the calls that it makes, int32 `[calls]`."""
        return tf.unstack(self.of_calls(called_key(sites)), len(sites), axis=1)

    def of_calls(self, key: Hashable) -> tf.Tensor:
        """Reads the block's rows of a buffer with one row for each call, `[calls, ...]`."""
        return rows_from(self.rows.all(key), self.start, self.rows.sizes.width)

    def arguments(self) -> Tensors:
        """The arguments of the calls, `[width, ...]` each."""
        copies, found = self.rows.copies, []
        for number, node in enumerate(self.graph.bodies[self.body].parameters):
            tensor = self.of_calls(("argument", self.body, number))
            if node.is_root:
                found.append(tf.reshape(tf.expand_dims(tensor, 1) + tf.range(copies), [-1]))
            else:
                times = tf.stack([1, copies, *([1] * (tensor.shape.rank - 1))])
                found.append(in_line(tf.tile(tf.expand_dims(tensor, 1), times)))
        return found

    def _passed(self, node: Node) -> tf.Tensor:
        """The value that a later sweep passes to the calls for a parameter, in its dtype."""
        return tf.cast(self.read_own(self.layout.inputs[node][1]), node.types[0].dtype)

    def wait(self, ones: Sequence[Wait]) -> None:
        """Records which calls wait for others."""
        masks = [self.mask(one.region) for one in ones]
        self.write_own(("waits", self.body), tf.reduce_any(masks, 0), self.live)


def memo_block_of(
    program: Program,
    segment: Segment,
    start: tf.Tensor,
    count: tf.Tensor,
    written: Buffers,
    sizes: Sizes,
) -> MemoBlock:
    """Makes a block of rows of a body; arguments as for `block.block_of`."""
    rows = RowsOfCalls(sizes, written, program.done)
    is_call, is_copy = tf.range(sizes.width) < count, tf.range(rows.copies) < program.done[COPIES]
    live = tf.reshape(tf.expand_dims(is_call, 1) & is_copy, [-1])
    if segment.place:
        live &= rows.read_block(("waits", segment.body), start)
    numbers = start + tf.range(sizes.width)
    known = program.layout.graph, segment.body, program.shared, program, rows
    block = MemoBlock(*known, numbers, live, start, segment.settled, is_range=True)
    if not segment.place:
        block.given = block.arguments()
    return block
