"""Parents and children in a batch of trees whose tree nodes are numbered consecutively.

An edge is a place for a child. Padded children have `batch * nodes * arity` of them, including
those of missing children; ragged children have as many as there are indices.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.row_ids import row_ids


@dataclass(frozen=True)
class Links:
    """Links between the `size` tree nodes of a batch, whether or not they form trees.

    Args:
        nodes: The number of tree nodes of the largest tree, with padding, an int32 scalar.
        is_child: Whether there is a child, bool, in the shape of the children or of their flat
          values.
        numbers: The numbers of children, int32 `[size, arity]`, or `[edges]` if they are ragged;
          `size` for a missing child.
        parents: The numbers of the children's parents, int32 `[edges]`.
        has_children: Whether each node has children, bool `[size]`.
        num_parents: The number of parents of each node, int32 `[size]`.
        roots: The number of each node's root, int32 `[size]`.
        trees: The tree that each node belongs to, int32 `[size]`.
    """

    nodes: tf.Tensor
    is_child: tf.Tensor
    numbers: tf.Tensor
    parents: tf.Tensor
    has_children: tf.Tensor
    num_parents: tf.Tensor
    roots: tf.Tensor
    trees: tf.Tensor

    @functools.cached_property
    def is_root(self) -> tf.Tensor:
        """Whether each node is the first of its tree, bool `[size]`."""
        return tf.range(tf.size(self.roots)) == self.roots

    @functools.cached_property
    def num_callers(self) -> tf.Tensor:
        """The number of callers of each node, int32 `[size]`; a root is called from outside."""
        return self.num_parents + tf.cast(self.is_root, tf.int32)

    @functools.cached_property
    def is_called(self) -> tf.Tensor:
        """Whether each node is called, bool `[size]`; False for padding."""
        return self.num_callers > 0

    @functools.cached_property
    def is_skipped(self) -> tf.Tensor:
        """Whether each node is not called, but the next one is, so that it is not padding."""
        is_child = tf.concat([self.is_called & ~self.is_root, [False]], 0)
        return ~self.is_called & is_child[1:]

    def tree_and_node(self, number: tf.Tensor) -> tf.Tensor:
        """Which node of which tree each number `[nodes]` stands for, int32 `[nodes, 2]`."""
        return tf.stack([tf.gather(self.trees, number), number - tf.gather(self.roots, number)], -1)


def links_of(children: tf.Tensor | tf.RaggedTensor) -> Links:
    """Returns the links of a batch; an index out of range counts as a missing child.

    Args:
        children: The children, int32 or int64 `[batch, nodes, arity]`, or ragged
            `[batch, (nodes), (children)]`.
    """
    return _of_rows(children) if isinstance(children, tf.RaggedTensor) else _of_padded(children)


def _of_padded(children: tf.Tensor) -> Links:
    batch, nodes, arity = tf.unstack(tf.shape(children))
    size = batch * nodes
    roots = tf.range(batch) * nodes
    is_child = (children >= 0) & (children < tf.cast(nodes, children.dtype))
    # An index that does not fit into int32 is out of range, so the cast changes no child.
    numbers = tf.cast(children, tf.int32) + roots[:, tf.newaxis, tf.newaxis]
    numbers = tf.reshape(tf.where(is_child, numbers, size), [size, arity])
    has_children = tf.reshape(tf.reduce_any(is_child, -1), [size])
    trees = tf.range(size) // tf.maximum(nodes, 1)
    return Links(
        nodes,
        is_child,
        numbers,
        tf.range(size * arity) // tf.maximum(arity, 1),  # tf.repeat makes 29 ops.
        has_children,
        _num_parents(numbers, size),
        trees * nodes,
        trees,
    )


def _of_rows(children: tf.RaggedTensor) -> Links:
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


def at_children(values: Any, children: Any) -> Any:
    """Returns values of tree nodes at the places where these are children; zeros for no child.

    Args:
        values: The values, `[batch, nodes, features]`, ragged if children are.
        children: The children, as for `links_of`.

    Returns:
        `[batch, nodes, arity, features]`, or ragged with the rows of the children.
    """
    is_ragged = isinstance(children, tf.RaggedTensor)
    rows = values.values if is_ragged else tf.reshape(values, [-1, values.shape[-1]])
    found = tf.gather(tf.pad(rows, [[0, 1], [0, 0]]), links_of(children).numbers)
    if is_ragged:
        return children.with_flat_values(found)
    return tf.reshape(found, [*tf.unstack(tf.shape(children)), values.shape[-1]])


def _num_parents(numbers: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    linked = tf.reshape(numbers, [-1])
    return tf.math.unsorted_segment_sum(tf.ones_like(linked), linked, size + 1)[:size]


def in_cycles(links: Links) -> tf.Tensor:
    """Whether each node has a parent, but not the root among its ancestors; bool `[size]`.

    Each step follows parents twice as far as the one before.
    """
    size = tf.size(links.roots)
    numbers = tf.reshape(links.numbers, [-1, 1])
    # The last row is for missing children.
    parents = tf.tensor_scatter_nd_update(tf.range(size + 1), numbers, links.parents)[:size]
    _, ancestors = tf.while_loop(
        lambda reach, _: reach < links.nodes,
        lambda reach, above: (reach * 2, tf.gather(above, above)),
        (tf.constant(1), parents),
    )
    return (links.num_parents > 0) & (ancestors != links.roots)
