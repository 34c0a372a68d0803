"""The places of entries of ragged rows in a block: in the order of their frames, then dead rows."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.ops.xla import not_empty


@dataclass(frozen=True, eq=False)
class EntryRows:
    """The entries of a block.

    Args:
        starts: The number of the block's entries before those of each frame, int32 `[width]`.
        total: The number of entries, an int32 scalar.
        ids: The place in the block of each entry's frame, int32 `[entries]`; -1 for dead rows.
        live: Which rows are entries, bool `[entries]`.
    """

    starts: tf.Tensor
    total: tf.Tensor
    ids: tf.Tensor
    live: tf.Tensor

    @property
    def places(self) -> tf.Tensor:
        """The place in the block of each entry's frame, int32 `[entries]`; 0 for dead rows."""
        return tf.maximum(self.ids, 0)

    @property
    def offsets(self) -> tf.Tensor:
        """The place of each entry in its row, int32 `[entries]`; 0 for dead rows."""
        found = tf.range(tf.shape(self.ids)[0]) - tf.gather(self.starts, self.places)
        return tf.where(self.live, found, 0)

    def spread(self, tensor: tf.Tensor) -> tf.Tensor:
        """Repeats frames' values for their entries: from `[width, ...]` to `[entries, ...]`."""
        return tf.gather(tensor, self.places)


def entry_rows(lengths: tf.Tensor, live: tf.Tensor, size: tf.Tensor) -> EntryRows:
    """Returns the entries of a block, given how many each frame has.

    Args:
        lengths: The numbers of entries, int `[width]`; any numbers for dead rows.
        live: Which rows are frames, bool `[width]`.
        size: The number of entries for which there is room, an int32 scalar.
    """
    lengths = tf.where(live, tf.cast(lengths, tf.int32), 0)
    ends = tf.cumsum(lengths)
    total, entries = ends[-1], tf.range(size)
    # Not by a search: XLA would also compare all of them for that.
    is_before = tf.expand_dims(ends, 0) <= tf.expand_dims(entries, 1)
    ids = tf.reduce_sum(tf.cast(is_before, tf.int32), 1)
    is_entry = entries < total
    return EntryRows(ends - lengths, total, tf.where(is_entry, ids, -1), is_entry)


def num_fitting(lengths: tf.Tensor, live: tf.Tensor, size: tf.Tensor, from_end: bool) -> tf.Tensor:
    """The number of frames of a block that have room for their entries, at least one; int32.

    Args:
        lengths: The numbers of entries, int `[width]`; any numbers for dead rows.
        live: Which rows are frames, bool `[width]`: the first ones.
        size: The number of entries for which there is room, an int32 scalar.
        from_end: Whether to take the last frames instead of the first.
    """
    lengths = tf.where(live, tf.cast(lengths, tf.int32), 0)
    sums = tf.cumsum(lengths, reverse=from_end)
    fits = live & (sums <= size)
    return tf.maximum(tf.reduce_sum(tf.cast(fits, tf.int32)), 1)


def look_up(
    splits: tf.Tensor, values: tf.Tensor, index: tf.Tensor, live: tf.Tensor, size: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, EntryRows]:
    """Looks up rows of a table of ragged rows.

    Args:
        splits: The splits of the table, int `[rows + 1]`.
        values: The entries of the table, `[entries of the table, ...]`.
        index: The row of each frame, int `[width]`.
        live: Which rows are frames whose row is in the table, bool `[width]`.
        size: The number of entries for which there is room, an int32 scalar.

    Returns:
        As from the op RaggedGather, the splits, `[width + 1]`, and the entries, `[entries, ...]`;
        and the places of the entries.
    """
    index = tf.where(live, index, tf.zeros_like(index))
    first = tf.gather(splits, index)
    lengths = tf.gather(splits, index + 1) - first
    rows = entry_rows(lengths, live, size)
    places = rows.spread(tf.cast(first, tf.int32)) + rows.offsets
    places = tf.where(rows.live, places, 0)
    new = tf.cumsum(tf.where(live, lengths, tf.zeros_like(lengths)))
    new = tf.concat([tf.zeros([1], new.dtype), new], 0)
    return new, tf.gather(not_empty(values), places), rows
