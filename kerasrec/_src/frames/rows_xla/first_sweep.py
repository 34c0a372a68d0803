"""The first sweep of a compiled run: frames in queues, a block of them at a time.

Frames are numbered as they are called, so those that wait for place 0 of a body have the highest
numbers. Those that wait for a later place are in a list (see `layout.py`). The components of places
run one after another. A component of several places is a loop, in which each place runs until its
own queue is empty.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.frames.loops import run_loop
from kerasrec._src.frames.rows_xla.program import ProgramInBlocks
from kerasrec._src.frames.rows_xla.step import MaskedStep, write_frames
from kerasrec._src.schedule.sections import Component, Place

# The scalars of a state.
_SCALARS = ("counts", "heads", "tails", "steps", "fault")


class FirstSweep:
    """The first sweep.

    Args:
        program: The program, which takes the values that the sweep keeps.
    """

    def __init__(self, program: ProgramInBlocks):
        self.program = program
        self.layout, self.sizes = program.layout, program.sizes
        self.specs = self.layout.buffer_specs(0)

    def run(self, arguments: Tensors, num_roots: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs all frames, or as many as there is room for.

        Args:
            arguments: The arguments of the program, padded.
            num_roots: The number of root tokens, an int32 scalar.

        Returns:
            Whether there was no room, and whether an op failed or a limit was met; bool scalars.
        """
        state, program = self._begin(arguments, num_roots), self.program
        for number, component in enumerate(self.layout.components):
            state = self._run_component(state, number, component)
        program.done |= state["buffers"]
        program.done |= {("trace", at): trace for at, trace in enumerate(state["traces"])}
        program.tables, program.counts = state["tables"], state["counts"]
        program.tails, program.steps = state["tails"], state["steps"]
        return self._is_full(state), state["fault"] | tf.reduce_any(state["failed"])

    def _begin(self, arguments: Tensors, num_roots: tf.Tensor) -> State:
        """Returns the state before the first block: the root tokens are frames of the entry."""
        entry, components, sizes = self.layout.graph.entry, self.layout.components, self.sizes
        # Not a constant: TensorFlow's bridge to XLA fails on constants that several loops pass on.
        zero = num_roots - num_roots
        rows = self.program.rows(sizes, self.program.empty(self.specs))
        roots = tf.range(tf.shape(arguments[0])[0])
        is_root = roots < num_roots
        known = dict(enumerate(arguments)) | self.layout.columns_of_roots(roots, zero)
        write_frames(rows, self.layout, entry, roots, known, is_root)
        of_roots = (entry, self.layout.results(entry))
        return {
            "buffers": rows.finished(),
            "counts": {
                space: num_roots if space in of_roots else zero for space in self.layout.spaces
            },
            "heads": dict.fromkeys(self.layout.order, zero),
            "tails": dict.fromkeys(self.layout.order, zero),
            "steps": [zero for _ in components],
            "traces": [
                tf.zeros([len(places) * sizes.capacity + 1, 3], tf.int32) for places in components
            ],
            "tables": self.program.empty_tables(),
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
        key, sizes = component[at], self.program.sizes_for(component)

        def run(state: State) -> State:
            step = MaskedStep(self.program, key, sizes, state)
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
        return self.program.is_full(state["counts"].values(), state["tails"])

    def _waiting(self, state: State, key: Place) -> tf.Tensor:
        """The number of frames in the queue of a place, an int32 scalar."""
        name, place = key
        end: tf.Tensor = state["tails"][key] if place else state["counts"][name]
        return end - state["heads"][key]
