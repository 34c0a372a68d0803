"""Where entries of ragged rows stand in a block: in the order of their frames, then dead rows."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True, eq=False)
class EntryRows:
    """The entries of a block.

    Args:
        starts: int32 `[width]`, how many entries of the block come before those of a frame.
        total: int32 scalar, how many there are.
        ids: int32 `[entries]`, the place in the block of an entry's frame; -1 for dead rows.
        live: bool `[entries]`, which rows are entries.
    """

    starts: tf.Tensor
    total: tf.Tensor
    ids: tf.Tensor
    live: tf.Tensor

    @property
    def places(self) -> tf.Tensor:
        """int32 `[entries]`, the place of an entry's frame, 0 for dead rows."""
        return tf.maximum(self.ids, 0)

    @property
    def offsets(self) -> tf.Tensor:
        """int32 `[entries]`, the place of an entry in its row, 0 for dead rows."""
        found = tf.range(tf.shape(self.ids)[0]) - tf.gather(self.starts, self.places)
        return tf.where(self.live, found, 0)

    def spread(self, tensor: tf.Tensor) -> tf.Tensor:
        """What each frame has, for each of its entries: `[width, ...]` to `[entries, ...]`."""
        return tf.gather(tensor, self.places)


def entry_rows(lengths: tf.Tensor, live: tf.Tensor, size: tf.Tensor) -> EntryRows:
    """The entries of a block whose frames have so many.

    Args:
        lengths: int `[width]`, anything for dead rows.
        live: bool `[width]`, which rows are frames.
        size: int32 scalar, for how many entries there is room.
    """
    lengths = tf.where(live, tf.cast(lengths, tf.int32), 0)
    ends = tf.cumsum(lengths)
    total, entries = ends[-1], tf.range(size)
    # No search: XLA compares all, too.
    is_before = tf.expand_dims(ends, 0) <= tf.expand_dims(entries, 1)
    ids = tf.reduce_sum(tf.cast(is_before, tf.int32), 1)
    is_entry = entries < total
    return EntryRows(ends - lengths, total, tf.where(is_entry, ids, -1), is_entry)


def num_fitting(lengths: tf.Tensor, live: tf.Tensor, size: tf.Tensor, from_end: bool) -> tf.Tensor:
    """int32 scalar, how many frames of a block have room for their entries, but at least one.

    Args:
        lengths: int `[width]`, anything for dead rows.
        live: bool `[width]`, which rows are frames: the first ones.
        size: int32 scalar, for how many entries there is room.
        from_end: whether the last frames are taken, and not the first.
    """
    lengths = tf.where(live, tf.cast(lengths, tf.int32), 0)
    sums = tf.cumsum(lengths, reverse=from_end)
    fits = live & (sums <= size)
    return tf.maximum(tf.reduce_sum(tf.cast(fits, tf.int32)), 1)


def look_up(
    splits: tf.Tensor, values: tf.Tensor, index: tf.Tensor, live: tf.Tensor, size: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, EntryRows]:
    """Rows of a table of ragged rows.

    Args:
        splits: int `[rows + 1]`, of the table.
        values: `[entries of the table, ...]`.
        index: int `[width]`, which row each frame has.
        live: bool `[width]`, which rows are frames.
        size: int32 scalar, for how many entries there is room.

    Returns:
        As of the op RaggedGather, the splits, `[width + 1]`, and the entries, `[entries, ...]`; and
        where these stand.
    """
    # A row outside of the table is an error; it is seen elsewhere.
    is_inside = (index >= 0) & (tf.cast(index, tf.int32) < tf.shape(splits)[0] - 1)
    index = tf.where(is_inside, index, tf.zeros_like(index))
    live &= is_inside
    first = tf.gather(splits, index)
    lengths = tf.gather(splits, index + 1) - first
    rows = entry_rows(lengths, live, size)
    places = rows.spread(tf.cast(first, tf.int32)) + rows.offsets
    places = tf.where(rows.live, places, 0)
    new = tf.cumsum(tf.where(live, lengths, tf.zeros_like(lengths)))
    new = tf.concat([tf.zeros([1], new.dtype), new], 0)
    return new, tf.gather(values, places), rows
