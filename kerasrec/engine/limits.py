"""Bounds that stop a recursion without end with an error in place of a hang or a crash."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.graph.graph import TaggedGraph

NUM_LABELS = 16


@dataclass(frozen=True)
class Limits:
    """What a run may not exceed.

    Args:
        name: the function, for the error.
        max_depth: how many calls may be nested in each other.
        max_width: how many tokens may be called at once.
    """

    name: str
    max_depth: int
    max_width: int

    def allow(self, depth: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Bool scalar: whether a wave of `width` tokens may run inside `depth` calls."""
        return (depth < self.max_depth) & (width <= self.max_width)

    def check(
        self, graph: TaggedGraph, depth: tf.Tensor, width: tf.Tensor, tag: tf.Tensor
    ) -> list[tf.Operation]:
        """Ops that fail where a run was stopped by these bounds.

        Args:
            graph: the program, for what its labels mean.
            depth: int32 scalar, how many calls are nested.
            width: int32 scalar, tokens that have not been called because of the bounds.
            tag: int32 `[labels]`, of one of these tokens: the newest labels, at most `NUM_LABELS`.
        """
        meaning = "; ".join(
            f"{site.label} is the call of {site.callee} in {site.caller} ({site.calls[0].source})"
            for site in graph.call_sites.values()
            if site.caller is not None
        )
        state = ["Depth:", depth, "calls that wait:", width]
        state += ["call path of one of them, newest first:", tag, f"where {meaning}."]
        return [
            tf.debugging.Assert(
                (width == 0) | (depth < self.max_depth),
                [self._stopped("recursion is deeper", "max_depth", self.max_depth), *state],
                summarize=NUM_LABELS,
            ),
            tf.debugging.Assert(
                width <= self.max_width,
                [self._stopped("more calls at one depth", "max_width", self.max_width), *state],
                summarize=NUM_LABELS,
            ),
        ]

    def _stopped(self, what: str, option: str, bound: int) -> str:
        return (
            f"{self.name}: {what} than {option}={bound}. Does every path reach a base case? If it "
            f"does, raise @kerasrec.recursive({option}=...)."
        )
