"""Batches of trees as flat tables of tree nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.layers.tree_checks import WordRules, tree_checks
from kerasrec._src.links import Links, in_cycles, links_of
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
        edges: The features of the edges to children, `[size, arity, features]`; as many rows as
          children, `[entries, features]`, if `children` is ragged. None if there are none.
    """

    children: Any
    kinds: tf.Tensor
    roots: tf.Tensor
    is_node: tf.Tensor
    are_right: tf.Tensor
    edges: tf.Tensor | None = None

    def bounds_in_xla(self, calls_missing: bool) -> dict[str, tf.Tensor]:
        """Returns the options of `kerasrec.recursive` that matter inside XLA; none outside.

        Args:
            calls_missing: Whether missing children are also called.
        """
        if not in_xla():
            return {}
        nodes, arity = tf.shape(self.is_node)[1], tf.shape(self.children)[1]
        calls = 1 + arity * nodes if calls_missing else nodes
        # A node is an entry of one row.
        return {"max_xla_calls": calls, "max_xla_row_length": arity, "max_xla_entries": nodes}

    def rows(self) -> tf.RaggedTensor:
        """`children` without missing children, int32 `[size + 1, (children)]`."""
        if isinstance(self.children, tf.RaggedTensor):
            return self.children
        lengths = tf.math.count_nonzero(self._is_child(), 1, dtype=tf.int32)
        present = self._of_present(self.children)
        return tf.RaggedTensor.from_row_lengths(present, lengths, "rows_of_children", False)

    def edges_of_rows(self) -> Any:
        """`edges` of the entries of `rows()`, `[entries, features]`; None if there are none."""
        if self.edges is None or isinstance(self.children, tf.RaggedTensor):
            return self.edges
        return self._of_present(self.edges)

    def _is_child(self) -> tf.Tensor:
        return self.children < tf.shape(self.children)[0] - 1

    def _of_present(self, values: tf.Tensor) -> tf.Tensor:
        """The values of children that there are, from those of all, `[.., arity, ...]`."""
        is_child = self._is_child()[: tf.shape(values)[0]]
        if not in_xla():
            return tf.boolean_mask(values, is_child, name="present_children")
        # XLA must know their number. Values after the last row are not read.
        values = tf.reshape(values, [-1, *values.shape[2:]])
        is_child = tf.reshape(is_child, [-1])
        size = tf.size(is_child)
        places = tf.where(is_child, tf.cumsum(tf.cast(is_child, tf.int32)) - 1, size)
        return tf.scatter_nd(places[:, tf.newaxis], values, [size + 1, *values.shape[1:]])[:-1]


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


def node_tables(
    children: Any,
    words: Any = None,
    rules: WordRules | None = None,
    arity: int | None = None,
    shares: bool = False,
    edges: Any = None,
) -> NodeTables:
    """Returns tables for trees, which are checked while the graph runs.

    Args:
        children: The children, int32 or int64 `[batch, nodes, arity]`, or ragged
            `[batch, (nodes), (children)]`, -1 for none. Tables of ragged children are as large as
            all nodes and children.
        words: The words, int or string `[batch, nodes]`, ragged if children are, if they are also
            checked; or whether each node has features, bool. Padding has none.
        rules: The words that are allowed.
        arity: The largest number of children of a tree node, for ragged children; None for any.
        shares: Whether a node may have several parents.
        edges: The features of the edges to children, `[batch, nodes, arity, features]`, ragged if
            children are, with the same rows; None if there are none.

    Raises:
        tf.errors.InvalidArgumentError: If a child index is out of range, a node has two parents,
          node 0 is not the root, nodes form a cycle, a tree has no nodes, or a row more than
          `arity` children; or if a word breaks the rules.
    """
    is_ragged = isinstance(children, tf.RaggedTensor)
    links = links_of(children)
    is_called, size = links.is_called, tf.size(links.roots)
    # One caller or padding, and an allowed word. Rows have no padding.
    is_right_node = is_called
    if not is_ragged:
        is_right_node |= ~(links.has_children | links.is_skipped)
    if not shares:
        is_right_node &= links.num_callers <= 1
    if words is not None and rules is not None:
        words = words.values if is_ragged else tf.reshape(words, [-1])
        is_right_node &= rules.allow(words, links)
    num_nodes = children.row_lengths() if is_ragged else links.nodes
    are_right = tf.reduce_all(num_nodes > 0) & tf.reduce_all(is_right_node)
    indices = children.flat_values if is_ragged else children
    are_right &= tf.reduce_all(links.is_child | (indices == -1))
    if is_ragged and arity is not None:
        are_right &= tf.reduce_all(children.values.row_lengths() <= arity)
    # Nearly all trees are right and have parents before children, so that there are no cycles.
    is_in_order = tf.reduce_all(tf.reshape(links.numbers, [-1]) > links.parents)
    checks = []
    if in_xla():
        are_right &= tf.cond(
            is_in_order, lambda: tf.constant(True), lambda: ~tf.reduce_any(in_cycles(links))
        )
    else:
        spec: Any = tf.TensorSpec([None, None, None], children.dtype)
        if is_ragged:
            spec = tf.RaggedTensorSpec([None, None, None], children.dtype, 2, tf.int64)
        word_dtype = None if words is None else words.dtype
        slow_checks = tree_checks(spec, word_dtype, rules, arity if is_ragged else None, shares)
        given = [children] if words is None else [children, words]
        is_usual = are_right & is_in_order
        checks = [tf.cond(is_usual, lambda: tf.constant(True), lambda: slow_checks(*given))]

    # All tables wait for the checks, so that no op that reads them fails first, less clearly.
    with tf.control_dependencies(checks):
        kinds = tf.concat([tf.where(links.has_children, INNER, LEAF), [MISSING]], 0, "kinds")
        if is_ragged:
            roots = tf.cast(children.row_starts(), tf.int32)
            rows = _rows_of_children(children, links, arity)
            edges = None if edges is None else _rows_of_edges(edges, links, arity)
            return NodeTables(rows, kinds, roots, is_called, are_right, edges)
        batch, nodes, num_slots = tf.unstack(tf.shape(children))
        numbers = tf.concat([links.numbers, tf.fill([1, num_slots], size)], 0, "children")
        is_node = tf.reshape(is_called, [batch, nodes])
        if edges is not None:
            edges = tf.reshape(edges, [size, num_slots, edges.shape[-1]])
        return NodeTables(numbers, kinds, tf.range(batch) * nodes, is_node, are_right, edges)


def _rows_of_children(children: tf.RaggedTensor, links: Links, arity: int | None) -> Any:
    """The numbers of ragged children: `children` of `NodeTables`."""
    rows = children.values
    size = tf.cast(rows.nrows(), tf.int32)
    if arity is not None:
        numbers = rows.with_values(links.numbers).to_tensor(size, shape=[None, arity])
        return tf.concat([numbers, tf.fill([1, arity], size)], 0, "children")
    present = tf.boolean_mask(links.numbers, links.is_child, name="present_children")
    parents = tf.boolean_mask(links.parents, links.is_child)
    lengths = tf.math.bincount(parents, minlength=size + 1)
    return tf.RaggedTensor.from_row_lengths(present, lengths, "children", False)


def _rows_of_edges(edges: tf.RaggedTensor, links: Links, arity: int | None) -> tf.Tensor:
    """The features of the edges to ragged children: `edges` of `NodeTables`."""
    if arity is not None:
        return edges.values.to_tensor(shape=[None, arity, edges.shape[-1]])
    return tf.boolean_mask(edges.flat_values, links.is_child)
