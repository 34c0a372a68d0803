"""Pads sizes so that there are few of them, since XLA compiles separately for each size.

Programs that XLA compiles as a whole have static shapes already, and are not padded.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.private import compile_time, in_xla

# For numbers of frames for which there is at least room, the number of frames in a block: on a CPU,
# and on a GPU, which takes about as long for a wide block as for a narrow one. A block whose frames
# wait for each other is seldom full, and one that is too narrow costs another turn of a loop.
_WIDTHS = (
    (0, 4, 64),
    (256, 8, 128),
    (1024, 8, 256),
    (2048, 16, 256),
    (4096, 32, 512),
    (16384, 128, 1024),
    (65536, 512, 2048),
)
# The factor by which blocks are wider if all their frames are there beforehand.
_WIDE = 4
# The number of entries of ragged rows for each frame of a block: usually, and if some rows are
# long.
_ENTRIES, _MOST_ENTRIES = 2, 16


def known_num_rows(tensor: tf.Tensor) -> tf.Tensor:
    """The number of rows of a tensor, an int32 scalar."""
    rows = tf.shape(tensor)[0]
    return compile_time(rows) if in_xla() else rows


def bucket(number: tf.Tensor) -> tf.Tensor:
    """Rounds up to a power of two, 0 to 1: an int32 scalar. Inside XLA, nothing is rounded."""
    if in_xla():
        return number
    is_smaller = tf.constant([1 << exponent for exponent in range(30)]) < number
    return tf.bitwise.left_shift(1, tf.reduce_sum(tf.cast(is_smaller, tf.int32)))


def bucket_beside(number: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Rounds up to a half of a power of two, or a sixteenth of that, ...: an int32 scalar.

    So two numbers that mostly grow together are few pairs. A number above the half is rounded by
    itself.
    """
    if in_xla():
        return number
    parts = other // tf.constant([2 * 16**step for step in range(7)])
    fits = parts >= number
    smallest = tf.reduce_min(tf.where(fits, parts, parts[0]))
    return tf.where(fits[0], smallest, bucket(number))


def padded(tensor: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Pads a tensor with rows of zeros to a given number of rows."""
    more = rows - tf.shape(tensor)[0]
    found = tf.pad(tensor, [[0, more], *([[0, 0]] * (tensor.shape.rank - 1))])
    found.set_shape([None, *tensor.shape[1:]])
    return found


def sizes_for(capacity: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the capacity, and the widths of usual and widest blocks, int32; see `rows.Sizes`."""
    at = 2 if host.has_gpu() else 1
    width = tf.reduce_max([tf.where(capacity >= row[0], row[at], 0) for row in _WIDTHS])
    return _known({"capacity": capacity, "width": width, "widest": _WIDE * width})


def sizes_for_entries(sizes: Mapping[str, tf.Tensor], longest: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the numbers of entries for which usual blocks, and the widest, have room; int32.

    Few rows are long, so a block may be full of entries before it is full of frames.

    Args:
        sizes: The sizes of the blocks; see `sizes_for`.
        longest: The number of entries of the longest row, an int32 scalar. If there is no room for
            that row, it is longer than what is returned. Inside XLA there is always room.
    """
    few, many = _ENTRIES * sizes["width"], _MOST_ENTRIES * sizes["width"]
    entries = tf.maximum(few, longest) if in_xla() else tf.where(longest <= few, few, many)
    most_entries = tf.maximum(entries, 2 * sizes["widest"])
    return _known({"entries": entries, "most_entries": most_entries})


def _known(sizes: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The sizes as XLA must know them when it compiles."""
    return {name: compile_time(size) for name, size in sizes.items()} if in_xla() else sizes
