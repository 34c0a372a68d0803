"""The first sweep of a compiled run: frames in queues, a block of them at a time.

Frames are numbered as they are called, so those that wait for place 0 of a body are the last ones.
Those that wait for a later place stand in a list. A circle of places that feed each other is a
loop; one circle after the other runs until it is empty.
"""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from kerasrec.compiled.block import block_of
from kerasrec.compiled.padding import open_rows
from kerasrec.compiled.program import Circle, Program
from kerasrec.compiled.step import Step
from kerasrec.emit.one_of import one_of
from kerasrec.emit.results import State, Tensors


class FirstSweep:
    """The first sweep.

    Args:
        program: takes what the sweep keeps.
    """

    def __init__(self, program: Program):
        self.program = program
        self.layout, self.sizes = program.layout, program.sizes
        self.rooms = program.rooms(0)

    def run(self, arguments: Tensors, num_roots: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs all frames, or as many as there is room for.

        Args:
            arguments: of the program, padded.
            num_roots: int32 scalar, how many root tokens there are.

        Returns:
            Bool scalars: whether there was no room, and whether an op failed or a limit was met.
        """
        state, program = self._begin(arguments, num_roots), self.program
        for number, circle in enumerate(program.circles):
            state = self._run_circle(state, number, circle)
        program.done.update(zip(self.rooms, state["buffers"], strict=True))
        program.done.update((("trace", at), trace) for at, trace in enumerate(state["traces"]))
        program.tables = dict(zip(program.rows_of_tables, state["tables"], strict=True))
        program.counts = dict(zip(self.layout.spaces, state["counts"], strict=True))
        program.tails = dict(zip(self.layout.order, state["tails"], strict=True))
        program.steps = state["steps"]
        return self._is_full(state), state["fault"]

    def _begin(self, arguments: Tensors, num_roots: tf.Tensor) -> State:
        """The state before the first block: the root tokens are frames of the entry."""
        graph, circles = self.layout.graph, self.program.circles
        entry, sizes = graph.entry, self.sizes
        # Not a constant: TensorFlow's bridge to XLA fails on those that several loops pass on.
        zero = num_roots - num_roots
        buffers = self.program.empty(self.rooms)
        rows = block_of(self.program, entry, zero, tf.constant(False), zero, buffers, sizes).rows
        roots = tf.range(tf.shape(arguments[0])[0])
        is_root = roots < num_roots
        for number, tensor in enumerate(arguments):
            rows.write(("input", entry, 0, number), roots, tensor, is_root)
        label = tf.fill(tf.shape(roots), graph.root.label)
        columns = [tf.zeros_like(roots), label, tf.zeros_like(roots)]
        if self.layout.has_tail_calls(entry):
            columns += [tf.zeros_like(roots), label, roots]
        rows.write(("frame", entry), roots, tf.stack(columns, 1), is_root)
        of_roots = (entry, self.layout.results(entry))
        return {
            "buffers": list(rows.written.values()),
            "counts": [num_roots if one in of_roots else zero for one in self.layout.spaces],
            "heads": [zero for _ in self.layout.order],
            "tails": [zero for _ in self.layout.order],
            "steps": [zero for _ in circles],
            "traces": [tf.zeros([len(one) * sizes.capacity + 1, 3], tf.int32) for one in circles],
            "tables": [self._table(name) for name in self.program.rows_of_tables],
            "fault": zero > 0,
        }

    def _table(self, name: str) -> tf.Tensor:
        """An empty table; its last row is for the dead."""
        node = next(node for node in self.layout.graph.collects if node.name == name)
        kind = node.inputs[0].type
        return tf.zeros([self.program.rows_of_tables[name] + 1, *(kind.shape or ())], kind.dtype)

    def _run_circle(self, state: State, number: int, circle: Circle) -> State:
        """Runs places until no frame is ready for any of them."""
        found: State
        found, _ = tf.while_loop(
            lambda state, _: self._goes_on(state, circle),
            partial(self._turn, number, circle),
            (state, tf.constant(-1)),
            shape_invariants=(tf.nest.map_structure(open_rows, state), tf.TensorShape([])),
            parallel_iterations=1,
        )
        return found

    def _goes_on(self, state: State, circle: Circle) -> tf.Tensor:
        is_waiting = tf.reduce_any(self._waiting(state, circle) > 0)
        return is_waiting & ~self._is_full(state) & ~state["fault"]

    def _is_full(self, state: State) -> tf.Tensor:
        return tf.reduce_any(tf.stack(state["counts"]) > self.sizes.capacity)

    def _waiting(self, state: State, circle: Circle) -> tf.Tensor:
        """int32 `[places]`, how many frames stand in each queue."""
        found = []
        for name, place in circle:
            at = self.layout.order.index((name, place))
            end = state["tails"][at] if place else state["counts"][self.layout.spaces.index(name)]
            found.append(end - state["heads"][at])
        return tf.stack(found)

    def _turn(
        self, number: int, circle: Circle, state: State, last: tf.Tensor
    ) -> tuple[State, tf.Tensor]:
        """Runs the place whose turn it is: the next after the last one that has frames."""
        waiting, count = self._waiting(state, circle), len(circle)
        turns = tf.math.floormod(tf.range(count) - last - 1, count)
        chosen = tf.argmin(tf.where(waiting > 0, turns, count), output_type=tf.int32)
        sizes = self.program.sizes_for(circle)
        counts = tf.minimum(waiting, sizes.width)

        def branch(at: int) -> State:
            step = Step(self.program, self.rooms, circle[at], sizes, state)
            step.run(counts[at])
            step.note(number, at, counts[at])
            return step.state()

        found: State = one_of(chosen, [partial(branch, at) for at in range(count)])
        return found, chosen
