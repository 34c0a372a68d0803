"""What is wrong with trees that are none: checks for when the graph runs."""

from __future__ import annotations

import tensorflow as tf


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


def check_parents(
    num_parents: tf.Tensor, is_root: tf.Tensor, has_children: tf.Tensor, nodes: tf.Tensor
) -> list[tf.Operation]:
    """Checks, for when the graph runs, that the only node without a parent is the root."""
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


def check_cycles(numbers: tf.Tensor, num_parents: tf.Tensor, nodes: tf.Tensor) -> tf.Operation:
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
