"""Bounds that stop an endless recursion with an error instead of a hang or a crash."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.errors import WITHOUT_FRAMES
from kerasrec.graph.carried import NUM_LABELS
from kerasrec.graph.graph import TaggedGraph


@dataclass(frozen=True)
class Limits:
    """What a run may not exceed.

    Args:
        name: the function, for the error.
        max_depth: how many calls may be nested in each other.
        max_width: how many tokens may be called at once.
        max_memory: how many bytes may be kept for the backward pass.
    """

    name: str
    max_depth: int
    max_width: int
    max_memory: int

    def allow(self, depth: tf.Tensor, width: tf.Tensor, memory: tf.Tensor) -> tf.Tensor:
        """Whether a wave may run.

        A wave without tokens is allowed at any depth: the nodes after its return may have tokens,
        and a run that stopped there would return nothing without an error.

        Args:
            depth: int32 scalar, how many calls the wave is nested in.
            width: int32 scalar, how many tokens the wave has.
            memory: int64 scalar, how many bytes the run has kept so far.
        """
        is_within = (depth < self.max_depth) | (width <= 0)
        return is_within & (width <= self.max_width) & (memory <= self.max_memory)

    def check_width(self, width: tf.Tensor) -> tf.Operation:
        """Fails, when it is computed, where more tokens are called from outside than allowed."""
        message = self._stopped("more calls at one depth", "max_width", self.max_width)
        return tf.raw_ops.Assert(
            condition=width <= self.max_width,
            data=[message, "Calls from outside:", width],
            name=WITHOUT_FRAMES,
        )

    def check(
        self,
        graph: TaggedGraph,
        depth: tf.Tensor,
        width: tf.Tensor,
        memory: tf.Tensor,
        tag: Callable[[], tf.Tensor] | None = None,
        call: Callable[[], tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Fails, when it is computed, where a run was stopped by these bounds.

        Args:
            graph: the program, for what its labels mean.
            depth: int32 scalar, how many calls are nested.
            width: int32 scalar, tokens that have not been called because of the bounds.
            memory: int64 scalar, how many bytes are kept.
            tag: returns the tag of one of these tokens, int32 `[labels]`: the newest labels, at
              most `NUM_LABELS`.
            call: returns one of these calls as users write it, a string, if there is no tag.
        """
        bounds = [
            (depth < self.max_depth, "recursion is deeper", "max_depth", self.max_depth),
            (width <= self.max_width, "more calls at one depth", "max_width", self.max_width),
            (memory <= self.max_memory, "more bytes are kept", "max_memory", self.max_memory),
        ]

        def stopped() -> tf.Tensor:
            state = ["Depth:", depth, "calls that wait:", width, "bytes kept:", memory]
            if call is not None:
                state += ["one of them:", call()]
            if tag is not None:
                path = "call path of one of them, newest first:"
                state += [path, tag(), f"where {graph.meaning_of_labels}."]
            state = [tf.convert_to_tensor(item) for item in state]
            checks = [
                tf.raw_ops.Assert(
                    condition=is_within,
                    data=[self._stopped(what, option, bound), *state],
                    summarize=NUM_LABELS,
                    name=WITHOUT_FRAMES,
                )
                for is_within, what, option, bound in bounds
            ]
            with tf.control_dependencies(checks):
                return tf.constant(True)

        return tf.cond(width > 0, stopped, lambda: tf.constant(False))

    def _stopped(self, what: str, option: str, bound: int) -> str:
        return (
            f"{self.name}: {what} than {option}={bound}. Does every path reach a base case? If it "
            f"does, raise @kerasrec.recursive({option}=...)."
        )


def memory_of_machine() -> int:
    """Bytes of main memory; a number above any memory where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62
