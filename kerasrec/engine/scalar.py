"""Runs programs of plain numbers one token at a time, at the speed of machine code.

Recursion that is sequential by nature, such as Ackermann's function, has no tokens to batch: a wave
holds one, and an op of TensorFlow costs more than all the arithmetic of a call. Here the program is
a small machine with one stack (`scalar_machine.py`), compiled by XLA as one loop.

XLA needs sizes that are known when it compiles. Tokens go through in blocks of one size; the stack
has one of a few sizes, and a run that outgrows its stack goes on in a copy of the machine with the
next one, which is compiled if it is ever reached.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import tensorflow as tf

from kerasrec.engine.forward_only import ForwardOnly
from kerasrec.engine.limits import NUM_LABELS, Limits
from kerasrec.engine.plan import Plan
from kerasrec.engine.results import Outcome, Tensors
from kerasrec.engine.scalar_machine import Machine
from kerasrec.graph.graph import Value

_BLOCK = 128
_STACK_SIZES = (1 << 12,)


class ScalarRun(ForwardOnly):
    """One run of a program of plain numbers.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth and width.
        waves: the class of the engine for its gradient.
    """

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits, waves: Any):
        super().__init__(partial(waves, plan, shared, limits))
        self.limits = limits
        self.machine = Machine(plan.graph, shared)

    def run(self, arguments: Tensors) -> Outcome:
        """Runs all tokens, a block of them at a time."""
        num_tokens = tf.shape(arguments[0])[0]
        num_blocks = (num_tokens + _BLOCK - 1) // _BLOCK
        missing = num_blocks * _BLOCK - num_tokens
        padded = [tf.pad(tensor, [[0, missing]]) for tensor in arguments]
        empty = [
            tf.TensorArray(dtype, num_blocks, element_shape=[_BLOCK])
            for dtype in self.machine.result_dtypes
        ]

        def iterate(block: tf.Tensor, arrays: list[tf.TensorArray]) -> tuple:
            start = block * _BLOCK
            given = [tf.ensure_shape(tensor[start : start + _BLOCK], [_BLOCK]) for tensor in padded]
            results = self._run_block(given, tf.minimum(num_tokens - start, _BLOCK))
            pairs = zip(arrays, results, strict=True)
            return block + 1, [array.write(block, result) for array, result in pairs]

        with tf.device("/device:CPU:0"):
            _, arrays = tf.while_loop(
                lambda block, _: block < num_blocks,
                iterate,
                (0, empty),
                parallel_iterations=os.cpu_count() or 1,
            )
            return Outcome([array.concat()[:num_tokens] for array in arrays], {})

    def _run_block(self, arguments: Tensors, num_tokens: tf.Tensor) -> Tensors:
        """Results `[_BLOCK]` of a block of tokens, of which so many are real."""
        top = self.limits.max_depth
        sizes = [*(size for size in _STACK_SIZES if size < top), top]

        def run(place: int, state: dict) -> Tensors:
            compiled = tf.function(self.machine.run, jit_compile=True, autograph=False)
            state = compiled(self.machine.grown(state, sizes[place]), arguments, num_tokens)
            is_done = (state["token"] >= num_tokens) | (state["fault"] > 0)
            if place + 1 == len(sizes):
                return self._checked(state, is_done)
            return tf.cond(
                is_done, lambda: self._checked(state, is_done), lambda: run(place + 1, state)
            )

        return run(0, self.machine.first_state(_BLOCK))

    def _checked(self, state: dict, is_done: tf.Tensor) -> Tensors:
        """The results, or an error if the run failed or was stopped."""
        waiting = tf.reverse(state["counters"][: state["depth"], 0][-NUM_LABELS:], [0])
        tag = tf.gather(self.machine.layout.labels, waiting)
        waits = tf.where(is_done, 0, 1)
        nothing = tf.constant(0, tf.int64)
        checks = self.limits.check(self.machine.graph, state["depth"], waits, nothing, tag)
        messages = tf.constant(["", *self.machine.messages])
        checks.append(
            tf.debugging.Assert(
                tf.equal(state["fault"], 0), [self.limits.name, messages[state["fault"]]]
            )
        )
        with tf.control_dependencies(checks):
            return [tf.identity(result) for result in state["results"]]
