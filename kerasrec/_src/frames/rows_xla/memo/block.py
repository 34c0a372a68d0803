"""A block of calls that several root tokens make: a row of a call has a token for each of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.rows import MaskedRows, beside, put
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.values import Node
from kerasrec._src.memo.copies import by_copy, in_line
from kerasrec._src.private import rows_from
from kerasrec._src.schedule.instructions import Wait

ROOTS = ("roots",)
COPIES = ("copies",)


def called_key(sites: Sequence[CallSite]) -> Hashable:
    """Returns the key under which the calls that call sites make are kept."""
    return ("called", sites[0].label)


class RowsOfCalls(MaskedRows):
    """Buffers `[rows, copies, ...]`, from which `[n * copies, ...]` is read and written.

    Rows are moved as a whole, so XLA moves one piece for each call, not one for each token. A
    buffer keeps its shape within a loop, since XLA would copy all of it to reshape it.
    """

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


class MemoBlock(MaskedBlock):
    """The registers of a segment on a block; arguments as for `Block`."""

    rows: RowsOfCalls

    def called(self, sites: Sequence[CallSite], to_results: bool) -> Tensors:
        """For each call site, the numbers of the calls that it makes, int32 `[calls]`."""
        return tf.unstack(self.of_calls(called_key(sites)), len(sites), axis=1)

    def of_calls(self, key: Hashable) -> tf.Tensor:
        """Reads the block's rows of a buffer with one row for each call, `[calls, ...]`."""
        return rows_from(self.rows.all(key), self.start, self.rows.sizes.width)

    def arguments(self) -> Tensors:
        """The arguments of the calls, `[width, ...]` each."""
        copies, found = self.rows.copies, []
        for number, node in enumerate(self.graph.bodies[self.body].parameters):
            tensor = self.of_calls(("argument", self.body, number))
            if node.is_root:
                found.append(tf.reshape(tf.expand_dims(tensor, 1) + tf.range(copies), [-1]))
            else:
                times = tf.stack([1, copies, *([1] * (tensor.shape.rank - 1))])
                found.append(in_line(tf.tile(tf.expand_dims(tensor, 1), times)))
        return found

    def _passed(self, node: Node) -> tf.Tensor:
        """The value that a later sweep passes to the calls for a parameter, in its dtype."""
        return tf.cast(self.read_own(self.layout.inputs[node][1]), node.types[0].dtype)

    def wait(self, ones: Sequence[Wait]) -> None:
        """Records which calls wait for others."""
        masks = [self.mask(one.region) for one in ones]
        self.write_own(("waits", self.body), tf.reduce_any(masks, 0))
