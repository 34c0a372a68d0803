"""Rows of calls that several root tokens make: a row has a token for each of them.

Rows are moved as a whole, so XLA moves one piece for each call, not one for each token. A buffer
keeps its shape within a loop, since XLA would copy all of it to reshape it.
"""

from __future__ import annotations

from collections.abc import Hashable

import tensorflow as tf

from kerasrec._src.frames.rows_xla.rows import Rows, beside, put
from kerasrec._src.memo.copies import by_copy, in_line


class RowsOfCalls(Rows):
    """Buffers `[rows, copies, ...]`, from which `[n * copies, ...]` is read and written."""

    @property
    def copies(self) -> tf.Tensor:
        """The number of tokens in a row."""
        assert self.sizes.copies is not None
        return self.sizes.copies

    def pass_on(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Adds live values to rows, int32 `[n]`, since a call may have several callers."""
        values = tf.where(beside(live, values), values, tf.zeros_like(values))
        is_live = tf.reduce_any(self._rows_of(live), 1)
        self._add(key, tf.expand_dims(rows, 1), self._rows_of(values), is_live)

    def add_tokens(
        self, key: Hashable, places: tf.Tensor, values: tf.Tensor, live: tf.Tensor
    ) -> None:
        """Adds live values to tokens: `places` int32 `[n, 2]` (row, copy), `values` `[n, ...]`."""
        self._add(key, places, values, live)

    def _add(self, key: Hashable, places: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        buffer = self.all(key)
        values = tf.cast(values, buffer.dtype)
        self.written[key] = put(buffer, places, values, live, tf.tensor_scatter_nd_add)

    def _tokens_of(self, rows: tf.Tensor) -> tf.Tensor:
        return in_line(rows)

    def _rows_of(self, tokens: tf.Tensor) -> tf.Tensor:
        return by_copy(tokens, tf.shape(tokens)[0] // self.copies, self.copies)
