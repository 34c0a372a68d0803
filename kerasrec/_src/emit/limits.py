"""Bounds that stop an endless recursion with an error instead of a hang or a crash.

The error shows the tag of a token that was not called: `walk_up` finds it, from caller to caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.control_flow import run_loop
from kerasrec._src.emit.results import State
from kerasrec._src.errors import WITHOUT_FRAMES
from kerasrec._src.graph.carried import NUM_LABELS
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.options import Options
from kerasrec._src.private import not_inlined


@dataclass(frozen=True)
class Limits:
    """The limits of a run.

    Args:
        name: The function's name, for the error.
        max_depth: The largest depth of nested calls.
        max_width: The largest number of tokens called at once.
        max_memory: The largest number of bytes kept for the backward pass.
    """

    name: str
    max_depth: int
    max_width: int
    max_memory: int

    @classmethod
    def of(cls, name: str, options: Options) -> Limits:
        """Returns the limits that a function's options set."""
        memory = memory_of_machine() if options.max_memory is None else options.max_memory
        return cls(name, options.max_depth, options.max_width, memory)

    def allow(self, depth: tf.Tensor, width: tf.Tensor, memory: tf.Tensor) -> tf.Tensor:
        """Returns whether a wave may run.

        A wave without tokens is allowed at any depth: the nodes after its return may have tokens,
        and a run that stopped there would return nothing without an error.

        Args:
            depth: The number of calls in which the wave is nested, an int32 scalar.
            width: The number of tokens of the wave, an int32 scalar.
            memory: The number of bytes that the run has kept so far, an int64 scalar.
        """
        return self.contain(tf.where(width > 0, depth, 0), width, memory)

    def contain(self, depth: tf.Tensor, width: tf.Tensor, memory: tf.Tensor) -> tf.Tensor:
        """Returns whether all bounds contain a wave of at least one token; arguments as above."""
        (in_depth, *_), (in_width, *_), (in_memory, *_) = self._bounds(depth, width, memory)
        return in_depth & in_width & in_memory

    def _bounds(
        self, depth: tf.Tensor, width: tf.Tensor, memory: tf.Tensor
    ) -> list[tuple[tf.Tensor, str, str, int]]:
        """For each bound, whether a run is within it, what exceeds it, its option and its value."""
        return [
            (depth < self.max_depth, "recursion is deeper", "max_depth", self.max_depth),
            (width <= self.max_width, "more calls at one depth", "max_width", self.max_width),
            (memory <= self.max_memory, "more bytes are kept", "max_memory", self.max_memory),
        ]

    def check_width(self, width: tf.Tensor) -> tf.Operation:
        """Fails, when it is computed, if more tokens are called from outside than allowed."""
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
        """Fails, when it is computed, if a run was stopped by these bounds.

        Args:
            graph: The program, for the meaning of labels.
            depth: The number of nested calls, an int32 scalar.
            width: The number of tokens that have not been called because of the bounds, an int32
              scalar.
            memory: The number of bytes kept, an int64 scalar.
            tag: Returns the tag of one of these tokens, int32 `[labels]`: the newest labels, at
              most `NUM_LABELS`.
            call: Returns one of these calls as users write it, a string, if there is no tag.
        """
        bounds = self._bounds(depth, width, memory)

        def stopped() -> tf.Tensor:
            state = "Depth: {}; calls that wait: {}; bytes kept: {}."
            shown = [tf.strings.format(state, [depth, width, memory])]
            if call is not None:
                shown.append(tf.strings.join(["One of these calls: ", call(), "."]))
            if tag is not None:
                labels = tf.strings.reduce_join(tf.strings.as_string(tag()), separator=" ")
                begin, end = "Call path of one of these calls, newest first: ", ", where "
                path = tf.strings.join([begin, labels, f"{end}{graph.meaning_of_labels}."])
                shown.append(tf.where(depth > 0, path, "They come from outside."))
            checks = [
                tf.raw_ops.Assert(
                    condition=is_within,
                    data=[self._stopped(what, option, bound), *shown],
                    name=WITHOUT_FRAMES,
                )
                for is_within, what, option, bound in bounds
            ]
            with tf.control_dependencies(checks):
                return tf.constant(True)

        return tf.cond(width > 0, not_inlined(stopped), lambda: tf.constant(False))

    def _stopped(self, what: str, option: str, bound: int) -> str:
        return (
            f"{self.name}: {what} than {option}={bound}. Does every path reach a base case? If it "
            f"does, raise @kerasrec.recursive({option}=...)."
        )


def memory_of_machine() -> int:
    """The bytes of main memory; a number above any memory if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


Scalars = tuple[tf.Tensor, ...]


def walk_up(
    depth: tf.Tensor,
    token: Scalars,
    caller: Callable[[tf.Tensor, Scalars], tuple[tf.Tensor, Scalars]],
) -> tf.Tensor:
    """Returns the newest labels of a tag.

    Args:
        depth: The number of labels of the tag, an int32 scalar.
        token: The numbers of the token that `caller` needs, int32 scalars.
        caller: A function from a depth and these numbers to the label that the tag has there, and
            the numbers of the token's caller.

    Returns:
        The labels, int32 `[labels]`, the newest first, at most `NUM_LABELS`.
    """

    def iterate(so_far: State) -> State:
        label, token = caller(so_far["depth"], so_far["token"])
        labels = tf.concat([so_far["labels"], [label]], 0)
        return {"depth": so_far["depth"] - 1, "labels": labels, "token": token}

    end = run_loop(
        lambda so_far: (so_far["depth"] > 0) & (tf.size(so_far["labels"]) < NUM_LABELS),
        iterate,
        {"depth": depth, "labels": tf.zeros([0], tf.int32), "token": token},
    )
    return end["labels"]
