"""The sizes that XLA compiles for: rounded up, so that there are few of them, and counted.

XLA compiles separately for each size. Programs that XLA compiles as a whole have static shapes
already, and are not padded.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.powers_of_two import next_power_of_two
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


@dataclass(frozen=True)
class Sizes:
    """The sizes of the buffers; XLA must know all of them when it compiles.

    Args:
        capacity: The number of frames of a body for which there is room, an int32 scalar.
        width: The number of frames in a block, an int32 scalar.
        widest: The number of frames in the largest block, an int32 scalar.
        roots: The number of root tokens, padded, an int32 scalar.
        copies: The number of tokens that each row serves, if not one, an int32 scalar.
        entries: The number of entries of ragged rows for which a block has room, if there are such
            rows, an int32 scalar.
        most_entries: The same for the largest block, an int32 scalar.
    """

    capacity: tf.Tensor
    width: tf.Tensor
    widest: tf.Tensor
    roots: tf.Tensor
    copies: tf.Tensor | None = None
    entries: tf.Tensor | None = None
    most_entries: tf.Tensor | None = None

    @property
    def wide(self) -> Sizes:
        """The same buffers with the widest blocks."""
        return replace(self, width=self.widest, entries=self.most_entries)

    def room(self, share: int) -> tf.Tensor:
        """The capacity for frames of which there are only one for so many others, int32."""
        return -(-self.capacity // share)

    @property
    def dead(self) -> tf.Tensor:
        """The row that dead rows read, after the last block, an int32 scalar."""
        rows = self.capacity + self.widest
        return rows if self.most_entries is None else rows + self.most_entries

    @property
    def rows(self) -> tf.Tensor:
        """The number of rows of a buffer, an int32 scalar."""
        return self.dead + 1

    @property
    def tokens(self) -> tf.Tensor:
        """The number of tokens that the rows of a buffer serve, an int32 scalar."""
        return self.rows if self.copies is None else self.rows * self.copies

    @property
    def tokens_of_block(self) -> tf.Tensor:
        """The number of tokens that the rows of a block serve, an int32 scalar."""
        return self.width if self.copies is None else self.width * self.copies

    def empty(self, dtype: tf.DType, shape: tuple[int | None, ...], share: int = 1) -> tf.Tensor:
        """A buffer of zeros, `[rows, *shape]`, or `[rows, copies, *shape]`; see `room`."""
        rows = self.rows - self.capacity + self.room(share)
        lead = [rows] if self.copies is None else [rows, self.copies]
        return tf.zeros([*lead, *shape], dtype)


def known_num_rows(tensor: tf.Tensor) -> tf.Tensor:
    """The number of rows of a tensor, an int32 scalar."""
    rows = tf.shape(tensor)[0]
    return compile_time(rows) if in_xla() else rows


def bucket(number: tf.Tensor) -> tf.Tensor:
    """Rounds up to a power of two, 0 to 1: an int32 scalar. Inside XLA, nothing is rounded."""
    if in_xla():
        return number
    return next_power_of_two(number)


def bucket_beside(number: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Rounds up to a half of a power of two, or a sixteenth of that, ...: an int32 scalar.

    Two numbers that mostly grow together are few pairs. A number above the half is rounded by
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
            that row, it is longer than the result. Inside XLA there is always room.
    """
    few, many = _ENTRIES * sizes["width"], _MOST_ENTRIES * sizes["width"]
    entries = tf.maximum(few, longest) if in_xla() else tf.where(longest <= few, few, many)
    most_entries = tf.maximum(entries, 2 * sizes["widest"])
    return _known({"entries": entries, "most_entries": most_entries})


def _known(sizes: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The sizes as XLA must know them when it compiles."""
    return {name: compile_time(size) for name, size in sizes.items()} if in_xla() else sizes


class KnownSizes:
    """The sizes for which XLA has compiled a program in this process.

    A table of TensorFlow keeps them, since a size is known only when a graph runs.

    Args:
        most: The largest number of sizes.
    """

    def __init__(self, most: int):
        self._most = most
        # Exported models that are served together have separate tables.
        self._name = f"kerasrec_xla_sizes_{uuid.uuid4().hex}"

    def admit(self, inputs: Sequence[tf.Tensor], others: tf.Tensor) -> tf.Tensor:
        """Whether XLA may compile for the shapes of inputs and other sizes: a bool scalar.

        It may if it has compiled for the same sizes before, or if the bound is not reached.
        """
        sizes = tf.concat([others, *map(tf.shape, inputs)], 0)
        factors = np.random.default_rng(0).integers(1 << 62, size=sizes.shape[0])
        key = tf.reduce_sum(tf.cast(sizes, tf.int64) * tf.constant(factors | 1))
        table = self._table()
        found = tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=key, default_value=tf.constant(-1, tf.int64)
        )

        is_new = found < 0
        has_room = tf.raw_ops.LookupTableSizeV2(table_handle=table) < self._most
        new = tf.fill([tf.cast(is_new & has_room, tf.int32)], key)
        added = tf.raw_ops.LookupTableInsertV2(
            table_handle=table, keys=new, values=tf.zeros_like(new)
        )
        # In the graph of a gradient, TensorFlow drops ops on which no result depends.
        with tf.control_dependencies([added]):
            return ~is_new | has_room

    def __len__(self) -> int:
        """The number of sizes."""
        with tf.init_scope():
            return int(tf.raw_ops.LookupTableSizeV2(table_handle=self._table()))

    def _table(self) -> tf.Tensor:
        return tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, shared_name=self._name
        )
