"""The tag of a token that a run was not allowed to call, read back from what its waves have kept.

A wave does not carry tags, but its tokens stand in an order that follows from that of the callers
(see `calls.py`). So a token's place in its wave tells which token called it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec.engine.calls import Frames, alternating
from kerasrec.engine.frame import Frame
from kerasrec.graph.carried import NUM_LABELS
from kerasrec.graph.graph import CallSite
from kerasrec.graph.values import Region

Scalars = tuple[tf.Tensor, ...]


def caller_of(
    sites: Sequence[CallSite], frames: Frames, token: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The call site and the token that called a token of a wave.

    Args:
        sites: the call sites whose tokens the wave holds, in order.
        frames: of the callers, by body.
        token: int32 scalar, its place in the wave.

    Returns:
        Place of the call site among `sites`, and place of the caller in its own wave, int32.
    """
    groups = alternating(sites)
    found = [_rows(frames[group[0].caller or ""], group[0].calls[0].region) for group in groups]
    sizes = tf.constant([len(group) for group in groups])
    ends = tf.cumsum(tf.stack([count for count, _ in found]) * sizes)
    place = tf.reduce_sum(tf.cast(ends <= token, tf.int32))
    size = tf.gather(sizes, place)
    inside = token - tf.gather(tf.concat([[0], ends], 0), place)
    row = inside // size
    branches = [
        lambda rows=rows: row if rows is None else tf.gather(rows, row) for _, rows in found
    ]
    first = tf.gather(tf.cumsum(sizes, exclusive=True), place)
    return first + inside % size, one_of(place, branches)


def one_of(place: tf.Tensor, branches: Sequence[Callable[[], Any]]) -> Any:
    """The result of the branch at a place; a single branch needs no switch."""
    return tf.switch_case(place, branches) if len(branches) > 1 else branches[0]()


def _rows(frame: Frame, region: Region | None) -> tuple[tf.Tensor, tf.Tensor | None]:
    """How many tokens a region has, and their places in the body; None for the body itself."""
    rows = None
    for item in region.path() if region else ():
        inner = frame.rows(item)
        rows = inner if rows is None else tf.gather(rows, inner)
    return frame.count(region), rows


def walk_up(
    depth: tf.Tensor,
    state: Scalars,
    caller: Callable[[tf.Tensor, Scalars], tuple[tf.Tensor, Scalars]],
) -> tf.Tensor:
    """The newest labels of a tag.

    Args:
        depth: int32 scalar, how many labels the tag has.
        state: what `caller` needs to know of the token, int32 scalars.
        caller: from a depth and the state to the label that the tag has there, and the state of the
            token's caller.

    Returns:
        int32 `[labels]`, the newest first, at most `NUM_LABELS`.
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
