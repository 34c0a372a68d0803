"""The sweeps of a compiled run: the first over queues, others over blocks that are known.

In the first sweep, frames are numbered as they are called, so those that wait for place 0 of a body
have the highest numbers. Those that wait for a later place are in a list (see `layout.py`). The
components of places run one after another. A component of several places is a loop, in which each
place runs until its own queue is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.control_flow import run_loop
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.rows import Buffers
from kerasrec._src.frames.rows_xla.sizes import Sizes
from kerasrec._src.frames.rows_xla.step import MaskedStep, write_frames
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.schedule.sections import Component, Direction, Place, Queues, Segment

# The scalars of a state.
_SCALARS = ("counts", "heads", "tails", "steps", "fault")


class Sweep:
    """A sweep.

    Args:
        store: The store, which has the values kept so far, and takes those of this sweep.
        section: The section of the schedule.
    """

    def __init__(self, store: MaskedStore, section: Queues):
        self.store, self.layout = store, store.layout
        self.sweep = section.sweep
        self.is_back = section.direction is Direction.BACK
        self.specs = self.layout.buffer_specs(section.sweep)

    def run(self, given: Any) -> None:
        """Runs the sweep.

        Args:
            given: The values that the outside passes to root tokens, `[tokens, ...]` each, padded.
        """
        raise NotImplementedError


class FirstSweep(Sweep):
    """The first sweep; it runs all frames, or as many as there is room for."""

    def run(self, given: Tensors) -> None:
        """Runs the sweep on the arguments of the program."""
        state, store = self._begin(given), self.store
        for number, component in enumerate(self.layout.components):
            state = self._run_component(state, number, component)
        store.done |= state["buffers"]
        store.done |= {("trace", at): trace for at, trace in enumerate(state["traces"])}
        store.counts, store.tails, store.steps = (
            state[name] for name in ("counts", "tails", "steps")
        )
        store.is_full = self._is_full(state)
        store.faults.append(state["fault"] | tf.reduce_any(state["failed"]))

    def _begin(self, arguments: Tensors) -> State:
        """Returns the state before the first block: the root tokens are frames of the entry."""
        store, layout, sizes = self.store, self.layout, self.store.sizes
        entry, num_roots = layout.graph.entry, store.num_roots
        # Not a constant: TensorFlow's bridge to XLA fails on constants that several loops pass on.
        zero = num_roots - num_roots
        rows = store.rows(sizes, {**store.empty(self.specs), **store.empty_tables()})
        known = dict(enumerate(arguments)) | layout.columns_of_roots(store.roots, zero)
        write_frames(rows, layout, entry, store.roots, known, store.is_root)
        of_roots = (entry, layout.results(entry))
        return {
            "buffers": rows.finished(),
            "counts": {space: num_roots if space in of_roots else zero for space in layout.spaces},
            "heads": dict.fromkeys(layout.order, zero),
            "tails": dict.fromkeys(layout.order, zero),
            "steps": [zero for _ in layout.components],
            "traces": [
                tf.zeros([len(places) * sizes.capacity + 1, 3], tf.int32)
                for places in layout.components
            ],
            # Whether a step has failed that makes calls; such steps might go on forever.
            "fault": zero > 0,
            # For each row of a block, whether another step has failed; asked at the end of the run.
            "failed": tf.fill([sizes.wide.tokens_of_block], zero > 0),
        }

    def _run_component(self, state: State, number: int, component: Component) -> State:
        """Runs places until no frame is ready for any of them."""

        def turns(state: State) -> State:
            for at in range(len(component)):
                state = self._run_place(state, number, at)
            return state

        if len(component) == 1:
            return turns(state)
        return self._loop(component, turns, state)

    def _run_place(self, state: State, number: int, at: int) -> State:
        """Runs a place until no frame is ready for it.

        A loop that does not run costs nothing; a conditional would copy all buffers.
        """
        component = self.layout.components[number]
        key, sizes = component[at], self.store.sizes_for(component)

        def run(state: State) -> State:
            step = MaskedStep(self.store, key, sizes, state)
            step.run()
            step.record(number, at)
            return step.state()

        return self._loop((key,), run, state)

    def _loop(self, places: Component, run: Callable[[State], State], state: State) -> State:
        """Runs as long as frames are ready for some places, and there is room for more."""

        def goes_on(state: State) -> tf.Tensor:
            waiting = [self._waiting(state, key) > 0 for key in places]
            return tf.reduce_any(waiting) & ~self._is_full(state) & ~state["fault"]

        return run_loop(goes_on, run, state, _SCALARS)

    def _is_full(self, state: State) -> tf.Tensor:
        return self.store.has_no_room(state["counts"].values(), state["tails"])

    def _waiting(self, state: State, key: Place) -> tf.Tensor:
        """The number of frames in the queue of a place, an int32 scalar."""
        name, place = key
        end: tf.Tensor = state["tails"][key] if place else state["counts"][name]
        return end - state["heads"][key]


class LaterSweep(Sweep):
    """A sweep whose blocks are known: any later one, and with `memo` the first.

    They are recorded for each component, under `("trace", number)`.
    """

    def run(self, given: Any) -> None:
        """Runs the sweep on values from the outside."""
        store, entry = self.store, self.layout.graph.entry
        rows = store.rows(store.sizes, store.empty(self.specs))
        for number, tensor in enumerate(given):
            store.give(rows, self.layout.input(entry, self.sweep, number), tensor)
        self._run_from(rows.finished())

    def _run_from(self, buffers: Buffers) -> None:
        """Runs all blocks, from given buffers."""
        components = list(enumerate(self.layout.components))
        for number, component in reversed(components) if self.is_back else components:
            buffers = self._run_component(number, component, buffers)
        self.store.done.update(buffers)

    def _run_component(self, number: int, component: Component, buffers: Buffers) -> Buffers:
        last, trace = self.store.steps[number] - 1, self.store.done["trace", number]
        first, step = (last, -1) if self.is_back else (tf.constant(0), 1)
        sizes = self.store.sizes_for(component)

        def is_left(state: State) -> tf.Tensor:
            return (state["at"] >= 0) & (state["at"] <= last)

        def run_place(place: int, state: State) -> State:
            """Runs the next blocks as long as they are of one place."""

            def run(state: State) -> State:
                # Not `trace[at]`: a slice makes XLA compile separately for each number of blocks.
                _, start, count = tf.unstack(tf.gather(trace, state["at"]), 3)
                given = sizes, start, count, state["buffers"]
                found = self._run_block(component[place], *given)
                return {"at": state["at"] + step, "buffers": found}

            def is_next(state: State) -> tf.Tensor:
                here = tf.gather(trace, tf.clip_by_value(state["at"], 0, last))
                return is_left(state) & tf.equal(tf.unstack(here, 3)[0], place)

            return run_loop(is_next, run, state)

        def turns(state: State) -> State:
            places = range(len(component))
            for place in reversed(places) if self.is_back else places:
                state = run_place(place, state)
            return state

        state = {"at": first, "buffers": buffers}
        state = turns(state) if len(component) == 1 else run_loop(is_left, turns, state)
        found: Buffers = state["buffers"]
        return found

    def _run_block(
        self, key: Place, sizes: Sizes, start: tf.Tensor, count: tf.Tensor, buffers: Buffers
    ) -> Buffers:
        """Runs a place on one block."""
        segment = self.layout.segment(key[0], self.sweep, key[1])
        block = self.store.block(segment, start, count, buffers, sizes)
        self._run(block, segment)
        return block.rows.finished()

    def _run(self, block: MaskedBlock, segment: Segment) -> None:
        """Runs a segment on a block."""
        block.run_again(segment, self.sweep)
