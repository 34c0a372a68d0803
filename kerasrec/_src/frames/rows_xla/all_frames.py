"""Hoisted instructions and sums, which run for all frames of a compiled run, in wide blocks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import tensorflow as tf

from kerasrec._src.emit.arrays import open_rows
from kerasrec._src.emit.control_flow import run_loop
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.frames.layout import BufferSpec, of_kind
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.entries import num_rows_of_token
from kerasrec._src.frames.rows_xla.rows import beside, put
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.graph.nodes import Accumulate, Collect
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

    def found(self, tensors: Tensors) -> Tensors:
        """Returns the final value: a dense gradient, or the rows that were appended.

        Inside XLA, no rows can be left out, so unused rows are zeros for row 0.
        """
        if self._is_dense:
            return tensors
        count, *rows = tensors
        if in_xla():
            is_given = tf.range(tf.shape(rows[0])[0]) < count
            return [tf.where(beside(is_given, old), old, tf.zeros_like(old)) for old in rows]
        return [old[:count] for old in rows]


def run_all_frames(
    store: MaskedStore, section: AllTokens
) -> tuple[list[Sum], list[Tensors], tf.Tensor]:
    """Runs a section for all frames.

    Args:
        store: The store of the run, which takes what the section keeps.
        section: The section of the schedule.

    Returns:
        The sums, the final value of each, and whether an op failed, a bool.
    """
    sums, found, has_fault = [], [], tf.constant(False)
    specs = store.layout.specs_of_saves(section)
    store.done.update(store.empty(specs))
    for segment in section.segments:
        if segment.instructions:
            more, tensors, fails = _run_segment(store, segment, specs)
            sums += more
            found += tensors
            has_fault |= fails
    return sums, found, has_fault


def _run_segment(
    store: MaskedStore, segment: Segment, specs: Mapping[Hashable, BufferSpec]
) -> tuple[list[Sum], list[Tensors], tf.Tensor]:
    """Runs a segment on all frames of its body, or on those of its place."""
    body, place = segment.body, segment.place
    sums = [Sum(reduce.node, store) for reduce in of_kind(Reduce, segment.instructions)]
    saved = {("value", save.item) for save in of_kind(Save, segment.instructions)}
    sizes = store.sizes.wide
    count = store.tails[body, place] if place else store.counts[body]

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
        "buffers": {key: store.done[key] for key in specs if key in saved},
        "sums": [total.begin for total in sums],
        "has_fault": tf.constant(False),
    }
    end = run_loop(lambda state: state["start"] < count, run, begin, shape_of=_shape)
    store.done |= end["buffers"]
    return sums, end["sums"], end["has_fault"]


def _shape(tensor: tf.Tensor) -> tf.TensorShape:
    """The shape of a sum, or of rows."""
    return tensor.shape if tensor.shape.is_fully_defined() else open_rows(tensor)
