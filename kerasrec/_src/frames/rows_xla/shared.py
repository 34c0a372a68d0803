"""The SHARED values that a compiled program reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import tensorflow as tf

from kerasrec._src.emit.schedule_run import with_prepared
from kerasrec._src.frames.rows_xla.entries import looks_up_ragged
from kerasrec._src.frames.rows_xla.sizes import bucket, bucket_beside, padded
from kerasrec._src.graph.nodes import Accumulate, Collect
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import Fire, Instruction, Reduce
from kerasrec._src.schedule.schedule import Schedule


class SharedInputs:
    """The SHARED values that some sweeps read, as inputs of their program.

    A value is a table if it may have any number of rows and is only read row by row. Tables are
    padded. If a table is padded, its shape shows it.

    Args:
        schedule: The program's schedule.
        sweeps: The numbers of the sweeps.
        shared: The tensors of SHARED values.

    Attributes:
        ragged: Each table of ragged rows: its splits, and its entries.
        read_by_rows: The values that are only read row by row.
        sizes: The number of rows of each table, int32 scalars.
        tensors: The inputs of the program.
    """

    def __init__(self, schedule: Schedule, sweeps: Collection[int], shared: dict[Value, tf.Tensor]):
        self.shared = shared
        self._prepared = schedule.prepared_for(sweeps)
        self._readers: dict[Value, list[Instruction]] = defaultdict(list)
        read = []
        for section, _, instruction in schedule.instructions():
            values = _read(instruction)
            read += values if section.sweep in sweeps else []
            for value in values:
                self._readers[value].append(instruction)
        read += [value for fire in self._prepared for value in fire.inputs]
        made = {value for fire in self._prepared for value in fire.outputs}
        self._values = [
            value
            for value in dict.fromkeys(read)
            if not value.node.is_constant and value not in made
        ]
        lookups = [fire.inputs for _, _, fire in schedule.of(Fire) if looks_up_ragged(fire.node)]
        self.ragged = list(dict.fromkeys((splits, entries) for splits, entries, _ in lookups))
        self.read_by_rows = [value for value in self._values if self._is_read_by_rows(value)]
        self.sizes = {
            value: tf.shape(shared[value])[0]
            for value in self.read_by_rows
            if value.type.tensor_shape()[0] is None
        }
        self.tensors = [self._padded(value, shared[value]) for value in self._values]

    def _is_read_by_rows(self, value: Value) -> bool:
        is_prepared_from = any(value in fire.inputs for fire in self._prepared)
        readers = self._readers[value]
        return bool(value.type.shape) and all(
            not is_prepared_from and _reads_rows(reader, value, self._readers) for reader in readers
        )

    def _padded(self, value: Value, tensor: tf.Tensor) -> tf.Tensor:
        if value in self.sizes:
            return padded(tensor, self._padded_size(value))
        if _is_size_of_gradient(value, self._readers) and value.node.inputs[0] in self.sizes:
            rows = self._padded_size(value.node.inputs[0])
            return tf.concat([tf.cast([rows], tensor.dtype), tensor[1:]], 0)
        return tensor

    def _padded_size(self, value: Value) -> tf.Tensor:
        """The number of rows to which a table is padded, an int32 scalar.

        Tables of ragged rows for trees have almost as many entries as rows. Both are padded alike,
        so that they are one size for XLA. For the same reason, tables of floats, such as vectors of
        the words of a batch, are padded in proportion to its tables of integers.
        """
        sizes = self.sizes
        splits = {entries: splits for splits, entries in self.ragged}
        if value in splits.values():
            return bucket(sizes[value] - 1) + 1
        if splits.get(value) in sizes:
            return bucket(tf.maximum(sizes[value], sizes[splits[value]] - 1))
        if value.type.dtype.is_integer:
            return bucket(sizes[value])
        others = [size for other, size in sizes.items() if other.type.dtype.is_integer]
        return bucket_beside(sizes[value], bucket(tf.reduce_max([0, *others])))

    def known(self, tensors: Sequence[tf.Tensor]) -> dict[Value, tf.Tensor]:
        """Returns the tensors by value, with the values prepared from them."""
        return with_prepared(dict(zip(self._values, tensors, strict=True)), self._prepared)


_Readers = Mapping[Value, Sequence[Instruction]]


def _read(instruction: Instruction) -> list[Value]:
    """The SHARED values that an instruction reads."""
    if not isinstance(instruction, Reduce):
        return instruction.reads_shared
    node = instruction.node
    items = [*node.inputs, node.size if isinstance(node, Collect) else None]
    if isinstance(node, Accumulate) and len(node.inputs) == 1 and not node.inputs[0].type.is_static:
        items.append(node.to)  # A gradient has its shape.
    return [value for value in items if value is not None and value.is_shared]


def _reads_rows(reader: Instruction, value: Value, readers: _Readers) -> bool:
    """Whether an instruction reads rows of a value, or sums up a gradient of its size."""
    if isinstance(reader, Fire):
        indices = reader.inputs[-1:] if looks_up_ragged(reader.node) else reader.inputs[1:]
        return value not in indices and has(reader.node.op, Is.LOOKUP)
    gradient = reader.node.inputs[0].node if isinstance(reader, Reduce) else None
    return bool(
        gradient
        and has(gradient.op, Is.SCATTERING)
        and _is_size_of_gradient(gradient.inputs[2], readers)
    )


def _is_size_of_gradient(value: Value, readers: _Readers) -> bool:
    """Whether a value is a shape that is read only for the size of a gradient."""
    return has(value.node.op, Is.SHAPE) and all(
        isinstance(reader, Fire) and has(reader.node.op, Is.SCATTERING) for reader in readers[value]
    )
