"""Batches of trees as flat tables of tree nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.layers.links import Links, links_of, links_of_rows
from kerasrec._src.layers.tree_checks import WordRules, in_cycles, tree_checks
from kerasrec._src.private import in_xla

LEAF, INNER, MISSING = 0, 1, 2


@dataclass
class NodeTables:
    """A batch of trees whose nodes are numbered consecutively. `size` counts all nodes.

    Args:
        children: The numbers of children, int32 `[size + 1, arity]`; the last number stands for a
          missing child, whose own row is the last. If children are ragged and of any number, a
          RaggedTensor `[size + 1, (children)]` without missing children.
        kinds: The kind of each node, int32 `[size + 1]`: LEAF, INNER, or MISSING for the last.
        roots: The numbers of the roots, int32 `[batch]`.
        is_node: Whether each place holds a tree node, bool `[batch, nodes]`, False for padding;
          `[size]` if children are ragged.
        are_right: Whether they are trees whose words are allowed, a bool scalar. It may be False
          only inside XLA, where nothing can raise an error.
    """

    children: Any
    kinds: tf.Tensor
    roots: tf.Tensor
    is_node: tf.Tensor
    are_right: tf.Tensor

    def bounds_in_xla(self, calls_missing: bool) -> dict[str, tf.Tensor]:
        """Returns the options of `kerasrec.recursive` that matter inside XLA; none outside.

        Args:
            calls_missing: Whether missing children are called, too.
        """
        if not in_xla():
            return {}
        nodes, arity = tf.shape(self.is_node)[1], tf.shape(self.children)[1]
        calls = 1 + arity * nodes if calls_missing else nodes
        # A node is an entry of one row.
        return {"xla_calls": calls, "xla_row_length": arity, "xla_entries": nodes}

    def rows(self) -> tf.RaggedTensor:
        """`children` without missing children, int32 `[size + 1, (children)]`."""
        if isinstance(self.children, tf.RaggedTensor):
            return self.children
        is_child = self.children < tf.shape(self.children)[0] - 1
        lengths = tf.math.count_nonzero(is_child, 1, dtype=tf.int32)
        if in_xla():  # XLA must know their number. What follows the last row is not read.
            present = _present_first(tf.reshape(self.children, [-1]), tf.reshape(is_child, [-1]))
        else:
            present = tf.boolean_mask(self.children, is_child, name="present_children")
        return tf.RaggedTensor.from_row_lengths(present, lengths, "rows_of_children", False)


def _present_first(numbers: tf.Tensor, is_present: tf.Tensor) -> tf.Tensor:
    """Returns the numbers that are present in their order, then zeros: as many as before."""
    size = tf.size(numbers)
    places = tf.where(is_present, tf.cumsum(tf.cast(is_present, tf.int32)) - 1, size)
    return tf.scatter_nd(places[:, tf.newaxis], numbers, [size + 1])[:-1]


def as_indices(numbers: tf.Tensor) -> tf.Tensor:
    """Converts integers of any dtype to int32, or to int64 if int32 might not hold them."""
    dtype = numbers.dtype
    if dtype in (tf.int32, tf.int64):
        return numbers
    if dtype.size < tf.int32.size:
        return tf.cast(numbers, tf.int32)
    if dtype == tf.uint64:
        numbers = tf.minimum(numbers, tf.constant(tf.int64.max, tf.uint64))
    return tf.cast(numbers, tf.int64)


def tables_of(
    children: Any,
    words: tf.Tensor | None = None,
    rules: WordRules | None = None,
    arity: int | None = None,
    shares: bool = False,
) -> NodeTables:
    """Calls `node_tables` for padded children and `tables_of_rows` for ragged ones."""
    if isinstance(children, tf.RaggedTensor):
        return tables_of_rows(children, words, rules, arity, shares)
    return node_tables(children, words, rules, shares)


def node_tables(
    children: tf.Tensor,
    words: tf.Tensor | None = None,
    rules: WordRules | None = None,
    shares: bool = False,
) -> NodeTables:
    """Returns tables for trees, which are checked while the graph runs.

    Args:
        children: The children, int32 or int64 `[batch, nodes, arity]`.
        words: The words, int `[batch, nodes]`, if they are to be checked, too; padding has none.
        rules: The words that are allowed.
        shares: Whether a node may have several parents.

    Raises:
        tf.errors.InvalidArgumentError: If a child index is out of range, a node has two parents,
          node 0 is not the root, nodes form a cycle, or a tree has no nodes; or if a word breaks
          the rules.
    """
    links = links_of(children)
    nodes, is_called = links.nodes, links.is_called
    # Nearly all trees are right and have parents before children, so that there are no cycles.
    comes_later = children > tf.cast(tf.range(nodes), children.dtype)[:, tf.newaxis]
    is_right_node, words = _right_nodes(links, words, rules, shares)
    is_in_order = tf.reduce_all((links.is_child & comes_later) | (children == -1))
    are_right = (nodes > 0) & tf.reduce_all(is_right_node)
    checks = []
    if in_xla():
        are_right &= tf.reduce_all(links.is_child | (children == -1))
        are_right &= tf.cond(
            is_in_order, lambda: tf.constant(True), lambda: ~tf.reduce_any(in_cycles(links))
        )
    else:
        spec = tf.TensorSpec([None, None, None], children.dtype)
        is_usual = are_right & is_in_order
        checks = [_raise_unless(is_usual, spec, children, links, words, rules, shares=shares)]

    # All tables wait for the checks, so that no op that reads them fails first, less clearly.
    with tf.control_dependencies(checks):
        batch, _, arity = tf.unstack(tf.shape(children))
        missing = batch * nodes
        numbers = tf.concat([links.numbers, tf.fill([1, arity], missing)], 0, "children")
        kinds = tf.concat([tf.where(links.has_children, INNER, LEAF), [MISSING]], 0, "kinds")
        is_node = tf.reshape(is_called, [batch, nodes])
        return NodeTables(numbers, kinds, tf.range(batch) * nodes, is_node, are_right)


def tables_of_rows(
    children: tf.RaggedTensor,
    words: tf.Tensor | None = None,
    rules: WordRules | None = None,
    arity: int | None = None,
    shares: bool = False,
) -> NodeTables:
    """Returns tables, as large as nodes and children, for trees whose children are in rows.

    Args:
        children: The children, int32 or int64 `[batch, (nodes), (children)]`, -1 for none.
        words: The words, int `[batch, (nodes)]`, if they are to be checked, too; or whether each
          node has features, bool.
        rules: The words that are allowed.
        arity: The largest number of children of a tree node; None for any number.
        shares: Whether a node may have several parents.

    Raises:
        tf.errors.InvalidArgumentError: As for `node_tables`, and for a row of more than `arity`.
    """
    links = links_of_rows(children)
    given, rows = children.flat_values, children.values
    is_right_node, words = _right_nodes(links, words, rules, shares)
    is_right_node &= links.is_called  # Rows have no padding.
    is_in_order = (links.is_child & (links.numbers > links.parents)) | (given == -1)
    are_right = tf.reduce_all(is_right_node) & tf.reduce_all(is_in_order)
    are_right &= tf.reduce_all(children.row_lengths() > 0)
    if arity is not None:
        are_right &= tf.reduce_all(rows.row_lengths() <= arity)
    spec = tf.RaggedTensorSpec([None, None, None], given.dtype, 2, tf.int64)
    checks = [_raise_unless(are_right, spec, children, links, words, rules, arity, shares)]
    with tf.control_dependencies(checks):
        size = tf.cast(rows.nrows(), tf.int32)
        numbers: Any
        if arity is None:
            present = tf.boolean_mask(links.numbers, links.is_child, name="present_children")
            lengths = tf.math.bincount(
                tf.boolean_mask(links.parents, links.is_child), minlength=size + 1
            )
            numbers = tf.RaggedTensor.from_row_lengths(present, lengths, "children", False)
        else:
            numbers = rows.with_values(links.numbers).to_tensor(size, shape=[None, arity])
            numbers = tf.concat([numbers, tf.fill([1, arity], size)], 0, "children")
        kinds = tf.concat([tf.where(links.has_children, INNER, LEAF), [MISSING]], 0, "kinds")
        roots = tf.cast(children.row_starts(), tf.int32)
        return NodeTables(numbers, kinds, roots, links.is_called, are_right)


def _right_nodes(
    links: Links, words: tf.Tensor | None, rules: WordRules | None, shares: bool
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Whether each node is right (one caller or padding, an allowed word); and its word, if any."""
    is_called = links.is_called
    is_right = is_called | ~(links.has_children | links.is_skipped)
    if not shares:
        is_right &= links.num_callers <= 1
    if words is None or rules is None:
        return is_right, None
    is_ragged = isinstance(words, tf.RaggedTensor)
    words = words.values if is_ragged else tf.reshape(words, [-1])
    return is_right & rules.allow(words, links), words


def _raise_unless(
    are_right: tf.Tensor,
    spec: tf.TypeSpec,
    children: Any,
    links: Links,
    words: tf.Tensor | None,
    rules: WordRules | None,
    arity: int | None = None,
    shares: bool = False,
) -> tf.Tensor:
    """Runs the slow checks if something is wrong or unusual; see `tree_checks`."""
    of_links = links.tensors()
    of_links_spec = tuple(tf.TensorSpec([None] * one.shape.rank, one.dtype) for one in of_links)
    word_dtype = None if words is None else words.dtype
    rules = rules if words is not None else None
    check = tree_checks(spec, of_links_spec, word_dtype, rules, arity, shares)
    given = [children, of_links] if words is None else [children, of_links, words]
    return tf.cond(are_right, lambda: tf.constant(True), lambda: check(*given))
