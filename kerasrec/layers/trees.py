"""Batches of trees as flat tables of tree nodes, and what is wrong with trees that are none."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

LEAF, INNER, MISSING = 0, 1, 2


@dataclass
class NodeTables:
    """A batch of trees, its tree nodes numbered through.

    Args:
        children: int32 `[batch * nodes + 1, arity]`, numbers of children; the last number stands
          for a missing child, and the last row is its own.
        kinds: int32 `[batch * nodes + 1]`: LEAF, INNER, or MISSING for the last.
        roots: int32 `[batch]`.
        is_node: bool `[batch, nodes]`, False for padding.
    """

    children: tf.Tensor
    kinds: tf.Tensor
    roots: tf.Tensor
    is_node: tf.Tensor

    def rows(self) -> tf.RaggedTensor:
        """`children` without those that are missing, int32 `[batch * nodes + 1, (children)]`."""
        is_child = self.children < tf.shape(self.children)[0] - 1
        lengths = tf.math.count_nonzero(is_child, 1, dtype=tf.int32)
        present = tf.boolean_mask(self.children, is_child)
        return tf.RaggedTensor.from_row_lengths(present, lengths, validate=False)


def node_tables(children: tf.Tensor) -> NodeTables:
    """Tables for `children`, int32 `[batch, nodes, arity]`, checked while the graph runs.

    Raises:
        tf.errors.InvalidArgumentError: a child index is out of range, a node has two parents,
          node 0 is not the root, nodes form a cycle, or a tree has no nodes.
    """
    batch, nodes, arity = tf.unstack(tf.shape(children))
    size = batch * nodes
    roots = tf.range(batch) * nodes
    is_child = (children >= 0) & (children < nodes)
    numbers = tf.where(is_child, children + roots[:, tf.newaxis, tf.newaxis], size)
    numbers = tf.reshape(numbers, [size, arity])
    has_children = tf.reshape(tf.reduce_any(is_child, -1), [size])
    num_parents = tf.raw_ops.DenseBincount(
        input=tf.reshape(numbers, [-1]), size=size, weights=tf.constant([], tf.int32)
    )
    is_root = tf.range(size) % tf.maximum(nodes, 1) == 0
    # The caller is the parent of the root.
    num_callers = num_parents + tf.cast(is_root, tf.int32)
    is_called = num_callers > 0

    # Nearly all trees are right and have parents before children, so that there are no cycles.
    comes_later = children > tf.range(nodes)[:, tf.newaxis]
    is_right = (
        (nodes > 0)
        & tf.reduce_all((is_child & comes_later) | (children == -1))
        & tf.reduce_all((num_callers <= 1) & (is_called | ~has_children))
    )

    def check() -> tf.Tensor:
        with tf.control_dependencies(check_indices(children)):
            checks = _check_parents(num_parents, is_root, has_children, nodes)
            checks.append(_check_cycles(numbers, num_parents, roots, nodes))
        with tf.control_dependencies(checks):
            return tf.constant(True)

    with tf.control_dependencies([tf.cond(is_right, lambda: tf.constant(True), check)]):
        numbers = tf.concat([numbers, tf.fill([1, arity], size)], 0)
    kinds = tf.concat([tf.where(has_children, INNER, LEAF), [MISSING]], 0)
    is_node = tf.reshape(is_called, [batch, nodes])
    return NodeTables(numbers, kinds, roots, is_node)


def check_sizes(x: tf.Tensor, children: tf.Tensor) -> list[tf.Operation]:
    """Checks, for when the graph runs, that `x` and `children` may be of the same trees."""
    message = "`x` and `children` must have the same numbers of trees and of nodes in a tree."
    return [tf.debugging.assert_equal(tf.shape(x)[:2], tf.shape(children)[:2], message)]


def check_indices(children: tf.Tensor) -> list[tf.Operation]:
    """Checks, for when the graph runs, that each index is -1 or a node of its tree."""
    nodes = tf.shape(children)[1]
    wrong = _are_outside(children)
    return [
        tf.debugging.Assert(
            nodes > 0, ["`children` has no tree nodes; every tree needs its root at node 0."]
        ),
        tf.debugging.Assert(
            ~tf.reduce_any(wrong),
            [
                "`children` has an index out of range: it must be -1 (no child) or a node of the "
                "same tree. [tree, node, child]:",
                tf.where(wrong)[:1],
                "index:",
                tf.boolean_mask(children, wrong)[:1],
                "nodes in a tree:",
                nodes,
            ],
        ),
    ]


def _are_outside(children: tf.Tensor) -> tf.Tensor:
    """For each index, whether it is neither -1 nor a node of its tree."""
    return (children < -1) | (children >= tf.shape(children)[1])


def _check_parents(
    num_parents: tf.Tensor, is_root: tf.Tensor, has_children: tf.Tensor, nodes: tf.Tensor
) -> list[tf.Operation]:
    two = num_parents > 1
    root_is_child = is_root & (num_parents > 0)
    second_root = ~is_root & (num_parents == 0) & has_children
    return [
        tf.debugging.Assert(
            ~tf.reduce_any(two),
            [
                "`children` is not a tree: a node has two parents. [tree, node]:",
                _tree_and_node(two, nodes),
            ],
        ),
        tf.debugging.Assert(
            ~tf.reduce_any(root_is_child),
            [
                "`children` must have the root at node 0, but node 0 is a child. [tree, node]:",
                _tree_and_node(root_is_child, nodes),
                "Number the nodes so that the root comes first.",
            ],
        ),
        tf.debugging.Assert(
            ~tf.reduce_any(second_root),
            [
                "`children` must have the root at node 0, but another node has children and no "
                "parent. [tree, node]:",
                _tree_and_node(second_root, nodes),
            ],
        ),
    ]


def _check_cycles(
    numbers: tf.Tensor, num_parents: tf.Tensor, roots: tf.Tensor, nodes: tf.Tensor
) -> tf.Operation:
    """Follows parents twice as far each time; whoever has a parent must end at the root."""
    size, arity = tf.shape(numbers)[0], tf.shape(numbers)[1]
    everyone = tf.range(size)
    links = tf.reshape(numbers, [-1])
    inside = links < size
    parents = tf.tensor_scatter_nd_update(
        everyone,
        tf.boolean_mask(links, inside)[:, tf.newaxis],
        tf.boolean_mask(tf.repeat(everyone, arity), inside),
    )
    _, ancestors = tf.while_loop(
        lambda reach, _: reach < nodes,
        lambda reach, found: (reach * 2, tf.gather(found, found)),
        (tf.constant(1), parents),
    )
    lost = (num_parents > 0) & (ancestors != everyone // nodes * nodes)
    return tf.debugging.Assert(
        ~tf.reduce_any(lost),
        [
            "`children` is not a tree: nodes form a cycle. [tree, node]:",
            _tree_and_node(lost, nodes),
        ],
    )


def _tree_and_node(where: tf.Tensor, nodes: tf.Tensor) -> tf.Tensor:
    number = tf.cast(tf.where(where)[:1, 0], tf.int32)
    return tf.stack([number // nodes, number % nodes], -1)
