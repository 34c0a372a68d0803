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
from kerasrec._src.frames.rows_tf.buffers import Buffers, FrameStore, empty
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.sections import Direction, Place, Queues


def run_later_sweep(
    section: Queues,
    store: FrameStore,
    shared: dict[Value, tf.Tensor],
    roots: tf.Tensor,
    given: Tensors,
) -> None:
    """Runs a later sweep.

    Args:
        section: The section of the schedule.
        store: The store of the run; it takes the values that the sweep keeps.
        shared: The tensors of SHARED values.
        roots: The frames to which the outside passes values, int32 `[tokens]`.
        given: These values, `[tokens, ...]` each.
    """
    layout, sweep, trace = store.layout, section.sweep, store.trace
    if trace is None:
        raise GraphError("The first sweep has not run.")
    graph, specs = layout.graph, layout.buffer_specs(sweep)
    is_back, last = section.direction is Direction.BACK, trace.num_steps - 1
    first, step = (last, -1) if is_back else (tf.constant(0), 1)

    def run_place(key: Place, state: State) -> State:
        """Runs a place on the frames of one block."""
        (name, place), at = key, state["at"]
        buffers, arrays = Buffers(specs, state["buffers"]), {**store.arrays, **state["kept"]}
        known = layout, store, trace.numbers.read(at), buffers, arrays, at
        block = LiveBlock(graph, name, shared, *known)
        block.run_again(layout.segment(name, sweep, place), sweep)
        kept = {value: block.arrays[value] for value in state["kept"]}
        return flat({"buffers": buffers.tensors, "kept": kept})

    def iterate(state: State) -> State:
        branches = [partial(run_place, key, state) for key in layout.order]
        found = switch(trace.places.read(state["at"]), branches)
        return keyed({**found, "at": state["at"] + step}, state)

    tensors = {key: empty(spec, store.counts[spec.space]) for key, spec in specs.items()}
    buffers = Buffers(specs, tensors)
    for number, tensor in enumerate(given):
        buffers.write(layout.input(graph.entry, sweep, number), roots, tensor)
    kept = {
        value: array_of(value.type.tensor_spec(), trace.num_steps)
        for value in layout.kept_by_block(sweep)
    }
    end = run_loop(
        lambda state: (state["at"] >= 0) & (state["at"] <= last),
        iterate,
        {"at": first, "buffers": buffers.tensors, "kept": kept},
    )
    store.done |= end["buffers"]
    store.arrays |= end["kept"]
