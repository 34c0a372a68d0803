"""Finds how many frames of a block have room for their entries of ragged rows."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.frames.rows_xla.block import Block
from kerasrec._src.frames.rows_xla.entry_rows import num_fitting
from kerasrec._src.graph.values import Each
from kerasrec._src.schedule.instructions import Instruction, Item, Select
from kerasrec._src.schedule.sections import Segment


def fitting(block: Block, segment: Segment, from_end: bool = False) -> tf.Tensor | None:
    """Returns the number of frames of a block that may run, int32; None if it has no ragged rows.

    The segment itself may compute the lengths of rows, so the part of it that does runs here. The
    whole segment computes the same again, but XLA merges both.

    Args:
        block: A block of as many frames as possible; it must not be used afterwards.
        segment: The segment to run.
        from_end: Whether the last frames of the block run, and not the first.
    """
    regions = [one.regions[0] for one in segment.instructions if isinstance(one, Select)]
    each = [region for region in regions if isinstance(region, Each)]
    if not each:
        return None
    needed: set[Instruction] = set()
    wanted: set[Item] = {region.selector for region in each}
    for one in reversed(segment.instructions):
        if not wanted.isdisjoint(one.writes):
            needed.add(one)
            wanted.update(one.reads)
    block.run(one for one in segment.instructions if one in needed)
    found = [
        num_fitting(block.get(region.selector), block.live, block.num_rows(region), from_end)
        for region in each
    ]
    return tf.reduce_min(tf.stack(found))
