"""Runs programs of plain numbers one token at a time, at the speed of machine code.

Recursion that is sequential by nature, such as Ackermann's function, has no tokens to batch: a wave
holds one token, and one TensorFlow op costs more than all the arithmetic of a call. Here, a program
is a small machine with one stack (`machine.py`), which XLA compiles into one loop.

XLA needs sizes that are known when it compiles, so tokens run in blocks of one size, and a machine
begins with little room. A token that needs more begins again, in the same machine compiled for more
room. Most calls are one block that needs little room. They cost one launch; everything else is in a
separate function, which costs nothing unless it is called.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, State, Tensors
from kerasrec._src.emit.run import Run
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.private import not_inlined
from kerasrec._src.scalar.ops import gradient_obstacles, obstacles
from kerasrec._src.scalar.sweeps import ScalarForward, ScalarGradient

__all__ = ["ScalarRun", "gradient_obstacles", "obstacles"]

_BLOCK = 128
_GROWTH = 16


@dataclass(eq=False)
class ScalarRun(Run):
    """One run of a program of plain numbers; its gradient runs the program again.

    Args:
        graph: A program without `obstacles`.
        shared: The tensors of SHARED values.
        limits: The bounds on depth and memory.
    """

    graph: TaggedGraph
    shared: dict[Value, tf.Tensor]
    limits: Limits
    arguments: Tensors = field(init=False)

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs all tokens."""
        self.arguments = arguments
        outputs, _ = Blocks(ScalarForward(self.graph, self.shared, self.limits)).run(arguments)
        return Outcome({0: outputs}, {})

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs all tokens again, forward and backward; it must have no `gradient_obstacles`."""
        gradient = ScalarGradient(self.graph, shared, self.limits)
        sweep = self.graph.bodies[self.graph.entry].sweeps[1]
        pairs = zip(sweep.parameters, given[0], strict=True)
        cotangents = [tensor for node, tensor in pairs if not (node is None or tensor is None)]
        found, sums = Blocks(gradient).run([*self.arguments, *cotangents])
        left = iter(found)
        return Outcome(
            {1: [None if node is None else next(left) for node in sweep.outputs]},
            dict(zip(gradient.wanted, sums, strict=True)),
        )


class Blocks:
    """Runs all tokens.

    Args:
        sweep: What XLA compiles, and runs on a block.
    """

    def __init__(self, sweep: ScalarForward | ScalarGradient):
        self._run = tf.function(sweep.run, jit_compile=True, autograph=False)
        self._check = sweep.check
        self._most = sweep.most
        self._first_size = min(sweep.first_size, sweep.most)

    def run(self, tensors: Tensors) -> tuple[Tensors, Tensors]:
        """Runs all tokens, given tensors `[tokens]`; returns results `[tokens]`, and the sums."""
        with tf.device("/device:CPU:0"):
            num_tokens = tf.shape(tensors[0])[0] + _zero_when_run()
            # Zero if there is more than one block, because blocks run in parallel.
            at_once = tf.where(num_tokens <= _BLOCK, num_tokens, 0)
            state = self._begin(_block(_padded(tensors), 0), at_once)

            def apart() -> tuple[Tensors, Tensors]:
                return self._run_blocks(tensors, state)

            results, sums = tf.cond(
                state["token"] >= num_tokens,
                lambda: (state["results"], state["sums"]),
                not_inlined(apart),
            )
            return [tensor[:num_tokens] for tensor in results], sums

    def _begin(self, given: Tensors, num_tokens: tf.Tensor) -> State:
        return self._run(tf.constant(self._first_size), tf.constant(0), num_tokens, given)

    def _run_blocks(self, tensors: Tensors, like: State) -> tuple[Tensors, Tensors]:
        """Runs tokens in blocks, which run in parallel on the cores.

        Args:
            tensors: The tensors, `[tokens]` each.
            like: The result of a run of the sweep, for its structure.

        Returns:
            The results, with further rows after those of the tokens, and the sums.
        """
        num_tokens, padded = tf.shape(tensors[0])[0], _padded(tensors)
        num_blocks = tf.shape(padded[0])[0] // _BLOCK
        empty = tf.nest.map_structure(
            lambda item: tf.TensorArray(item.dtype, num_blocks, element_shape=item.shape),
            (like["results"], like["sums"]),
        )

        def iterate(block: tf.Tensor, arrays: Any) -> tuple[tf.Tensor, Any]:
            num_left = num_tokens - block * _BLOCK
            state = self._run_block(_block(padded, block), tf.minimum(num_left, _BLOCK))
            found = state["results"], state["sums"]
            return block + 1, tf.nest.map_structure(
                lambda array, tensor: array.write(block, tensor), arrays, found
            )

        _, (results, sums) = tf.while_loop(
            lambda block, _: block < num_blocks,
            iterate,
            (0, empty),
            parallel_iterations=os.cpu_count() or 1,
            name="blocks",
        )
        sums = [tf.reduce_sum(array.stack(), axis=0) for array in sums]
        return [array.concat() for array in results], sums

    def _run_block(self, given: Tensors, num_tokens: tf.Tensor) -> State:
        """Runs a block with more and more room."""

        def goes_on(state: State, size: tf.Tensor) -> tf.Tensor:
            is_stopped = (state["token"] < num_tokens) & tf.equal(state["fault"], 0)
            return is_stopped & (size < self._most)

        def go_on(state: State, size: tf.Tensor) -> tuple[State, tf.Tensor]:
            size = tf.where(size > self._most // _GROWTH, self._most, size * _GROWTH)
            first = state["token"]
            found = self._run(size, first, num_tokens, given)
            pairs = zip(state["results"], found["results"], strict=True)
            is_known = tf.range(_BLOCK) < first
            found["results"] = [tf.where(is_known, old, new) for old, new in pairs]
            pairs = zip(state["sums"], found["sums"], strict=True)
            found["sums"] = [old + new for old, new in pairs]
            return found, size

        state, _ = tf.while_loop(
            goes_on,
            go_on,
            (self._begin(given, num_tokens), tf.constant(self._first_size)),
            parallel_iterations=1,
            name="sizes",
        )
        with tf.control_dependencies(self._check(state, num_tokens)):
            return tf.nest.map_structure(tf.identity, state)


def _zero_when_run() -> tf.Tensor:
    """Zero, which TensorFlow does not know before it runs.

    If all arguments are constants, TensorFlow computes the results while it optimizes the graph
    around the call: without XLA, kernel by kernel, on one stack that overflows after some thousand
    steps and ends the process. It leaves out graphs that need a draw.
    """
    scalar = tf.constant([], tf.int32)
    return tf.raw_ops.RandomUniformInt(shape=scalar, minval=0, maxval=1, seed=1, seed2=1)


def _padded(tensors: Tensors) -> Tensors:
    """The tensors padded with zeros to whole blocks, at least one."""
    num_tokens = tf.shape(tensors[0])[0]
    num_rows = tf.maximum((num_tokens + _BLOCK - 1) // _BLOCK, 1) * _BLOCK
    return [tf.pad(tensor, [[0, num_rows - num_tokens]]) for tensor in tensors]


def _block(padded: Tensors, block: tf.Tensor | int) -> Tensors:
    """The tensors `[_BLOCK]` of a block."""
    return [tf.slice(tensor, [block * _BLOCK], [_BLOCK]) for tensor in padded]
