"""Rows of several copies: one copy for each of the root tokens that make the same calls.

A tensor has all rows of one copy, then all rows of the next, `[copies * size, ...]`. Row numbers
count within a copy, int32 `[rows]`, and are the same for all copies. If a row is one number, its
copies are moved together, as neighbors in memory. If a row is a vector, its numbers are neighbors
anyway.
"""

from __future__ import annotations

import tensorflow as tf


def taken(tensor: tf.Tensor, rows: tf.Tensor, copies: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Gathers rows of each copy, `[copies * rows, ...]`."""
    tensor = by_copy(tensor, copies, size)
    if tensor.shape.rank == 2:
        found = tf.transpose(tf.gather(tf.transpose(tensor), rows))
    else:
        found = tf.gather(tensor, rows, axis=1)
    return in_line(found)


def added(tensor: tf.Tensor, rows: tf.Tensor, copies: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Adds rows up by row number, `[copies * size, ...]`; the gradient of `taken`.

    Args:
        tensor: The rows, `[copies * rows, ...]`.
        rows: The number of the row to which each is added, within its copy.
        copies: The number of copies, an int32 scalar.
        size: The number of rows of a copy in the result, an int32 scalar.
    """
    if tensor.shape.rank == 1:
        columns = tf.transpose(by_copy(tensor, copies, tf.size(rows)))
        return in_line(tf.transpose(tf.math.unsorted_segment_sum(columns, rows, size)))
    return tf.math.unsorted_segment_sum(tensor, of_copies(rows, copies, size), copies * size)


def of_copies(rows: tf.Tensor, copies: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """The numbers of rows in a tensor of all copies, int32 `[copies * rows]`."""
    return tf.reshape(tf.expand_dims(tf.range(copies), 1) * size + rows, [-1])


def by_copy(tensor: tf.Tensor, copies: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Splits the first axis of a tensor in two, `[copies, size, ...]`."""
    found = tf.reshape(tensor, _with_lead([copies, size], tensor, 1))
    found.set_shape([None, None, *tensor.shape[1:]])
    return found


def in_line(tensor: tf.Tensor) -> tf.Tensor:
    """Joins the axes of copies and rows into one, `[copies * size, ...]`; undoes `by_copy`."""
    if tensor.shape.rank == 2:
        return tf.reshape(tensor, [-1])
    lead = tf.shape(tensor)[:2]
    found = tf.reshape(tensor, _with_lead([tf.reduce_prod(lead)], tensor, 2))
    found.set_shape([None, *tensor.shape[2:]])
    return found


def _with_lead(lead: list[tf.Tensor], tensor: tf.Tensor, number: int) -> tf.Tensor:
    """The shape of a tensor, with its first `number` axes replaced by `lead`."""
    rest = tensor.shape[number:]
    if rest.is_fully_defined():
        return tf.stack([*lead, *rest])
    return tf.concat([lead, tf.shape(tensor)[number:]], 0)
