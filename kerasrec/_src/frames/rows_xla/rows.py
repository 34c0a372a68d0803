"""Buffers of static size, whose rows XLA writes in place inside a loop.

XLA needs sizes that are known when it compiles, so every buffer has room for a fixed number of
frames, the *capacity*, and each step takes a block of a fixed number of rows, the *width*. Rows of
a block that hold no frame are dead. They read a separate row, the last one, and write outside of
the buffer: XLA leaves out these writes. No two rows of a block write to one place, which a GPU does
slowly, above all in half precision: it changes half a word by a compare-and-swap loop, which
repeats while other threads change the same word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.frames.layout import BufferSpec, Specs
from kerasrec._src.frames.rows_xla.sizes import Sizes
from kerasrec._src.private import rows_from, update_slice

Buffers = dict[Hashable, tf.Tensor]


class JoinedBuffers:
    """Buffers that are always written together, as columns of others, the *wholes*.

    For each buffer that a turn of a loop writes, XLA makes a kernel. On a GPU a turn takes about as
    long as it has kernels. On a CPU it takes longer to put columns together, so there only
    arguments are. Arguments of a call are computed from those of its caller. If that were in
    two buffers, XLA might compute a part of it once for each, so that one buffer is read after the
    other is written, and would copy it in each turn.

    Args:
        groups: The specs of buffers that are written together. Those of one dtype are joined.
    """

    def __init__(self, groups: Mapping[Hashable, Specs]):
        found: dict[Hashable, Specs] = {}
        for name, specs in groups.items():
            for key, spec in specs.items():
                if _width(spec):
                    found.setdefault(("joined", name, spec.dtype), {})[key] = spec
        self._parts = {whole: specs for whole, specs in found.items() if len(specs) > 1}
        self._wholes = {key: whole for whole, specs in self._parts.items() for key in specs}

    def whole(self, key: Hashable) -> Hashable:
        """The key of the buffer that a buffer is a part of, or its own."""
        return self._wholes.get(key, key)

    def joined_specs(self, specs: Specs) -> Specs:
        """Returns specs with those of wholes instead of those of their parts."""
        found: Specs = {}
        for key, spec in specs.items():
            whole = self.whole(key)
            if whole in self._parts:
                width = sum(map(_width, self._parts[whole].values()))
                spec = BufferSpec(spec.space, spec.dtype, (width,))
            found[whole] = spec
        return found

    def joined(self, rows: Mapping[Hashable, tf.Tensor]) -> dict[Hashable, tf.Tensor]:
        """Returns rows of buffers, `[n, ...]` each, with parts joined to wholes, `[n, columns]`.

        A whole is left out if not all of its parts are given.
        """
        found = {key: item for key, item in rows.items() if key not in self._wholes}
        for whole, specs in self._parts.items():
            if specs.keys() <= rows.keys():
                parts = [tf.reshape(rows[key], [-1, _width(spec)]) for key, spec in specs.items()]
                found[whole] = tf.concat(parts, 1)
        return found

    def part(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Cuts the rows of a buffer, `[n, ...]`, out of those of its whole, `[n, columns]`."""
        if key not in self._wholes:
            return rows
        specs = self._parts[self._wholes[key]]
        widths = {other: _width(spec) for other, spec in specs.items()}
        columns = tf.split(rows, list(widths.values()), 1)[list(widths).index(key)]
        return tf.reshape(columns, [-1, *(size or 0 for size in specs[key].shape)])


class MaskedRows:
    """Buffers that a loop writes.

    Writes to rows wait until the buffer is read, or the step is over, and are then made at once.
    Otherwise XLA would copy a whole buffer in each step if values that were read there are still
    needed after the first of several writes. Writes to a part of a joined buffer are held back
    until all of its parts are written, in the same rows.

    Args:
        sizes: The sizes of the buffers.
        written: The buffers that the loop may write, by key.
        read_only: The buffers that are complete, by key.
        joined: The buffers that are columns of others.
    """

    def __init__(
        self,
        sizes: Sizes,
        written: Mapping[Hashable, tf.Tensor],
        read_only: Mapping[Hashable, tf.Tensor],
        joined: JoinedBuffers,
    ):
        self.sizes = sizes
        self.written = dict(written)
        self.read_only = read_only
        self._joined = joined
        self._held_back: dict[Hashable, dict[Hashable, tf.Tensor]] = {}
        self._waiting: dict[Hashable, list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]] = {}

    def all(self, key: Hashable) -> tf.Tensor:
        """A whole buffer."""
        return self._joined.part(key, self._whole(self._joined.whole(key)))

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows: `rows` int32 `[n]`; returns `[n, ...]`."""
        found = tf.gather(self._whole(self._joined.whole(key)), rows)
        return self._joined.part(key, self._tokens_of(found))

    def write(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Replaces live rows, or parts of rows.

        Args:
            key: The buffer.
            rows: The rows, int32 `[n]`, or places of parts of rows, int32 `[n, 2]`.
            values: The values, `[n, ...]`.
            live: Which are written, bool `[n]`.
        """
        places = tf.expand_dims(rows, 1) if rows.shape.rank == 1 else rows
        for whole, joined in self._complete(key, values):
            self._waiting.setdefault(whole, []).append((places, joined, live))

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
        found = rows_from(self._whole(self._joined.whole(key)), start, number)
        return self._joined.part(key, self._tokens_of(found))

    def write_block(
        self,
        key: Hashable,
        start: tf.Tensor,
        values: tf.Tensor,
        live: tf.Tensor,
        number: tf.Tensor | None = None,
    ) -> None:
        """Replaces the live rows of a block, or of another number of rows."""
        for whole, joined in self._complete(key, values):
            joined = tf.where(beside(live, joined), joined, self.read_block(whole, start, number))
            self.written[whole] = update_slice(self.written[whole], self._rows_of(joined), start)

    def finished(self) -> Buffers:
        """The buffers that the loop may write, after all writes.

        Raises:
            GraphError: If some parts of a joined buffer were written, and not all.
        """
        if self._held_back:
            raise GraphError(f"Only parts of a joined buffer were written: {self._held_back}.")
        for key in list(self._waiting):
            self._whole(key)
        return self.written

    def _whole(self, key: Hashable) -> tf.Tensor:
        """A buffer that is not a part of another, after the writes to it that have waited."""
        waiting = self._waiting.pop(key, None)
        if waiting:
            places, values, live = (tf.concat(parts, 0) for parts in zip(*waiting, strict=True))
            self.written[key] = put(self.written[key], places, values, live)
        return self.written[key] if key in self.written else self.read_only[key]

    def _complete(self, key: Hashable, values: tf.Tensor) -> Iterator[tuple[Hashable, tf.Tensor]]:
        """Yields the buffer to write and its rows; nothing as long as other parts are missing."""
        whole = self._joined.whole(key)
        rows = self._held_back.setdefault(whole, {})
        rows[key] = values
        for other, found in self._joined.joined(rows).items():
            del self._held_back[whole]
            yield other, found

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
    outside = tf.shape(buffer)[0]  # XLA leaves out writes there.
    return scatter(buffer, tf.where(tf.expand_dims(live, 1), places, outside), values)


def beside(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Reshapes a mask `[n]` so that it broadcasts against a tensor `[n, ...]`."""
    return tf.reshape(mask, [-1, *([1] * (tensor.shape.rank - 1))])


def _width(spec: BufferSpec) -> int:
    return math.prod(size or 0 for size in spec.shape)
