"""Rows of calls that several root tokens make: a row has a token for each of them.

Rows are moved as wholes. XLA does it for each call and not for each token; and a buffer stays what
it is in a loop, since XLA would copy all of it to see it in another shape.
"""

from __future__ import annotations

from collections.abc import Hashable

import tensorflow as tf

from kerasrec.compiled.rows import Rows, beside
from kerasrec.private import update_slice


class RowsOfCalls(Rows):
    """Buffers `[rows, copies, ...]`; what is read and written is `[n * copies, ...]`."""

    @property
    def copies(self) -> tf.Tensor:
        """How many tokens a row is for."""
        assert self.sizes.copies is not None
        return self.sizes.copies

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """The tokens of some rows, int32 `[n]`."""
        return _in_line(super().read(key, rows))

    def read_block(self, key: Hashable, start: tf.Tensor) -> tf.Tensor:
        """The tokens of a block that begins at `start`."""
        return _in_line(super().read_block(key, start))

    def write_block(
        self, key: Hashable, start: tf.Tensor, values: tf.Tensor, live: tf.Tensor
    ) -> None:
        """Replaces the live tokens of a block."""
        values = tf.where(beside(live, values), values, self.read_block(key, start))
        self.written[key] = update_slice(self.written[key], self._in_rows(values), start)

    def pass_on(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Adds to the live tokens of some rows, int32 `[n]`: a call has several callers."""
        values = tf.where(beside(live, values), values, tf.zeros_like(values))
        self.written[key] = tf.tensor_scatter_nd_add(
            self.written[key], rows[:, tf.newaxis], self._in_rows(values)
        )

    def add_tokens(
        self, key: Hashable, places: tf.Tensor, values: tf.Tensor, live: tf.Tensor
    ) -> None:
        """Adds to live tokens: `places` int32 `[n, 2]`, of rows and copies, `values` `[n, ...]`."""
        values = tf.where(beside(live, values), values, tf.zeros_like(values))
        self.written[key] = tf.tensor_scatter_nd_add(self.written[key], places, values)

    def _in_rows(self, tensor: tf.Tensor) -> tf.Tensor:
        number = tf.shape(tensor)[0] // self.copies
        found = tf.reshape(tensor, tf.concat([[number, self.copies], tf.shape(tensor)[1:]], 0))
        found.set_shape([None, None, *tensor.shape[1:]])
        return found


def _in_line(tensor: tf.Tensor) -> tf.Tensor:
    shape = tf.shape(tensor)
    found = tf.reshape(tensor, tf.concat([[shape[0] * shape[1]], shape[2:]], 0))
    found.set_shape([None, *tensor.shape[2:]])
    return found
