"""Runs programs of plain numbers one token at a time, at the speed of machine code.

Recursion that is sequential by nature, such as Ackermann's function, has no tokens to batch: a wave
holds one, and an op of TensorFlow costs more than all the arithmetic of a call. Here the program is
a small machine with one stack (`scalar_machine.py`), compiled by XLA as one loop.

XLA needs sizes that are known when it compiles: `scalar_blocks.py` finds them.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.engine.calls import tensors_of_present
from kerasrec.engine.forward_only import ForwardOnly
from kerasrec.engine.results import Outcome, State, Tensors
from kerasrec.engine.scalar_blocks import Blocks
from kerasrec.engine.scalar_forward import Forward
from kerasrec.engine.scalar_gradient import Gradient
from kerasrec.engine.scalar_ops import gradient_obstacles
from kerasrec.graph.graph import Value

# The room that a machine begins with. Filling it with zeros costs little compared with the launch.
# A long run that needs more stack in the end is wasted; a log that is too small ends a run early.
_NUM_FRAMES = 1 << 12
_NUM_ROWS = 1 << 10


class ScalarRun(ForwardOnly):
    """One run of a program of plain numbers.

    Its gradient runs the program again. Gradients that cannot run here are left to an engine of
    waves.
    """

    def run(self, arguments: Tensors) -> Outcome:
        """Runs all tokens."""
        way = Forward(self.graph, self.shared)

        def check(state: State, num_tokens: tf.Tensor) -> list[tf.Operation]:
            depth = tf.constant(self.limits.max_depth)
            fault = state["fault"]
            is_sound = tf.equal(fault, 0)
            stopped = tf.where(is_sound & (state["token"] < num_tokens), 1, 0)
            nothing = tf.constant(0, tf.int64)
            messages = tf.constant(["", *way.messages])
            return [
                tf.debugging.Assert(is_sound, [self.limits.name, messages[fault]]),
                self.limits.check(self.graph, depth, stopped, nothing, lambda: state["labels"]),
            ]

        blocks = Blocks(way.run, check, _NUM_FRAMES, self.limits.max_depth)
        return Outcome({0: blocks.run(arguments)}, {})

    def backward(
        self, given: Sequence[Sequence[tf.Tensor | None]], shared: dict[Value, tf.Tensor]
    ) -> Outcome:
        """Runs all tokens again, forward and backward; arguments as in `WaveRun.backward`."""
        if gradient_obstacles(self.graph):
            return super().backward(given, shared)
        way = Gradient(self.graph, shared)
        sweep = self.graph.bodies[self.graph.entry].sweeps[1]
        found = self._gradient(way, tensors_of_present(sweep.parameters, given[0]))
        sums = found[len(found) - len(way.wanted) :]
        of_arguments = iter(found)
        return Outcome(
            {1: [None if node is None else next(of_arguments) for node in sweep.outputs]},
            dict(zip(way.wanted, sums, strict=True)),
        )

    def _gradient(self, way: Gradient, cotangents: Tensors) -> Tensors:
        """Gradients of the arguments that have one, then of the SHARED values."""
        num_arguments, limits = len(self.arguments), self.limits

        def attempt(
            num_rows: tf.Tensor, first: tf.Tensor, num_tokens: tf.Tensor, given: Tensors
        ) -> State:
            num_frames = tf.minimum(num_rows, limits.max_depth)
            arguments, cotangents = given[:num_arguments], given[num_arguments:]
            return way.run(num_frames, num_rows, first, num_tokens, arguments, cotangents)

        def check(state: State, num_tokens: tf.Tensor) -> list[tf.Operation]:
            message = (
                f"{limits.name}: the gradient of one token keeps more bytes than "
                f"max_memory={limits.max_memory}. If the recursion is meant to be that deep, raise "
                "@kerasrec.recursive(max_memory=...)."
            )
            return [tf.debugging.Assert(state["token"] >= num_tokens, [message])]

        most_rows = min(limits.max_memory // way.row_bytes, (1 << 31) - 1)
        return Blocks(attempt, check, _NUM_ROWS, most_rows).run([*self.arguments, *cotangents])
