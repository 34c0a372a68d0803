"""Finds the tag of a token that a run was not allowed to call, from caller to caller."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from kerasrec._src.graph.carried import NUM_LABELS

Scalars = tuple[tf.Tensor, ...]


def walk_up(
    depth: tf.Tensor,
    state: Scalars,
    caller: Callable[[tf.Tensor, Scalars], tuple[tf.Tensor, Scalars]],
) -> tf.Tensor:
    """Returns the newest labels of a tag.

    Args:
        depth: The number of labels of the tag, an int32 scalar.
        state: The facts about the token that `caller` needs, int32 scalars.
        caller: A function from a depth and the state to the label that the tag has there, and the
            state of the token's caller.

    Returns:
        The labels, int32 `[labels]`, the newest first, at most `NUM_LABELS`.
    """

    def iterate(
        depth: tf.Tensor, labels: tf.Tensor, state: Scalars
    ) -> tuple[tf.Tensor, tf.Tensor, Scalars]:
        label, state = caller(depth, state)
        return depth - 1, tf.concat([labels, [label]], 0), state

    _, labels, _ = tf.while_loop(
        lambda depth, labels, _: (depth > 0) & (tf.size(labels) < NUM_LABELS),
        iterate,
        (depth, tf.zeros([0], tf.int32), state),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None]),
            tf.nest.map_structure(lambda _: tf.TensorShape([]), state),
        ),
    )
    return labels
