"""Shared by the layers from text to trees: errors in the graph, and arrays of tree nodes."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.errors import WITHOUT_FRAMES


def fail(*parts: tf.Tensor | str) -> tf.Tensor:
    """Raises InvalidArgumentError when the graph runs.

    Args:
        *parts: The parts of the message, as strings.
    """
    message = tf.strings.join(parts)
    failure = tf.raw_ops.Assert(condition=False, data=[message], name=WITHOUT_FRAMES)
    with tf.control_dependencies([] if failure is None else [failure]):
        return tf.constant(False)


def first_in_group(groups: tf.Tensor) -> tf.Tensor:
    """For each entry the place of the first entry of its group, int64 `[entries]`.

    Args:
        groups: The group of each entry, int64 `[entries]`; those of one group stand together.
    """
    is_first = tf.concat([[True], groups[1:] != groups[:-1]], 0)[: tf.size(groups)]
    firsts = tf.where(is_first)[:, 0]
    return tf.gather(firsts, tf.cumsum(tf.cast(is_first, tf.int64)) - 1)


def children_of(
    rows: tf.Tensor,
    numbers: tf.Tensor,
    parents: tf.Tensor,
    slots: tf.Tensor,
    size: tuple[tf.Tensor, tf.Tensor],
    arity: int | None,
) -> tf.Tensor:
    """Puts tree nodes into the slots of their parents, int32 `[batch, nodes, arity]`, -1 for none.

    Args:
        rows: The text of each node, int64 `[all nodes]`.
        numbers: The number of each node in its tree, int64 `[all nodes]`.
        parents: The place of each node's parent in these lists, int64 `[all nodes]`; roots have
            one that is outside.
        slots: The place of each node among its parent's children, int64 `[all nodes]`.
        size: The numbers of texts and of tree nodes of the largest tree, int64.
        arity: The number of slots; None for as many as there are.
    """
    everyone = tf.range(tf.size(rows, tf.int64))
    child = tf.boolean_mask(everyone, (parents >= 0) & (parents < tf.size(rows, tf.int64)))
    parent, slots = tf.gather(parents, child), tf.gather(slots, child)
    num_slots = tf.reduce_max(tf.concat([[1], slots + 1], 0)) if arity is None else arity
    where = [tf.gather(rows, child), tf.gather(numbers, parent), slots]
    return tf.tensor_scatter_nd_update(
        tf.fill(tf.stack([*size, num_slots]), -1),
        tf.stack(where, 1),
        tf.cast(tf.gather(numbers, child), tf.int32),
    )


def at_nodes(
    texts: tf.Tensor, rows: tf.Tensor, numbers: tf.Tensor, size: tuple[tf.Tensor, tf.Tensor]
) -> tf.Tensor:
    """Puts texts at tree nodes, string `[batch, nodes]`, "" for none.

    Args:
        texts: The texts, string `[texts]`.
        rows: The row of each, int64 `[texts]`.
        numbers: The number of its tree node, int64 `[texts]`.
        size: The numbers of rows and of tree nodes of the largest tree, int64.
    """
    places = tf.scatter_nd(
        tf.stack([rows, numbers], 1), tf.range(1, tf.size(texts) + 1), tf.stack(size)
    )
    return tf.gather(tf.concat([[""], texts], 0), places)
