"""Parents and children in a batch of trees whose tree nodes are numbered consecutively."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Links:
    """Links between tree nodes, whether or not they form trees.

    Args:
        nodes: int32 scalar, tree nodes in a tree, with padding.
        is_child: bool `[batch, nodes, arity]`, whether there is a child.
        numbers: int32 `[batch * nodes, arity]`, numbers of children; `batch * nodes` for a missing
          one.
        has_children: bool `[batch * nodes]`.
        num_parents: int32 `[batch * nodes]`.
        is_root: bool `[batch * nodes]`, whether a node is the first of its tree.
    """

    nodes: tf.Tensor
    is_child: tf.Tensor
    numbers: tf.Tensor
    has_children: tf.Tensor
    num_parents: tf.Tensor
    is_root: tf.Tensor

    @property
    def num_callers(self) -> tf.Tensor:
        """How many call a node, int32 `[batch * nodes]`; the caller of a root is the outside."""
        return self.num_parents + tf.cast(self.is_root, tf.int32)

    @property
    def is_called(self) -> tf.Tensor:
        """Bool `[batch * nodes]`, False for padding."""
        return self.num_callers > 0

    def tree_and_node(self, where: tf.Tensor) -> tf.Tensor:
        """The first node that is marked, int32 `[1, 2]`, or `[0, 2]` if there is none."""
        number = tf.cast(tf.where(where)[:1, 0], tf.int32)
        return tf.stack([number // self.nodes, number % self.nodes], -1)


def links_of(children: tf.Tensor) -> Links:
    """The links of a batch; an index out of range counts as a missing child.

    Args:
        children: int32 or int64 `[batch, nodes, arity]`.
    """
    batch, nodes, arity = tf.unstack(tf.shape(children))
    size = batch * nodes
    roots = tf.range(batch) * nodes
    is_child = (children >= 0) & (children < tf.cast(nodes, children.dtype))
    # An index that does not fit into int32 is out of range, so the cast changes no child.
    numbers = tf.cast(children, tf.int32) + roots[:, tf.newaxis, tf.newaxis]
    numbers = tf.reshape(tf.where(is_child, numbers, size), [size, arity])
    has_children = tf.reshape(tf.reduce_any(is_child, -1), [size])
    linked = tf.reshape(numbers, [-1])
    num_parents = tf.math.unsorted_segment_sum(tf.ones_like(linked), linked, size + 1)[:size]
    is_root = tf.range(size) % tf.maximum(nodes, 1) == 0
    return Links(nodes, is_child, numbers, has_children, num_parents, is_root)
