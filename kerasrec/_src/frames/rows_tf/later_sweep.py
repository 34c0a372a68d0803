"""Later sweeps of a machine of queues, which run the blocks of the first sweep again.

Sweeps with an odd number, such as the gradient, go from the last block to the first. Sweeps with an
even number go from the first to the last. The values that are passed to a frame and the values that
it returns are in buffers, in the row with the number of the frame.
"""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from kerasrec._src.emit.arrays import array_of, open_rows
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.emit.switch import switch
from kerasrec._src.errors import GraphError
from kerasrec._src.frames.rows_tf.block import LiveBlock
from kerasrec._src.frames.rows_tf.buffers import Buffers, empty
from kerasrec._src.frames.rows_tf.store import FrameStore, Trace
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.sections import Direction, Queues


class LaterSweep:
    """A later sweep.

    Args:
        section: The section of the schedule.
        store: The store of the run; it takes the values that the sweep keeps.
        shared: The tensors of SHARED values.
    """

    def __init__(self, section: Queues, store: FrameStore, shared: dict[Value, tf.Tensor]):
        if store.trace is None:
            raise GraphError("The first sweep has not run.")
        self.sweep = section.sweep
        self.is_back = section.direction is Direction.BACK
        self.store = store
        self.trace: Trace = store.trace
        self.layout = store.layout
        self.shared = shared
        self.specs = self.layout.buffer_specs(self.sweep)
        self.kept = self.layout.kept_by_block(self.sweep)

    def run(self, roots: tf.Tensor, given: Tensors) -> None:
        """Runs the sweep.

        Args:
            roots: The frames to which the outside passes values, int32 `[tokens]`.
            given: These values, `[tokens, ...]` each.
        """
        counts = self.store.counts
        tensors = [empty(spec, counts[spec.space]) for spec in self.specs.values()]
        buffers = Buffers(self.specs, tensors)
        for number, tensor in enumerate(given):
            key = self.layout.input(self.layout.graph.entry, self.sweep, number)
            buffers.write(key, roots, tensor)
        num_steps = self.trace.num_steps
        kept = [array_of(value.type.tensor_spec(), num_steps) for value in self.kept]
        state = {"buffers": buffers.tensors, "kept": kept}
        last = num_steps - 1
        first, step = (last, -1) if self.is_back else (tf.constant(0), 1)

        def iterate(at: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
            branches = [
                partial(self._turn, name, place, at, state) for name, place in self.layout.order
            ]
            return at + step, switch(self.trace.places.read(at), branches)

        _, end = tf.while_loop(
            lambda at, _: (at >= 0) & (at <= last),
            iterate,
            (first, state),
            shape_invariants=(tf.TensorShape([]), tf.nest.map_structure(open_rows, state)),
            parallel_iterations=1,
        )
        self.store.done.update(zip(self.specs, end["buffers"], strict=True))
        self.store.arrays.update(zip(self.kept, end["kept"], strict=True))

    def _turn(self, name: str, place: int, at: tf.Tensor, state: State) -> State:
        """Runs a place of a body on the frames of one block."""
        graph, buffers = self.layout.graph, Buffers(self.specs, state["buffers"])
        arrays = {**self.store.arrays, **dict(zip(self.kept, state["kept"], strict=True))}
        numbers = self.trace.numbers.read(at)
        block = LiveBlock(
            graph, name, self.shared, self.layout, self.store, numbers, buffers, arrays, at
        )
        block.run_again(self.layout.segment(name, self.sweep, place), self.sweep)
        arrays = block.saved()
        return {"buffers": buffers.tensors, "kept": [arrays[value] for value in self.kept]}
