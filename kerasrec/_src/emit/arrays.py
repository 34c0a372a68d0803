"""Arrays with an element for each turn of a loop, and their conversion from and to tensors."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

OF_ROWS = tf.TensorShape([None])


def array_of(spec: tf.TensorSpec, size: tf.Tensor | None = None) -> tf.TensorArray:
    """Makes an empty array whose elements can be read more than once.

    Args:
        spec: The spec of an element.
        size: The number of elements, an int32 scalar; None for an array that grows.
    """
    return tf.TensorArray(
        spec.dtype,
        0 if size is None else size,
        dynamic_size=size is None,
        element_shape=spec.shape,
        clear_after_read=False,
    )


class Pieces:
    """The rows of a tensor, divided among the waves; a `tf.TensorArray` takes four more ops.

    Args:
        tensor: The tensor.
        sizes: The number of rows that each wave gets, int32 `[waves]`.
        shape: The shape of the rows of a wave.
    """

    def __init__(self, tensor: tf.Tensor, sizes: tf.Tensor, shape: tf.TensorShape = OF_ROWS):
        self._dtype = tensor.dtype
        self._shape = [-1 if dim is None else dim for dim in shape]
        self._list = tf.raw_ops.TensorListSplit(
            tensor=tensor, element_shape=self._shape, lengths=tf.cast(sizes, tf.int64)
        )

    def read(self, wave: tf.Tensor) -> tf.Tensor:
        """Returns the rows of a wave."""
        return tf.raw_ops.TensorListGetItem(
            input_handle=self._list,
            index=wave,
            element_shape=self._shape,
            element_dtype=self._dtype,
        )


class Slices:
    """The rows of a tensor, divided among the waves like `Pieces`, and read from the tensor.

    TensorFlow keeps the elements of arrays on a GPU, if there is one, and a slice of integers on
    the host; see `host.py`.
    """

    def __init__(self, tensor: tf.Tensor, sizes: tf.Tensor):
        self._tensor = tensor
        self._sizes = sizes
        self._starts = tf.cumsum(sizes, exclusive=True)

    def read(self, wave: tf.Tensor) -> tf.Tensor:
        """Returns the rows of a wave."""
        start = tf.gather(self._starts, wave)
        return self._tensor[start : start + tf.gather(self._sizes, wave)]


def num_rows(tensor: tf.Tensor) -> tf.Tensor:
    """The number of rows of a tensor, an int32 scalar; for a vector with one op instead of five."""
    return tf.size(tensor) if tensor.shape.rank == 1 else tf.shape(tensor)[0]


def open_rows(item: tf.Tensor | tf.TensorArray) -> tf.TensorShape:
    """The shape that a value carried by a loop may have in its turns: any number of rows."""
    if isinstance(item, tf.TensorArray):
        return tf.TensorShape(None)
    return tf.TensorShape([None, *item.shape[1:]]) if item.shape.rank else item.shape


def rows_where(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Selects the rows at which a mask is true, with fewer ops than `tf.boolean_mask`."""
    return tf.dynamic_partition(tensor, tf.cast(mask, tf.int32), 2)[1]


def one_tensor(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Joins the rows of all tensors."""
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, 0)


def joined(array: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns all rows of an array, and the number of rows in each element, int64 `[elements]`.

    If there is no element, a size of rows that is not known before the run stays unknown. It is
    taken to be 1, so that values computed with the rows can be broadcast.
    """
    sizes: list[int | None] = list(array.element_shape[1:])
    if None in sizes:
        unknown = tf.where(array.size() > 0, -1, 1)
        sizes = [unknown if size is None else size for size in sizes]
    tensor, lengths = tf.raw_ops.TensorListConcatV2(
        input_handle=array.flow,
        element_shape=tf.stack([-1, *sizes]),
        leading_dims=tf.zeros([0], tf.int64),
        element_dtype=array.dtype,
    )
    return tensor, lengths


def without_rows(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor; if it has no rows, its unknown sizes become 1, so that it broadcasts."""
    sizes = [-1 if size is None else size for size in tensor.shape[1:]]
    none = tf.stack([0, *(1 if size == -1 else size for size in sizes)])
    is_none = tf.equal(tf.shape(tensor)[0], 0)
    found = tf.reshape(tensor, tf.where(is_none, none, tf.shape(tensor)))
    found.set_shape(tensor.shape)
    return found
