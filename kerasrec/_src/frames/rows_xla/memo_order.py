"""Decides in which rows the calls of a run are, and in which blocks they run, before they run.

Calls of a body are numbered by level, those that call nobody first. If all root tokens make the
same calls, a call has a token for each of them, its *copies*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.frames.rows_xla.sizes import bucket, padded
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.memo.calls import Calls
from kerasrec._src.memo.levels import levels, sorted_calls
from kerasrec._src.row_ids import row_ids
from kerasrec._src.schedule.linkage import Together

_WIDTHS = 4, 64
_WIDE = 16


class Order(NamedTuple):
    """The calls of a run, as XLA gets them: padded, so that there are few sizes.

    Args:
        arguments: For each body, the values of its parameters, `[calls, ...]` each.
        called: For call sites that call for the same tokens, the numbers of the calls that each
            call makes, int32 `[calls, sites]`.
        counts: For each body, the number of calls, int32 scalars.
        entrance: The blocks of calls that may run in any order, int32 `[blocks, 3]`: the body, the
            first call, and the number of calls.
        levels: The same for blocks in the order of levels, of the bodies that wait for calls.
        num_blocks: The numbers of blocks in `entrance` and in `levels`, int32 scalars.
        roots: The calls and copies of root tokens, int32 `[tokens, 2]`.
        num_copies: The number of copies, an int32 scalar.
    """

    arguments: list[Tensors]
    called: Tensors
    counts: Tensors
    entrance: tf.Tensor
    levels: tf.Tensor
    num_blocks: Tensors
    roots: tf.Tensor
    num_copies: tf.Tensor


def order_of(
    graph: TaggedGraph, waiting: Sequence[str], calls: Calls, num_roots: tf.Tensor
) -> tuple[Order, dict[str, tf.Tensor]]:
    """Computes the order of all calls of a run.

    Args:
        graph: The program.
        waiting: The bodies of which some calls wait for others.
        calls: All calls of the run.
        num_roots: The number of root tokens, an int32 scalar.

    Returns:
        The order, and the sizes of buffers, int32 scalars; see `Sizes`.

    Raises:
        tf.errors.InvalidArgumentError: When it is computed, if a call needs itself.
    """
    level = levels(graph, calls)
    num_levels = tf.reduce_max(tf.concat([level, [0]], 0)) + 1
    names = list(graph.bodies)
    copies = bucket(calls.copies)
    most = tf.reduce_max([tf.size(calls.numbers[name]) for name in names])
    capacity = bucket(most)
    width = tf.clip_by_value(bucket(most // num_levels) // 2, *_WIDTHS)
    widest = tf.minimum(_WIDE * width, tf.maximum(capacity, width))
    room = capacity + widest
    sizes = {
        "capacity": capacity,
        "width": width,
        "widest": widest,
        "roots": bucket(num_roots),
        "copies": copies,
    }

    in_order = sorted_calls(calls, level, num_levels)
    place = in_order.place
    called = [
        padded(_called(group, edges, place, calls), room) for group, edges in calls.edges.items()
    ]
    counts = tf.stack([in_order.sizes[name] for name in names], 1)
    entrance = _blocks(tf.reduce_sum(counts, 0, keepdims=True), widest)
    in_levels = _blocks(tf.gather(counts, list(map(names.index, waiting)), axis=1), width)
    roots = tf.repeat(tf.gather(place, calls.roots), calls.copies)
    copy = tf.tile(tf.range(calls.copies), tf.shape(calls.roots))
    return Order(
        [[padded(tensor, room) for tensor in in_order.arguments[name]] for name in names],
        called,
        [tf.size(calls.numbers[name]) for name in names],
        padded(entrance, len(names) * (capacity // widest + 1)),
        padded(in_levels, len(names) * capacity),
        [tf.shape(blocks)[0] for blocks in (entrance, in_levels)],
        padded(tf.stack([roots, copy], 1), sizes["roots"]),
        calls.copies,
    ), sizes


def _called(group: Together, edges: Tensors, place: tf.Tensor, calls: Calls) -> tf.Tensor:
    """For each call of a body, the numbers of the calls that it makes; 0 if it makes none."""
    (callers, callees), width = edges, len(group)
    rows = tf.expand_dims(tf.gather(place, callers[::width]), 1)
    found = tf.reshape(tf.gather(place, callees), [-1, width])
    size = tf.size(calls.numbers[group[0].caller or ""])
    return tf.scatter_nd(rows, found, tf.stack([size, width]))


def _blocks(sizes: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Cuts ranges into blocks, int32 `[blocks, 3]`: the column, the first row, the number of rows.

    Args:
        sizes: The number of rows of each column in each level, int32 `[levels, columns]`.
        width: The largest number of rows in a block, an int32 scalar.
    """
    starts = tf.reshape(tf.cumsum(sizes, exclusive=True), [-1])
    columns = tf.reshape(tf.zeros_like(sizes) + tf.range(tf.shape(sizes)[1]), [-1])
    sizes = tf.reshape(sizes, [-1])
    pieces = (sizes + width - 1) // width
    of = row_ids(pieces)
    before = width * (tf.range(tf.size(of)) - tf.gather(tf.cumsum(pieces, exclusive=True), of))
    counts = tf.minimum(width, tf.gather(sizes, of) - before)
    return tf.stack([tf.gather(columns, of), tf.gather(starts, of) + before, counts], 1)
