"""Sizes of which there are few, since XLA compiles for each of them anew.

What XLA compiles as a whole has static shapes already, and is padded no further.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.emit.host import has_gpu
from kerasrec.private import compile_time, in_xla

# Frames of a block, by how many frames there is room for. A block whose frames wait for each other
# is seldom full, and one that is too narrow costs another turn of a loop.
_WIDTHS = ((0, 4), (256, 8), (1024, 16), (4096, 32), (16384, 64), (65536, 128))
# How many times as wide are blocks whose frames are all there beforehand. Dead rows of the last one
# take as long as live ones on a CPU; on a GPU it is the number of turns that takes time.
_WIDE, _WIDE_WITH_GPU = 4, 16
# Entries of ragged rows for each frame of a block: as a rule, and if some rows are long.
_ENTRIES, _MOST_ENTRIES = 2, 16


def num_rows(tensor: tf.Tensor) -> tf.Tensor:
    """int32 scalar, how many rows a tensor has."""
    rows = tf.shape(tensor)[0]
    return compile_time(rows) if in_xla() else rows


def bucket(number: tf.Tensor) -> tf.Tensor:
    """int32 scalar, the next power of two, 1 for 0; the same number inside of XLA."""
    if in_xla():
        return number
    is_smaller = tf.constant([1 << exponent for exponent in range(30)]) < number
    return tf.bitwise.left_shift(1, tf.reduce_sum(tf.cast(is_smaller, tf.int32)))


def padded(tensor: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """A tensor padded with rows of zeros to a given number of rows."""
    more = rows - tf.shape(tensor)[0]
    found = tf.pad(tensor, [[0, more], *([[0, 0]] * (tensor.shape.rank - 1))])
    found.set_shape([None, *tensor.shape[1:]])
    return found


def sizes_for(capacity: tf.Tensor) -> list[tf.Tensor]:
    """int32 scalars: a capacity, the width of blocks, and that of the widest; see `rows.Sizes`."""
    width = tf.reduce_max([tf.where(capacity >= least, width, 0) for least, width in _WIDTHS])
    sizes = [capacity, width, (_WIDE_WITH_GPU if has_gpu() else _WIDE) * width]
    return list(map(compile_time, sizes)) if in_xla() else sizes


def sizes_for_entries(sizes: Sequence[tf.Tensor], longest: tf.Tensor) -> list[tf.Tensor]:
    """int32 scalars: for how many entries of ragged rows blocks have room, and the widest of them.

    Few rows are long, so that a block may be full before it has as many frames as it could.

    Args:
        sizes: of the blocks; see `sizes_for`.
        longest: int32 scalar, how many entries the longest row has. If there is no room for it, it
            is longer than what is returned.
    """
    _, width, widest = sizes
    few, many = _ENTRIES * width, _MOST_ENTRIES * width
    entries = tf.where(longest <= few, few, many)
    return [entries, tf.maximum(entries, 2 * widest)]
