"""Batches of trees as flat tables of tree nodes."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.layers.tree_checks import (
    WordRules,
    check_cycles,
    check_indices,
    check_parents,
    check_words,
)

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


def as_indices(numbers: tf.Tensor) -> tf.Tensor:
    """Integers of any dtype as int32, or as int64 where int32 might not hold them."""
    dtype = numbers.dtype
    if dtype in (tf.int32, tf.int64):
        return numbers
    if dtype.size < tf.int32.size:
        return tf.cast(numbers, tf.int32)
    if dtype == tf.uint64:
        numbers = tf.minimum(numbers, tf.constant(tf.int64.max, tf.uint64))
    return tf.cast(numbers, tf.int64)


def node_tables(
    children: tf.Tensor, words: tf.Tensor | None = None, rules: WordRules | None = None
) -> NodeTables:
    """Tables for trees, which are checked while the graph runs.

    Args:
        children: int32 or int64 `[batch, nodes, arity]`.
        words: int `[batch, nodes]`, if they are to be checked, too; padding may have any words.
        rules: which words are allowed.

    Raises:
        tf.errors.InvalidArgumentError: a child index is out of range, a node has two parents,
          node 0 is not the root, nodes form a cycle, or a tree has no nodes; or a word breaks the
          rules.
    """
    batch, nodes, arity = tf.unstack(tf.shape(children))
    size = batch * nodes
    roots = tf.range(batch) * nodes
    is_child = (children >= 0) & (children < tf.cast(nodes, children.dtype))
    # An index that does not fit into int32 is out of range, so the cast changes no child.
    numbers = tf.cast(children, tf.int32) + roots[:, tf.newaxis, tf.newaxis]
    numbers = tf.where(is_child, numbers, size)
    numbers = tf.reshape(numbers, [size, arity])
    has_children = tf.reshape(tf.reduce_any(is_child, -1), [size])
    links = tf.reshape(numbers, [-1])
    num_parents = tf.math.unsorted_segment_sum(tf.ones_like(links), links, size + 1)[:size]
    is_root = tf.range(size) % tf.maximum(nodes, 1) == 0
    # The caller is the parent of the root.
    num_callers = num_parents + tf.cast(is_root, tf.int32)
    is_called = num_callers > 0

    # Nearly all trees are right and have parents before children, so that there are no cycles.
    comes_later = children > tf.cast(tf.range(nodes), children.dtype)[:, tf.newaxis]
    is_right_node = (num_callers <= 1) & (is_called | ~has_children)
    if words is not None and rules is not None:
        words = tf.reshape(words, [-1])
        wrong_words = is_called & ~rules.allow(words, has_children)
        is_right_node &= ~wrong_words
    is_right = (
        (nodes > 0)
        & tf.reduce_all((is_child & comes_later) | (children == -1))
        & tf.reduce_all(is_right_node)
    )

    def check() -> tf.Tensor:
        with tf.control_dependencies(check_indices(children)):
            checks = check_parents(num_parents, is_root, has_children, nodes)
            checks += check_cycles(numbers, num_parents, nodes)
        if words is not None and rules is not None:
            with tf.control_dependencies(checks):
                checks = check_words(words, wrong_words, has_children, nodes, rules)
        with tf.control_dependencies(checks):
            return tf.constant(True)

    # All tables wait for the checks, so that no op that reads them fails first and says less.
    with tf.control_dependencies([tf.cond(is_right, lambda: tf.constant(True), check)]):
        numbers = tf.concat([numbers, tf.fill([1, arity], size)], 0)
        kinds = tf.concat([tf.where(has_children, INNER, LEAF), [MISSING]], 0)
        is_node = tf.reshape(is_called, [batch, nodes])
    return NodeTables(numbers, kinds, roots, is_node)
