"""Reductions over all tokens of a run: tables of `collect`, and gradients of SHARED values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.graph.nodes import Accumulate, Collect, keys_of
from kerasrec._src.graph.values import Value
from kerasrec._src.half_precision import in_float32, is_half
from kerasrec._src.ops.table import reads_variable
from kerasrec._src.private import in_xla
from kerasrec._src.sparse_gradients import must_be_dense, rows_once


@dataclass
class Sums:
    """The contributions of COLLECT and ACCUMULATE nodes, over all tags.

    Args:
        rows: The contributions to each table, by its name: (value, index) pairs, or only values if
            there is no index. An index of a table without a size is a key.
        sizes: The sizes of tables with an index, by name, int32 scalars.
        parts: The contributions to gradients, by SHARED value.
    """

    rows: dict[str, list[Tensors]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[str, tf.Tensor] = field(default_factory=dict)
    parts: dict[Value, list[tf.Tensor | tf.IndexedSlices]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def accumulate(self, node: Accumulate, value: tf.Tensor, *indices: tf.Tensor) -> None:
        """Records the value of an ACCUMULATE node; with indices, it is for these rows only."""
        part = tf.IndexedSlices(value, *indices) if indices else value
        self.parts[node.to].append(part)

    def collect(self, node: Collect, tensors: Tensors, size: tf.Tensor | None) -> None:
        """Records the value of a COLLECT node, and the size of a table with an index."""
        name = node.name
        self.rows[name].append(tensors)
        if size is None:
            return
        if self.sizes.get(name, size) is not size:
            message = (
                f"kerasrec.collect is given two sizes for {name!r}. Pass the same `size` wherever "
                "values are collected under this name."
            )
            tf.debugging.assert_equal(size, self.sizes[name], message)
        self.sizes[name] = size

    def tables(self) -> dict[str, tf.Tensor]:
        """The collected tables, by name.

        If several tokens wrote to one index, the row is the sum of their values. A table of floats
        whose rows have keys comes with a table of the keys.
        """
        found = {}
        for name, rows in self.rows.items():
            if name in self.sizes or len(rows[0]) == 1:
                found[name] = self._table(name, rows)
                continue
            values, keys = (tf.concat(parts, 0) for parts in zip(*rows, strict=True))
            order = tf.argsort(keys)
            found[name] = tf.gather(values, order)
            if values.dtype.is_floating or values.dtype.is_complex:
                found[keys_of(name)] = tf.gather(keys, order)
        return found

    def _table(self, name: str, rows: list[Tensors]) -> tf.Tensor:
        values, *indices = zip(*rows, strict=True)
        if not indices:
            return tf.concat(values, 0)
        index, size = tf.concat(indices[0], 0), self.sizes[name]
        smallest, largest = tf.reduce_min(index), tf.reduce_max(index)
        message = (
            f"kerasrec.collect: an index of `{name}` is outside its `size`. Smallest and largest "
            "index, and `size`:"
        )
        check = tf.raw_ops.Assert(
            condition=(smallest >= 0) & (largest < size),
            data=[message, smallest, largest, size],
        )
        with tf.control_dependencies([check]):
            return _rows_by_index(list(values), tf.identity(index), size)

    def gradients(
        self, shared: dict[Value, tf.Tensor]
    ) -> dict[Value, tf.Tensor | tf.IndexedSlices]:
        """Returns the gradient of each SHARED value.

        That of a variable is sparse if all its parts are, and then has each row once; see
        `rows_once`. That of another tensor, which TensorFlow would make dense, is dense. One in
        half precision is also dense, since TensorFlow would add equal rows up in half precision.
        """
        return {
            value: _total(parts, shared[value], in_xla() or reads_variable(value.node.op))
            for value, parts in self.parts.items()
        }


def _rows_by_index(values: Tensors, index: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """A table `[size, ...]` with the values at their row numbers; other rows are zero."""
    count = tf.size(index)
    places = tf.math.unsorted_segment_sum(tf.range(1, count + 1), index, size)

    def gathered() -> tf.Tensor:
        shape = tf.concat([[1], tf.shape(values[0])[1:]], 0)
        return tf.gather(tf.concat([tf.zeros(shape, values[0].dtype), *values], 0), places)

    def summed() -> tf.Tensor:
        joined = tf.concat(values, 0)
        shape = tf.concat([[size], tf.shape(joined)[1:]], 0)
        found = tf.scatter_nd(index[:, tf.newaxis], in_float32(joined), shape)
        return tf.cast(found, joined.dtype)

    # On a CPU a gather takes a third of the time of a scatter.
    is_once = tf.math.count_nonzero(places, dtype=tf.int32) == count
    return tf.cond(is_once, gathered, summed)


def _total(
    parts: Sequence[tf.Tensor | tf.IndexedSlices], value: tf.Tensor, may_be_sparse: bool
) -> tf.Tensor | tf.IndexedSlices:
    shape = tf.shape(value)
    sparse = [part for part in parts if isinstance(part, tf.IndexedSlices)]
    dense = [in_float32(part) for part in parts if not isinstance(part, tf.IndexedSlices)]
    if sparse:
        rows = tf.concat([in_float32(part.values) for part in sparse], 0)
        indices = tf.concat([tf.cast(part.indices, tf.int32) for part in sparse], 0)
        if not dense and may_be_sparse and not is_half(value) and not must_be_dense():
            return rows_once(tf.IndexedSlices(rows, indices, shape))
        dense.append(tf.math.unsorted_segment_sum(rows, indices, shape[0]))
    total = tf.add_n(dense) if len(dense) > 1 else dense[0]
    total.shape.assert_is_compatible_with(value.shape)  # Of a transposed one, the size would fit.
    is_known = total.shape.is_fully_defined()
    return tf.cast(total if is_known else tf.reshape(total, shape), value.dtype)
