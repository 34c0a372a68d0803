"""Rows for the frames of a run, in tensors that a loop writes in place, and values it keeps.

If a loop scatters into a tensor by `tf.tensor_scatter_nd_update`, it copies the whole tensor in
each step. `InplaceUpdate` writes into its input instead. TensorFlow's own loops no longer use it,
because an op that reads the input later sees the new rows. Here, a write waits for every earlier
`read` of the buffer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import num_rows, without_rows
from kerasrec._src.emit.control_flow import hidden
from kerasrec._src.errors import WITHOUT_FRAMES
from kerasrec._src.frames.layout import BufferSpec, Layout, Specs
from kerasrec._src.graph.values import Value

_OTHER_SIZE = (
    "A value with a size that is known only at run time has different sizes in different calls. It "
    "is kept between rounds of calls, for calls that go on together, and must have one size in all "
    "of them: pad it, as with RaggedTensor.to_tensor(shape=...)."
)


class Buffers:
    """Buffers in one step of a run.

    Args:
        specs: The specs, by key.
        tensors: The tensors, by key; writes do not wait for other readers of them.
    """

    def __init__(self, specs: Specs, tensors: Mapping[Any, tf.Tensor]):
        self.specs = specs
        self.tensors = dict(tensors)
        self._readers: dict[Hashable, list[tf.Operation]] = {key: [] for key in specs}

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows of a buffer: `rows` int32 `[n]`; returns `[n, ...]`."""
        found = tf.raw_ops.Gather(params=self.tensors[key], indices=rows)
        self._readers[key].append(found.op)
        return without_rows(found) if None in self.specs[key].shape else found

    def write(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor) -> None:
        """Replaces rows of a buffer: `rows` int32 `[n]`, `values` `[n, ...]`."""
        self._change(tf.raw_ops.InplaceUpdate, key, rows, values)

    def subtract(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor) -> None:
        """Subtracts from rows of a buffer; from a row that is named several times, each value."""
        self._change(tf.raw_ops.InplaceSub, key, rows, values)

    def add(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor) -> None:
        """Adds to rows of a buffer; to a row that is named several times, each value.

        On a GPU, the op would add only some of the values to such a row.
        """
        each, place = tf.unique(rows)
        values = tf.cast(values, self.specs[key].dtype)
        sums = tf.math.unsorted_segment_sum(values, place, tf.size(each))
        self._change(tf.raw_ops.InplaceAdd, key, each, sums)

    def reserve(self, space: Hashable, size: tf.Tensor) -> None:
        """Makes room for `size` rows in all buffers of a space."""
        keys = [key for key, spec in self.specs.items() if spec.space == space]
        if not keys:
            return
        tensors = [self.tensors[key] for key in keys]
        capacity = num_rows(min(tensors, key=lambda tensor: tensor.shape.rank))

        def grown() -> list[tf.Tensor]:
            more = tf.maximum(size, 2 * capacity) - capacity
            axis = tf.constant(0)
            return [
                tf.concat([tensor, empty(self.specs[key], more, tensor)], axis)
                for key, tensor in zip(keys, tensors, strict=True)
            ]

        self.tensors.update(
            zip(keys, tf.cond(size > capacity, grown, lambda: tensors), strict=True)
        )

    def _change(self, op: object, key: Hashable, rows: tf.Tensor, values: tf.Tensor) -> None:
        if None in self.specs[key].shape:
            self.tensors[key], values = _fitted(values, self.tensors[key], self.specs[key])
        with tf.control_dependencies(self._readers[key]):
            tensor = op(x=self.tensors[key], i=rows, v=values)  # type: ignore[operator]
        tensor.set_shape([None, *self.specs[key].shape])
        self.tensors[key] = tensor
        self._readers[key] = []


@dataclass(frozen=True)
class Trace:
    """The blocks of a run.

    Args:
        num_steps: The number of blocks, an int32 scalar.
        places: A TensorArray of the place of each block, in the order of their turns.
        numbers: A TensorArray of the numbers of its frames.
    """

    num_steps: tf.Tensor
    places: tf.TensorArray
    numbers: tf.TensorArray


@dataclass
class LiveStore:
    """The values that frames and blocks keep.

    Args:
        layout: The layout of the program.
        done: The complete buffers, by key.
        arrays: The arrays that blocks keep for themselves, by value.
        counts: For each space, its number of rows, int32 scalars.
        trace: The blocks that have run.
    """

    layout: Layout
    done: dict[Hashable, tf.Tensor] = field(default_factory=dict)
    arrays: dict[Value, tf.TensorArray] = field(default_factory=dict)
    counts: dict[Hashable, tf.Tensor] = field(default_factory=dict)
    trace: Trace | None = None

    def copy(self) -> LiveStore:
        """Returns a store that begins with the content of this one."""
        return replace(self, done=dict(self.done), arrays=dict(self.arrays))


def empty(spec: BufferSpec, size: tf.Tensor, like: tf.Tensor | None = None) -> tf.Tensor:
    """Makes a buffer of `size` rows of zeros, a new one at each run, since it is written in place.

    Args:
        spec: The spec of the buffer.
        size: The number of rows, an int32 scalar.
        like: A tensor whose rows have the sizes that the spec leaves open; without it they are 0.
    """
    if None in spec.shape and like is not None:
        shape = tf.concat([[size], tf.shape(like)[1:]], 0)
    else:
        shape = tf.stack([size, *(hidden(0) if dim is None else dim for dim in spec.shape)])
    tensor = tf.raw_ops.Empty(shape=shape, dtype=spec.dtype, init=True)
    tensor.set_shape([None, *spec.shape])
    return tensor


def _fitted(values: tf.Tensor, buffer: tf.Tensor, spec: BufferSpec) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a buffer and rows that fit it; the first rows written determine unknown sizes."""
    rows, sizes = tf.shape(values)[0], tf.shape(values)[1:]
    is_none = tf.equal(rows, 0)
    is_same = tf.reduce_all(tf.equal(sizes, tf.shape(buffer)[1:]))
    is_first = tf.equal(tf.size(buffer), 0)
    check = tf.raw_ops.Assert(
        condition=is_none | is_same | is_first,
        data=[_OTHER_SIZE, "Sizes of a row here, and before:", sizes, tf.shape(buffer)[1:]],
        name=WITHOUT_FRAMES,
    )
    with tf.control_dependencies([check]):
        buffer = tf.cond(
            is_none | is_same,
            lambda: buffer,
            lambda: empty(spec, tf.shape(buffer)[0], values),
        )
    wanted = tf.where(is_none, tf.shape(buffer)[1:], sizes)
    return buffer, tf.reshape(values, tf.concat([[rows], wanted], 0))
