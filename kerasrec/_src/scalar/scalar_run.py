"""Runs programs of plain numbers one token at a time, at the speed of machine code.

Recursion that is sequential by nature, such as Ackermann's function, has no tokens to batch: a wave
holds one token, and one TensorFlow op costs more than all the arithmetic of a call. Here, a program
is a small machine with one stack (`machine.py`), which XLA compiles into one loop.

XLA needs sizes that are known when it compiles: `blocks.py` finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, State, Tensors
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.scalar.blocks import Blocks
from kerasrec._src.scalar.forward import ScalarForward
from kerasrec._src.scalar.gradient import ScalarGradient
from kerasrec._src.scalar.ops import gradient_obstacles, obstacles

__all__ = ["ScalarRun", "gradient_obstacles", "obstacles"]

Backward: TypeAlias = Callable[[Tensors, Given, dict[Value, tf.Tensor]], Outcome]

# The room with which a machine begins. Filling it with zeros costs little compared with the launch.
# If a long run needs more stack in the end, the run was wasted, so the stack begins large. A log
# that is too small ends a run early, so the log begins small.
_NUM_FRAMES = 1 << 12
_NUM_ROWS = 1 << 10


@dataclass(eq=False)
class ScalarRun:
    """One run of a program of plain numbers; its gradient runs the program again.

    Args:
        graph: A program without `obstacles`.
        shared: The tensors of SHARED values.
        limits: The bounds on depth and memory.
        other_backward: Runs the program again, forward and backward, with another engine, for a
          gradient that has `gradient_obstacles`; its arguments are those of the program, then those
          of `backward`.
    """

    graph: TaggedGraph
    shared: dict[Value, tf.Tensor]
    limits: Limits
    other_backward: Backward
    arguments: Tensors = field(init=False)

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs all tokens."""
        self.arguments = arguments
        way = ScalarForward(self.graph, self.shared)

        def check(state: State, num_tokens: tf.Tensor) -> list[tf.Operation]:
            depth = tf.constant(self.limits.max_depth)
            fault = state["fault"]
            is_sound = tf.equal(fault, 0)
            stopped = tf.where(is_sound & (state["token"] < num_tokens), 1, 0)
            nothing = tf.constant(0, tf.int64)
            messages = tf.constant(["", *(f"{self.limits.name}: {item}" for item in way.messages)])
            return [
                tf.debugging.Assert(is_sound, [messages[fault]]),
                self.limits.check(self.graph, depth, stopped, nothing, lambda: state["labels"]),
            ]

        blocks = Blocks(way.run, check, _NUM_FRAMES, self.limits.max_depth)
        return Outcome({0: blocks.run(arguments)}, {})

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs all tokens again, forward and backward; arguments as for `ScheduleRun.backward`."""
        if gradient_obstacles(self.graph):
            return self.other_backward(self.arguments, given, shared)
        way = ScalarGradient(self.graph, shared)
        sweep = self.graph.bodies[self.graph.entry].sweeps[1]
        pairs = zip(sweep.parameters, given[0], strict=True)
        cotangents = [item for node, item in pairs if node is not None and item is not None]
        found = self._gradient(way, cotangents)
        sums = found[len(found) - len(way.wanted) :]
        of_arguments = iter(found)
        return Outcome(
            {1: [None if node is None else next(of_arguments) for node in sweep.outputs]},
            dict(zip(way.wanted, sums, strict=True)),
        )

    def _gradient(self, way: ScalarGradient, cotangents: Tensors) -> Tensors:
        """Returns the gradients of the arguments that have one, then those of SHARED values."""
        num_arguments, limits = len(self.arguments), self.limits

        def attempt(
            num_rows: tf.Tensor, first: tf.Tensor, num_tokens: tf.Tensor, given: Tensors
        ) -> State:
            # Tail calls nest in a gradient, since it needs all frames.
            num_frames = num_rows if way.has_tail_calls else tf.minimum(num_rows, limits.max_depth)
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
