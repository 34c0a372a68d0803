"""Gradients of tables, as the rows that were looked up.

TensorFlow repeats a row for each time that it was looked up. The gradient is the sum of these, but
Keras' optimizers square, clip and measure each one separately. If each row occurs once, they take
the same step as with the dense gradient: if the optimizer has weight decay, rows that were not
looked up decay as well. Keras repeats rows in the same way when it adds up the gradients of
replicas, so there gradients must be dense, unless the training loop adds the rows up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TypeAlias
from weakref import WeakKeyDictionary

import tensorflow as tf

from kerasrec._src.private import in_xla

Gradients: TypeAlias = list[tf.Tensor | tf.IndexedSlices | None]

# The layers that have looked rows up, by graph.
_looked_up: WeakKeyDictionary[tf.Graph, set[int]] = WeakKeyDictionary()
_rows_are_added_up: ContextVar[bool] = ContextVar("rows_are_added_up", default=False)


@contextlib.contextmanager
def adding_rows_up() -> Iterator[None]:
    """A context for a training step that adds up the rows of all replicas, as ours does."""
    token = _rows_are_added_up.set(True)
    try:
        yield
    finally:
        _rows_are_added_up.reset(token)


def is_looked_up_again(layer: object) -> bool:
    """Whether a layer has looked rows up in the graph that is being built, and does so again.

    TensorFlow would then repeat the rows of each look-up in one gradient.
    """
    if tf.executing_eagerly() or _rows_are_added_up.get():
        return False
    known = _looked_up.setdefault(tf.compat.v1.get_default_graph(), set())
    is_known = id(layer) in known
    known.add(id(layer))
    return is_known


def must_be_dense() -> bool:
    """Whether the gradients of tables must be dense, so that replicas add up to one gradient."""
    is_spread = tf.distribute.get_strategy().num_replicas_in_sync > 1
    return is_spread and not _rows_are_added_up.get()


def with_rows_once(gradients: Iterable[tf.Tensor | tf.IndexedSlices | None]) -> Gradients:
    """Returns the same gradients; in sparse ones, rows with the same index are added up.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None; each keeps its kind.
    """
    return [
        rows_once(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]


def rows_once(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Returns the same gradient, with rows of the same index added up.

    XLA compiles again for each number of rows, so inside XLA the number stays the same: the first
    row of an index is the sum, and its other rows are zero.
    """
    if in_xla() and gradient.dense_shape is not None:
        indices = gradient.indices
        places, count = first_places(indices, gradient.dense_shape[0]), tf.size(indices)
    else:
        indices, places = tf.unique(gradient.indices)
        count = tf.size(indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, count)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def first_places(indices: tf.Tensor, num_rows: tf.Tensor | int) -> tf.Tensor:
    """Returns the place at which each index first occurs, int32 `[indices]`.

    Args:
        indices: Row numbers, int `[indices]`, from 0 to `num_rows - 1`.
        num_rows: The number of rows of the table.
    """
    first = tf.math.unsorted_segment_min(tf.range(tf.size(indices)), indices, num_rows)
    return tf.gather(first, indices)


def with_a_row(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """Returns the same gradient; if it is sparse and empty, with a row of zeros for index 0.

    TensorFlow ends the process if replicas exchange sparse gradients and none has a row (its issue
    65785). That happens if no example of a batch has an entry in some list.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    missing = [[0, 1 - tf.minimum(tf.size(gradient.indices), 1)]]
    values = tf.pad(gradient.values, missing + [[0, 0]] * (gradient.values.shape.rank - 1))
    return tf.IndexedSlices(values, tf.pad(gradient.indices, missing), gradient.dense_shape)
