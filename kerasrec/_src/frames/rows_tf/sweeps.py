"""The sweeps of a machine of queues: the state of the first one, and all later ones.

Without a bound, the new frames of a body are those with the highest numbers, and all of them are
taken at once. With a bound, there is a stack with an entry for each group of frames that were
called together: the body, the first frame, the number after the last frame, and the numbers of all
frames and entries at that time. As many of the newest frames are taken at once as the bound allows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import array_of, num_rows
from kerasrec._src.emit.control_flow import empty as no_tokens
from kerasrec._src.emit.control_flow import flat, keyed, run_loop, switch
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.errors import GraphError
from kerasrec._src.frames.layout import Layout
from kerasrec._src.frames.rows_tf.block import LiveBlock
from kerasrec._src.frames.rows_tf.buffers import Buffers, LiveStore, empty
from kerasrec._src.graph.values import Region, Value
from kerasrec._src.schedule.sections import Direction, Place, Queues

# The number of frames for which there is room at first.
_FRAMES_OF_ROOT = 8
_FRAMES = 128


def first_state(
    layout: Layout, bound: int | None, recorded: Sequence[Region | str], roots: Tensors
) -> State:
    """Returns the state before the first block: the root tokens are frames of the entry.

    Args:
        layout: The layout of the program.
        bound: The number of frames that may run at once; None for all.
        recorded: The bodies and regions whose numbers of tokens are recorded.
        roots: The arguments of the program.
    """
    graph, specs = layout.graph, layout.buffer_specs(0)
    names, num_roots, zero = list(graph.bodies), num_rows(roots[0]), tf.constant(0)
    spaces = [*layout.spaces, *layout.spaces_of_rows]
    sizes: dict[Hashable, Any] = dict.fromkeys(spaces, tf.constant(_FRAMES))
    of_roots = (graph.entry, layout.results(graph.entry))
    sizes.update(dict.fromkeys(of_roots, tf.maximum(_FRAMES, _FRAMES_OF_ROOT * num_roots)))
    buffers = Buffers(specs, {key: empty(spec, sizes[spec.space]) for key, spec in specs.items()})
    numbers = tf.range(num_roots)
    columns = layout.columns_of_roots(numbers, tf.zeros_like(numbers))
    table = tf.stack([columns[name] for name in layout.columns(graph.entry)], 1)
    buffers.write(("frame", graph.entry), numbers, table)
    for number, tensor in enumerate(roots if graph.memo else ()):
        buffers.write(("argument", graph.entry, number), numbers, tensor)
    counts = {space: num_roots if space in of_roots else zero for space in spaces}
    state: State = {
        "buffers": buffers.tensors,
        "counts": counts,
        "new": {
            name: roots if name == graph.entry else no_tokens(body.parameters)
            for name, body in graph.bodies.items()
        },
        "ready": {key: tf.zeros([0], tf.int32) for key in layout.order if key[1]},
        "step": zero,
        "last": tf.constant(-1),
        "kept": {value: array_of(value.type.tensor_spec()) for value in layout.kept_by_block(0)},
        # For the calls of the last block: their depth, their number, and one of the frames.
        "called": tf.stack([zero, num_roots, names.index(graph.entry), zero]),
    }
    if bound is None:
        state["heads"] = dict.fromkeys(names, zero)
        state["trace"] = array_of(tf.TensorSpec([], tf.int32))
        state["numbers"] = array_of(tf.TensorSpec([None], tf.int32))
        if recorded:
            state["record"] = array_of(tf.TensorSpec([2 + len(recorded)], tf.int32))
    else:
        numbers_of_frames = [counts[space] for space in layout.spaces]
        row = tf.stack([names.index(graph.entry), zero, num_roots, *numbers_of_frames])
        state["stack"] = row[tf.newaxis][: tf.minimum(num_roots, 1)]
        state["collected"] = [
            [array_of(value.type.tensor_spec()) for value in node.inputs] for node in graph.collects
        ]
        state["num_collected"] = [zero for _ in graph.collects]
    return state


def waiting(state: State, layout: Layout) -> tf.Tensor:
    """The number of frames that may be taken from each queue, int32 `[places]`, in their order."""
    found = [
        tf.size(state["ready"][key]) if key[1] else _num_new(state, layout, key[0])
        for key in layout.order
    ]
    return tf.stack(found)


def next_place(state: State, layout: Layout) -> tf.Tensor:
    """The place to fire, an int32 scalar: the next in turn of the first component with work."""
    components, num_places = layout.components, len(layout.order)
    of_component = [number for number, component in enumerate(components) for _ in component]
    turns = tf.math.floormod(tf.range(num_places) - state["last"] - 1, num_places)
    ranks = tf.constant(of_component) * num_places + turns
    is_waiting = waiting(state, layout) > 0
    ranks = tf.where(is_waiting, ranks, len(components) * num_places)
    return tf.argmin(ranks, output_type=tf.int32)


def _num_new(state: State, layout: Layout, name: str) -> tf.Tensor:
    if "heads" in state:
        return state["counts"][name] - state["heads"][name]
    row = tf.unstack(tf.reduce_sum(state["stack"][-1:], 0), 3 + len(layout.spaces))
    # To take these frames forgets all frames that were called after them, so those must be done.
    now = [state["counts"][space] for space in layout.spaces]
    is_newest = tf.reduce_all(tf.equal(row[3:], now))
    num_ready = tf.add_n([tf.size(numbers) for numbers in state["ready"].values()] or [0])
    is_next = tf.equal(row[0], list(layout.graph.bodies).index(name)) & (
        is_newest | tf.equal(num_ready, 0)
    )
    return tf.where(is_next, row[2] - row[1], 0)


def run_later_sweep(
    section: Queues,
    store: LiveStore,
    shared: dict[Value, tf.Tensor],
    roots: tf.Tensor,
    given: Tensors,
) -> None:
    """Runs a later sweep, over the blocks of the first sweep.

    Sweeps with an odd number, such as the gradient, go from the last block to the first. Sweeps
    with an even number go from the first to the last. The values that are passed to a frame and the
    values that it returns are in buffers, in the row with the number of the frame.

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
    pass_on = buffers.add if graph.memo else buffers.write
    for number, tensor in enumerate(given):
        pass_on(layout.input(graph.entry, sweep, number), roots, tensor)
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
