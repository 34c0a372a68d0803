"""Later sweeps of a machine of queues, which run the blocks of the first sweep again.

Sweeps with an odd number, such as the gradient, go from the last block to the first. Sweeps with an
even number go from the first to the last. The values that are passed to a frame and the values that
it returns are in buffers, in the row with the number of the frame.
"""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from kerasrec._src.emit.arrays import array_of
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.emit.switch import switch
from kerasrec._src.errors import GraphError
from kerasrec._src.frames.loops import flat, keyed, run_loop
from kerasrec._src.frames.rows_tf.block import LiveBlock
from kerasrec._src.frames.rows_tf.buffers import Buffers, FrameStore, Trace, empty
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.sections import Direction, Place, Queues


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
        tensors = {key: empty(spec, counts[spec.space]) for key, spec in self.specs.items()}
        buffers = Buffers(self.specs, tensors)
        for number, tensor in enumerate(given):
            key = self.layout.input(self.layout.graph.entry, self.sweep, number)
            buffers.write(key, roots, tensor)
        num_steps = self.trace.num_steps
        last = num_steps - 1
        first, step = (last, -1) if self.is_back else (tf.constant(0), 1)
        kept = {value: array_of(value.type.tensor_spec(), num_steps) for value in self.kept}

        def iterate(state: State) -> State:
            branches = [partial(self._turn, key, state) for key in self.layout.order]
            found = switch(self.trace.places.read(state["at"]), branches)
            return keyed({**found, "at": state["at"] + step}, state)

        end = run_loop(
            lambda state: (state["at"] >= 0) & (state["at"] <= last),
            iterate,
            {"at": first, "buffers": buffers.tensors, "kept": kept},
        )
        self.store.done |= end["buffers"]
        self.store.arrays |= end["kept"]

    def _turn(self, key: Place, state: State) -> State:
        """Runs a place on the frames of one block."""
        at, graph = state["at"], self.layout.graph
        buffers = Buffers(self.specs, state["buffers"])
        frames, arrays = self.trace.numbers.read(at), {**self.store.arrays, **state["kept"]}
        given = self.layout, self.store, frames, buffers, arrays, at
        block = LiveBlock(graph, key[0], self.shared, *given)
        block.run_again(self.layout.segment(key[0], self.sweep, key[1]), self.sweep)
        arrays = block.saved()
        kept = {value: arrays[value] for value in self.kept}
        return flat({"buffers": buffers.tensors, "kept": kept})
