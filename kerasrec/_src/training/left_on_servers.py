"""Values that the workers of a cluster leave on its servers, for the coordinator to combine."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class LeftOnServers:
    """Keeps a nest of tensors for each part of a batch, in variables on the servers.

    A place has one writer at a time, and writing twice has the effect of writing once. Tensors are
    stored as strings, because parts differ in numbers of rows, and a remote variable needs a fixed
    shape.

    Args:
        number: The number of parts.
    """

    def __init__(self, number: int):
        self._number = number
        self._like: Any = None
        self._places: list[tf.Variable] = []

    def leave(self, part: tf.Tensor, values: Any) -> None:
        """Keeps the values of a part, an int32 scalar; parts may differ only in numbers of rows."""
        tensors = tf.nest.flatten(values, expand_composites=True)
        if not self._places:
            self._like = values
            with tf.init_scope():
                nothing = tf.fill([self._number], "")
                self._places = [tf.Variable(nothing, trainable=False) for _ in tensors]
        for place, tensor in zip(self._places, tensors, strict=True):
            row = tf.io.serialize_tensor(tensor)
            place.scatter_update(tf.IndexedSlices(row[tf.newaxis], part[tf.newaxis]))

    def collect(self) -> list[Any]:
        """Returns the values of all parts."""
        like = tf.nest.flatten(self._like, expand_composites=True)
        strings = [tf.unstack(place.value(), self._number) for place in self._places]
        return [
            tf.nest.pack_sequence_as(
                self._like, [_parsed(*of) for of in zip(row, like, strict=True)], True
            )
            for row in zip(*strings, strict=True)
        ]


def _parsed(string: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """A tensor with the dtype of another, and with its shape except for the number of rows."""
    shape = [None, *like.shape[1:]] if like.shape.rank else []
    return tf.ensure_shape(tf.io.parse_tensor(string, like.dtype), shape)
