"""Later sweeps of a machine of queues: the blocks of the first, once more.

Sweeps of odd number, such as the gradient, go from the last block to the first, those of even
number from the first to the last. What is passed to a frame and what it returns stand in buffers,
in the row of the frame's number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec.engine.blocks import Blocks
from kerasrec.engine.buffers import Buffers, empty
from kerasrec.engine.calls import passed
from kerasrec.engine.queue_state import open_shapes
from kerasrec.graph.graph import present
from kerasrec.waves.one_of import one_of
from kerasrec.waves.results import State, Tensors


@dataclass(frozen=True)
class Trace:
    """The blocks of a run.

    Args:
        num_steps: int32 scalar, how many there are.
        places: a TensorArray of which place each fired, in the order of the plan.
        numbers: a TensorArray of the numbers of its frames.
    """

    num_steps: tf.Tensor
    places: tf.TensorArray
    numbers: tf.TensorArray


class Again:
    """One later sweep.

    Args:
        blocks: of the program; takes over what the sweep keeps.
        trace: of the first sweep.
        index: of the sweep.
    """

    def __init__(self, blocks: Blocks, trace: Trace, index: int):
        self.blocks = blocks
        self.trace = trace
        self.index = index
        self.plan, self.layout = blocks.plan, blocks.layout
        self.rooms = blocks.layout.rooms(index)
        self.kept = blocks.kept(index)

    def run(self, roots: tf.Tensor, given: Tensors) -> None:
        """Runs the sweep.

        Args:
            roots: the frames that the outside passes something to, int32.
            given: what it passes, `[tokens, ...]` each.
        """
        if not self.rooms:
            return
        counts = self.blocks.counts
        tensors = [empty(room, counts[room.space]) for room in self.rooms.values()]
        buffers = Buffers(self.rooms, tensors)
        for number, tensor in enumerate(given):
            key = ("input", self.plan.graph.entry, self.index, number)
            buffers.write(key, roots, tensor)
        state = {"buffers": buffers.tensors, "kept": self._arrays()}
        last = self.trace.num_steps - 1
        first, step = (last, -1) if self.index % 2 else (tf.constant(0), 1)

        def iterate(at: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
            branches = [
                partial(self._fire, name, place, at, state) for name, place in self.plan.order
            ]
            return at + step, one_of(self.trace.places.read(at), branches)

        _, end = tf.while_loop(
            lambda at, _: (at >= 0) & (at <= last),
            iterate,
            (first, state),
            shape_invariants=(tf.TensorShape([]), open_shapes(state)),
            parallel_iterations=1,
        )
        self.blocks.done.update(zip(self.rooms, end["buffers"], strict=True))
        self.blocks.arrays.update(zip(self.kept, end["kept"], strict=True))

    def _arrays(self) -> list[tf.TensorArray]:
        return [
            tf.TensorArray(
                value.type.dtype,
                self.trace.num_steps,
                element_shape=value.type.tensor_shape(),
                clear_after_read=False,
            )
            for value in self.kept
        ]

    def _fire(self, name: str, place: int, at: tf.Tensor, state: State) -> State:
        """A place of a body, on the frames of one block."""
        index, is_odd = self.index, bool(self.index % 2)
        buffers = Buffers(self.rooms, state["buffers"])
        arrays = dict(zip(self.kept, state["kept"], strict=True))
        kept = {**self.blocks.arrays, **arrays}
        numbers = self.trace.numbers.read(at)
        block = self.blocks.block(name, numbers, buffers, lambda value: kept[value].read(at), place)
        self.blocks.fire(block, index, place)
        written = self.blocks.save(block, index, place, at, arrays)
        for group in self.layout.calls(name, place if is_odd else place + 1):
            if any(site.trips[index].calls for site in group.sites):
                callee = self.plan.graph.bodies[group.callee]
                rows = block.called_by(group, is_result=is_odd)
                tensors = passed(callee, index, group.sites, {name: block.frame})
                for number, tensor in enumerate(tensors):
                    buffers.write(("input", group.callee, index, number), rows, tensor)
        if place == (0 if is_odd else len(self.plan.groups[name])):
            outputs = present(self.plan.graph.bodies[name].sweeps[index].outputs)
            for number, node in enumerate(outputs):
                tensor = block.frame.get(node.output())
                buffers.write(("output", name, index, number), numbers, tensor)
        return {"buffers": buffers.tensors, "kept": list(written.values())}
