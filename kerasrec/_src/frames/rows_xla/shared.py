"""The SHARED values that a compiled program reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.schedule_run import with_prepared
from kerasrec._src.frames.rows_xla.entries import looks_up_ragged
from kerasrec._src.frames.rows_xla.sizes import bucket, bucket_beside, padded
from kerasrec._src.graph.nodes import Accumulate, Collect
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import Broadcast, Fire, Instruction, Reduce
from kerasrec._src.schedule.schedule import Schedule


@dataclass
class SharedInputs:
    """The SHARED values that some sweeps read, as inputs of their program.

    A value is a table if it may have any number of rows and is only read row by row. Tables are
    padded.

    Args:
        schedule: The program's schedule.
        sweeps: The numbers of the sweeps.
    """

    schedule: Schedule
    sweeps: Collection[int]

    def __post_init__(self) -> None:
        self._prepared = self.schedule.prepared_for(self.sweeps)
        made = {value for one in self._prepared for value in one.outputs}
        read = [
            value
            for section, _, one in self.schedule.instructions()
            if section.sweep in self.sweeps
            for value in _read(one)
        ]
        read += [value for one in self._prepared for value in one.inputs]
        self.values = [
            value
            for value in dict.fromkeys(read)
            if not value.node.is_constant and value not in made
        ]
        self.read_by_rows = [value for value in self.values if self._is_read_by_rows(value)]
        # For tables of ragged rows, maps the entries to the splits (the places where rows begin).
        self._splits: dict[Value, Value] = {}
        for _, _, one in self.schedule.instructions():
            if isinstance(one, Fire) and looks_up_ragged(one.node):
                splits, values = one.inputs[:2]
                self._splits[values] = splits
        self.tables = [value for value in self.read_by_rows if value.type.tensor_shape()[0] is None]

    def _is_read_by_rows(self, value: Value) -> bool:
        readers = [*self._readers(value), *(one for one in self._prepared if value in one.inputs)]
        return bool(value.type.shape) and all(self._reads_rows(one, value) for one in readers)

    def _reads_rows(self, one: Instruction, value: Value) -> bool:
        """Whether an instruction reads rows of a value, or sums up a gradient of its size."""
        if isinstance(one, Fire):
            indices = one.inputs[-1:] if looks_up_ragged(one.node) else one.inputs[1:]
            is_table = value not in indices and one not in self._prepared
            return is_table and has(one.node.op, Is.LOOKUP)
        gradient = one.node.inputs[0].node if isinstance(one, Reduce) else None
        return bool(
            gradient
            and has(gradient.op, Is.SCATTERING)
            and self._is_size_of_gradient(gradient.inputs[2])
        )

    def _is_size_of_gradient(self, value: Value) -> bool:
        """Whether a value is a shape that is read only for the size of a gradient."""
        return has(value.node.op, Is.SHAPE) and all(
            isinstance(one, Fire) and has(one.node.op, Is.SCATTERING)
            for one in self._readers(value)
        )

    def _readers(self, value: Value) -> list[Instruction]:
        return [one for _, _, one in self.schedule.instructions() if value in _read(one)]

    def tensors(self, shared: dict[Value, tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Returns a tensor for each value, padded, and the real number of rows of each table.

        If a table is padded, its shape says so, too.
        """
        sizes = {value: tf.shape(shared[value])[0] for value in self.tables}
        found = []
        for value in self.values:
            tensor = shared[value]
            if value in sizes:
                tensor = padded(tensor, self._padded_size(value, sizes))
            elif self._is_size_of_gradient(value) and value.node.inputs[0] in sizes:
                rows = self._padded_size(value.node.inputs[0], sizes)
                tensor = tf.concat([tf.cast([rows], tensor.dtype), tensor[1:]], 0)
            found.append(tensor)
        return found, list(sizes.values())

    def _padded_size(self, value: Value, sizes: Mapping[Value, tf.Tensor]) -> tf.Tensor:
        """The number of rows to which a table is padded, an int32 scalar.

        Tables of ragged rows for trees have almost as many entries as rows. Both are padded alike,
        so that they are one size for XLA. For the same reason, tables of floats, such as vectors of
        the words of a batch, are padded in proportion to its tables of integers.
        """
        if value in self._splits.values():
            return bucket(sizes[value] - 1) + 1
        splits = self._splits.get(value)
        if splits is not None and splits in sizes:
            return bucket(tf.maximum(sizes[value], sizes[splits] - 1))
        if value.type.dtype.is_integer:
            return bucket(sizes[value])
        others = [size for other, size in sizes.items() if other.type.dtype.is_integer]
        return bucket_beside(sizes[value], bucket(tf.reduce_max([0, *others])))

    def known(self, tensors: Sequence[tf.Tensor]) -> dict[Value, tf.Tensor]:
        """Returns the tensors by value, with the values prepared from them."""
        return with_prepared(dict(zip(self.values, tensors, strict=True)), self._prepared)


def _read(one: Instruction) -> Iterator[Value]:
    """The SHARED values that an instruction reads."""
    items: Sequence[object] = ()
    if isinstance(one, Fire | Broadcast):
        items = one.inputs
    elif isinstance(one, Reduce):
        size = one.node.size if isinstance(one.node, Collect) else None
        items = [*one.node.inputs, size]
        if isinstance(one.node, Accumulate) and _is_dense_of_open_shape(one.node):
            items = [*items, one.node.to]
    return (item for item in items if isinstance(item, Value) and item.is_shared)


def _is_dense_of_open_shape(node: Accumulate) -> bool:
    """Whether a gradient has the size of its value, and is not for rows of it."""
    return len(node.inputs) == 1 and None in (node.inputs[0].type.shape or ())
