"""Batches of trees as flat tables of tree nodes."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.layers.links import links_of
from kerasrec.layers.tree_checks import WordRules, in_cycles, tree_checks
from kerasrec.private import in_xla

LEAF, INNER, MISSING = 0, 1, 2


@dataclass
class NodeTables:
    """A batch of trees whose tree nodes are numbered consecutively.

    Args:
        children: int32 `[batch * nodes + 1, arity]`, numbers of children; the last number stands
          for a missing child, and the last row is its own.
        kinds: int32 `[batch * nodes + 1]`: LEAF, INNER, or MISSING for the last.
        roots: int32 `[batch]`.
        is_node: bool `[batch, nodes]`, False for padding.
        are_right: bool scalar, whether they are trees, whose words are allowed. Only inside of XLA,
          where nothing can raise an error, may it be False.
    """

    children: tf.Tensor
    kinds: tf.Tensor
    roots: tf.Tensor
    is_node: tf.Tensor
    are_right: tf.Tensor

    @property
    def calls_of_a_tree(self) -> tf.Tensor | None:
        """How many calls a tree takes at most, missing children among them; int32 scalar.

        None where nobody asks: outside of XLA, and for children in rows.
        """
        arity = self.children.shape[1]
        return 1 + arity * tf.shape(self.is_node)[1] if in_xla() and arity else None

    def rows(self) -> tf.RaggedTensor:
        """`children` without those that are missing, int32 `[batch * nodes + 1, (children)]`."""
        is_child = self.children < tf.shape(self.children)[0] - 1
        lengths = tf.math.count_nonzero(is_child, 1, dtype=tf.int32)
        present = tf.boolean_mask(self.children, is_child, name="present_children")
        return tf.RaggedTensor.from_row_lengths(present, lengths, "rows_of_children", False)


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
    links = links_of(children)
    nodes, is_called = links.nodes, links.is_called
    # Nearly all trees are right and have parents before children, so that there are no cycles.
    comes_later = children > tf.cast(tf.range(nodes), children.dtype)[:, tf.newaxis]
    is_right_node = (links.num_callers <= 1) & (is_called | ~links.has_children)
    given, word_dtype = [children], None
    if words is not None and rules is not None:
        words = tf.reshape(words, [-1])
        is_right_node &= ~is_called | rules.allow(words, links.has_children)
        given, word_dtype = [children, words], words.dtype
    is_in_order = tf.reduce_all((links.is_child & comes_later) | (children == -1))
    are_right = (nodes > 0) & tf.reduce_all(is_right_node)
    checks = []
    if in_xla():
        are_right &= tf.reduce_all(links.is_child | (children == -1))
        are_right &= tf.cond(
            is_in_order, lambda: tf.constant(True), lambda: ~tf.reduce_any(in_cycles(links))
        )
    else:
        check = tree_checks(children.dtype, word_dtype, rules)
        checks = [
            tf.cond(are_right & is_in_order, lambda: tf.constant(True), lambda: check(*given))
        ]

    # All tables wait for the checks, so that no op that reads them fails first, less clearly.
    with tf.control_dependencies(checks):
        batch, _, arity = tf.unstack(tf.shape(children))
        missing = batch * nodes
        numbers = tf.concat([links.numbers, tf.fill([1, arity], missing)], 0, "children")
        kinds = tf.concat([tf.where(links.has_children, INNER, LEAF), [MISSING]], 0, "kinds")
        is_node = tf.reshape(is_called, [batch, nodes])
        return NodeTables(numbers, kinds, tf.range(batch) * nodes, is_node, are_right)
