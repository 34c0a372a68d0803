"""Bounds that stop a recursion without end with an error in place of a hang or a crash."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf


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

    def check(self, depth: tf.Tensor, width: tf.Tensor) -> list[tf.Operation]:
        """Ops that fail where a run was stopped by these bounds.

        Args:
            depth: int32 scalar, how many calls are nested.
            width: int32 scalar, tokens that have not been called because of the bounds.
        """
        return [
            tf.debugging.Assert(
                (width == 0) | (depth < self.max_depth),
                [
                    f"{self.name}: recursion is deeper than max_depth={self.max_depth} calls. "
                    "Does every path reach a base case? If it does, raise "
                    "@kerasrec.recursive(max_depth=...). Calls that wait:",
                    width,
                ],
            ),
            tf.debugging.Assert(
                width <= self.max_width,
                [
                    f"{self.name}: more calls at one depth than max_width={self.max_width}. "
                    "Does every path reach a base case? If it does, raise "
                    "@kerasrec.recursive(max_width=...). Calls and depth:",
                    width,
                    depth,
                ],
            ),
        ]
