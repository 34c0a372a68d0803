"""Hoisted instructions and sums, which run for all frames of a compiled run, in wide blocks."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from kerasrec._src.emit.arrays import open_rows
from kerasrec._src.emit.control_flow import run_loop
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.emit.sums import Sums
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.entries import num_rows_of_token
from kerasrec._src.frames.rows_xla.rows import beside, put
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.graph.nodes import Accumulate, Collect
from kerasrec._src.graph.values import Value
from kerasrec._src.half_precision import in_float32
from kerasrec._src.private import in_xla
from kerasrec._src.schedule.instructions import Reduce, Save
from kerasrec._src.schedule.sections import AllTokens, Segment


class Sum:
    """The value of a COLLECT or ACCUMULATE node, as tensors that a loop carries.

    Dense gradients are added up, in float32 where they are half-precision. Rows are appended, and
    counted.

    Args:
        node: The node.
        store: The store of the run.
    """

    def __init__(self, node: Collect | Accumulate, store: MaskedStore):
        self.node = node
        self._is_dense = isinstance(node, Accumulate) and len(node.inputs) == 1
        if self._is_dense:
            kind = node.inputs[0].type
            shape = kind.shape or ()
            if None in shape and isinstance(node, Accumulate):
                shape = tf.shape(store.shared[node.to])
            self.begin: Tensors = [in_float32(tf.zeros(shape, kind.dtype))]
        else:
            self.begin = [tf.constant(0)]
            for value in node.inputs:
                rows = store.sizes.tokens * num_rows_of_token(value)
                shape = value.type.tensor_shape()[1:]
                self.begin.append(tf.zeros([rows, *shape], value.type.dtype))

    def add(self, tensors: Tensors, block: MaskedBlock) -> Tensors:
        """Returns the tensors with the contribution of a block."""
        values = block.all(self.node.inputs)
        if self._is_dense:
            return [tensors[0] + in_float32(values[0])]
        count, *rows = tensors
        first = self.node.inputs[0]
        mask = tf.repeat(block.mask_of(first, self.node.region), num_rows_of_token(first))
        ranks = tf.cumsum(tf.cast(mask, tf.int32))
        places = tf.expand_dims(count + ranks - 1, 1)
        pairs = zip(rows, values, strict=True)
        found = [put(old, places, new, mask) for old, new in pairs]
        return [count + ranks[-1], *found]

    def add_to(self, sums: Sums, tensors: Tensors, sizes: Mapping[Value, tf.Tensor]) -> None:
        """Adds the final value to the sums of a run: a dense gradient, or rows.

        Inside XLA, no rows can be left out, so unused rows are zeros for row 0.

        Args:
            sums: The sums of the run.
            tensors: The tensors at the end of the loop.
            sizes: The number of rows of each SHARED value that has been padded.
        """
        if isinstance(self.node, Accumulate) and self._is_dense:
            size = sizes.get(self.node.to)
            found = tensors if size is None else [tensors[0][:size]]
        elif in_xla():
            count, *rows = tensors
            is_given = tf.range(tf.shape(rows[0])[0]) < count
            found = [tf.where(beside(is_given, old), old, tf.zeros_like(old)) for old in rows]
        else:
            count, *rows = tensors
            found = [old[:count] for old in rows]
        if isinstance(self.node, Collect):
            sums.collect(self.node, found, None)
        else:
            sums.accumulate(self.node, *found)


def run_all_frames(store: MaskedStore, section: AllTokens) -> dict[Sum, Tensors]:
    """Runs a section for all frames; returns the final tensors of each sum.

    Args:
        store: The store of the run, which takes the values that the section keeps.
        section: The section of the schedule.
    """
    sums: dict[Sum, Tensors] = {}
    store.done.update(store.empty(store.layout.specs_of_saves(section)))
    for segment in section.segments:
        if segment.instructions:
            sums |= _run_segment(store, segment)
    return sums


def _run_segment(store: MaskedStore, segment: Segment) -> dict[Sum, Tensors]:
    """Runs a segment on all frames of its body, or on those of its place."""
    sums = [Sum(reduce.node, store) for reduce in segment.of(Reduce)]
    sizes = store.sizes.wide
    count = store.tails[segment.key] if segment.place else store.counts[segment.body]

    def run(state: State) -> State:
        start, written = state["start"], state["buffers"]
        block = store.block(segment, start, count - start, written, sizes)
        # Not always the width: XLA drops a loop from 0 to 1 by constant steps of more than 1.
        taken = tf.minimum(count - start, sizes.width)
        with_room = block.num_with_room(segment)
        if with_room is not None:
            taken = with_room
            block = store.block(segment, start, taken, written, sizes)
        block.run(segment.instructions)
        pairs = zip(sums, state["sums"], strict=True)
        return {
            "start": start + taken,
            "buffers": block.rows.finished(),
            "sums": [total.add(before, block) for total, before in pairs],
            "has_fault": state["has_fault"] | block.has_fault,
        }

    begin = {
        "start": tf.constant(0),
        "buffers": {
            ("value", save.item): store.done["value", save.item] for save in segment.of(Save)
        },
        "sums": [total.begin for total in sums],
        "has_fault": tf.constant(False),
    }
    end = run_loop(lambda state: state["start"] < count, run, begin, shape_of=_shape)
    store.done |= end["buffers"]
    store.faults.append(end["has_fault"])
    return dict(zip(sums, end["sums"], strict=True))


def _shape(tensor: tf.Tensor) -> tf.TensorShape:
    """The shape of a sum, or of rows."""
    return tensor.shape if tensor.shape.is_fully_defined() else open_rows(tensor)
