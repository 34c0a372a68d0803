"""Parents and children in a batch of trees whose tree nodes are numbered consecutively.

An edge is a place for a child: of padded children `batch * nodes * arity` of them, with those that
are missing; of ragged ones as many as there are indices.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.row_ids import row_ids


@dataclass(frozen=True)
class Links:
    """Links between tree nodes, whether or not they form trees. `size` are all nodes of the batch.

    Args:
        nodes: int32 scalar, tree nodes of the largest tree, with padding.
        is_child: bool, of the shape of the children, or of their flat values: whether there is one.
        numbers: int32 `[size, arity]`, or `[edges]` of ragged children: numbers of children; `size`
          for a missing one.
        parents: int32 `[edges]`, the numbers of their parents.
        has_children: bool `[size]`.
        num_parents: int32 `[size]`.
        roots: int32 `[size]`, the number of each node's root.
        trees: int32 `[size]`, which tree each node is of.
    """

    nodes: tf.Tensor
    is_child: tf.Tensor
    numbers: tf.Tensor
    parents: tf.Tensor
    has_children: tf.Tensor
    num_parents: tf.Tensor
    roots: tf.Tensor
    trees: tf.Tensor

    def tensors(self) -> tuple[tf.Tensor, ...]:
        """All of them, in the constructor's order."""
        return tuple(getattr(self, item.name) for item in dataclasses.fields(self))

    @functools.cached_property
    def is_root(self) -> tf.Tensor:
        """Bool `[size]`, whether a node is the first of its tree."""
        return tf.range(tf.size(self.roots)) == self.roots

    @functools.cached_property
    def num_callers(self) -> tf.Tensor:
        """How many call a node, int32 `[size]`; the caller of a root is the outside."""
        return self.num_parents + tf.cast(self.is_root, tf.int32)

    @functools.cached_property
    def is_called(self) -> tf.Tensor:
        """Bool `[size]`, False for padding."""
        return self.num_callers > 0

    @functools.cached_property
    def is_skipped(self) -> tf.Tensor:
        """Bool `[size]`, whether a node is not called, but the next of its tree is: no padding."""
        is_child = tf.concat([self.is_called & ~self.is_root, [False]], 0)
        return ~self.is_called & is_child[1:]

    def tree_and_node(self, number: tf.Tensor) -> tf.Tensor:
        """Which nodes of which trees have these numbers, int32 `[nodes, 2]` of `[nodes]`."""
        return tf.stack([tf.gather(self.trees, number), number - tf.gather(self.roots, number)], -1)


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
    everyone = tf.range(size)
    trees = everyone // tf.maximum(nodes, 1)
    return Links(
        nodes,
        is_child,
        numbers,
        tf.repeat(everyone, arity),
        has_children,
        _num_parents(numbers, size),
        trees * nodes,
        trees,
    )


def links_of_rows(children: tf.RaggedTensor) -> Links:
    """The links of a batch whose children are in rows; as `links_of`.

    Args:
        children: int32 or int64 `[batch, (nodes), (children)]`.
    """
    rows, given = children.values, children.flat_values
    size = tf.cast(rows.nrows(), tf.int32)
    trees = tf.cast(row_ids(children.row_lengths()), tf.int32)
    nodes_of = tf.cast(children.row_lengths(), tf.int32)
    roots = tf.gather(tf.cast(children.row_starts(), tf.int32), trees)
    parents = tf.cast(row_ids(rows.row_lengths()), tf.int32)
    last = tf.gather(nodes_of, tf.gather(trees, parents))
    is_child = (given >= 0) & (given < tf.cast(last, given.dtype))
    numbers = tf.where(is_child, tf.cast(given, tf.int32) + tf.gather(roots, parents), size)
    num_children = tf.math.unsorted_segment_sum(tf.cast(is_child, tf.int32), parents, size)
    return Links(
        tf.reduce_max(tf.concat([nodes_of, [0]], 0)),
        is_child,
        numbers,
        parents,
        num_children > 0,
        _num_parents(numbers, size),
        roots,
        trees,
    )


def _num_parents(numbers: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    linked = tf.reshape(numbers, [-1])
    return tf.math.unsorted_segment_sum(tf.ones_like(linked), linked, size + 1)[:size]
