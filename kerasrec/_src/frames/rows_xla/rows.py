"""Buffers of static size, whose rows XLA writes in place within a loop.

XLA needs sizes that are known when it compiles. So every buffer has room for a fixed number of
frames, the *capacity*, and each step takes a block of a fixed number of rows, the *width*. Rows of
a block that hold no frame are dead. They read a row of their own, the last one, and write outside
of the buffer: XLA leaves out what is written there. So no two rows of a block write to one place,
which a GPU does slowly, above all in half precision: it changes half a word by a compare-and-swap
loop, which repeats while other threads change the same word.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.private import rows_from, update_slice

Buffers = dict[Hashable, tf.Tensor]


@dataclass(frozen=True)
class Sizes:
    """The sizes of the buffers; XLA must know all of them when it compiles.

    Args:
        capacity: The number of frames of a body for which there is room, an int32 scalar.
        width: The number of frames in a block, an int32 scalar.
        widest: The number of frames in the largest block, an int32 scalar.
        copies: The number of tokens that each row serves, if not one, an int32 scalar.
        entries: The number of entries of ragged rows for which a block has room, if there are such
            rows, an int32 scalar.
        most_entries: The same for the largest block, an int32 scalar.
    """

    capacity: tf.Tensor
    width: tf.Tensor
    widest: tf.Tensor
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


class Rows:
    """Buffers that a loop writes.

    Writes to rows wait until the buffer is read, or the step is over, and are then made at once.
    Otherwise XLA would copy a whole buffer in each step if values that were read there are still
    needed after the first of several writes.

    Args:
        sizes: The sizes of the buffers.
        written: The buffers that the loop may write, by key.
        read_only: The buffers that are complete, by key.
    """

    def __init__(
        self,
        sizes: Sizes,
        written: Mapping[Hashable, tf.Tensor],
        read_only: Mapping[Hashable, tf.Tensor],
    ):
        self.sizes = sizes
        self.written = dict(written)
        self.read_only = read_only
        self._waiting: dict[Hashable, list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]] = {}

    def all(self, key: Hashable) -> tf.Tensor:
        """A whole buffer."""
        self._make_writes(key)
        return self.written[key] if key in self.written else self.read_only[key]

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows: `rows` int32 `[n]`; returns `[n, ...]`."""
        return self._tokens_of(tf.gather(self.all(key), rows))

    def write(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Replaces live rows, or parts of rows.

        Args:
            key: The buffer.
            rows: The rows, int32 `[n]`, or places of parts of rows, int32 `[n, 2]`.
            values: The values, `[n, ...]`.
            live: Which are written, bool `[n]`.
        """
        places = tf.expand_dims(rows, 1) if rows.shape.rank == 1 else rows
        self._waiting.setdefault(key, []).append((places, values, live))

    def pass_on(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Passes values to frames, which have one caller each; arguments as for `write`."""
        self.write(key, rows, values, live)

    def subtract_one(self, key: Hashable, rows: tf.Tensor, live: tf.Tensor) -> None:
        """Subtracts 1 from rows, once for each live row that names them."""
        places, ones = tf.expand_dims(rows, 1), tf.ones_like(rows)
        self.written[key] = put(self.all(key), places, ones, live, tf.tensor_scatter_nd_sub)

    def read_block(
        self, key: Hashable, start: tf.Tensor, number: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The rows of a block that begins at `start`, or another number of rows."""
        number = self.sizes.width if number is None else number
        return self._tokens_of(rows_from(self.all(key), start, number))

    def write_block(
        self,
        key: Hashable,
        start: tf.Tensor,
        values: tf.Tensor,
        live: tf.Tensor,
        number: tf.Tensor | None = None,
    ) -> None:
        """Replaces the live rows of a block, or of another number of rows."""
        values = tf.where(beside(live, values), values, self.read_block(key, start, number))
        self.written[key] = update_slice(self.written[key], self._rows_of(values), start)

    def finished(self) -> Buffers:
        """The buffers that the loop may write, after all writes."""
        for key in list(self._waiting):
            self._make_writes(key)
        return self.written

    def _make_writes(self, key: Hashable) -> None:
        """Makes the writes to a buffer that have waited."""
        waiting = self._waiting.pop(key, None)
        if waiting:
            places, values, live = (tf.concat(parts, 0) for parts in zip(*waiting, strict=True))
            self.written[key] = put(self.written[key], places, values, live)

    def _tokens_of(self, rows: tf.Tensor) -> tf.Tensor:
        """Converts rows to tokens; here each row is one token."""
        return rows

    def _rows_of(self, tokens: tf.Tensor) -> tf.Tensor:
        """Converts tokens to rows; the inverse of `_tokens_of`."""
        return tokens


def put(
    buffer: tf.Tensor,
    places: tf.Tensor,
    values: tf.Tensor,
    live: tf.Tensor,
    scatter: Callable[..., tf.Tensor] = tf.tensor_scatter_nd_update,
) -> tf.Tensor:
    """Returns a buffer with rows replaced, or added to.

    Args:
        buffer: The buffer, `[rows, ...]`.
        places: The places of rows, int32 `[n, 1]`, or of parts of rows, int32 `[n, 2]`.
        values: The values, `[n, ...]`.
        live: Which places are written, bool `[n]`.
        scatter: The TensorFlow op that replaces the rows or adds to them.
    """
    if 0 in values.shape[1:]:
        return buffer  # TensorFlow refuses to scatter rows without numbers.
    outside = tf.shape(buffer)[0]  # XLA leaves out what is written there.
    return scatter(buffer, tf.where(tf.expand_dims(live, 1), places, outside), values)


def beside(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Reshapes a mask `[n]` so that it broadcasts against a tensor `[n, ...]`."""
    return tf.reshape(mask, [-1, *([1] * (tensor.shape.rank - 1))])
