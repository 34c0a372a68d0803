"""Trees one after another in flat arrays, from which a batch is gathered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datasets.encode.checking import as_floats, inputs_of
from kerasrec._src.datasets.encode.sentences import EncodedTree, TreeArrays
from kerasrec._src.datasets.trees.child_rows import ChildRows, num_edge_features_of
from kerasrec._src.datasets.validation import as_stored, has_floats


class TreeStore:
    """Encoded trees, which have been checked, as a few tensors.

    Args:
        encoded_trees: One or more trees, with arrays of the same kinds.
        arity: The number of slots for the children of a tree node in padded batches; None for as
            many as needed.
        ragged: Whether batches are ragged instead of padded.

    Attributes:
        sizes: The number of nodes of each tree, int64 `[trees]`.
    """

    def __init__(
        self, encoded_trees: Sequence[TreeArrays], arity: int | None, ragged: bool
    ) -> None:
        if ragged:
            encoded_trees = [without_padding(tree) for tree in encoded_trees]
        tokens, children, labels = zip(*encoded_trees, strict=True)
        inputs = list(zip(*map(inputs_of, tokens), strict=True))
        rows = [ChildRows.from_children(below) for below in children]
        self._labels_trees = np.ndim(labels[0]) == 0
        self.sizes = np.array([len(tree) for tree in rows], np.int64)
        self._is_ragged = ragged
        if any(map(has_floats, labels)):
            labels = tuple(map(as_floats, labels))
        num_edge_features = num_edge_features_of(rows)
        with tf.device("CPU:0"):
            self._inputs = [tf.constant(_joined(column)) for column in inputs]
            self._labels = tf.constant(
                as_stored(np.array(labels)) if self._labels_trees else _joined(labels, -1)
            )
            self._sizes = tf.constant(self.sizes)
            self._starts = tf.constant(np.cumsum(self.sizes) - self.sizes)
            self._padding_row = tf.constant(self.sizes.sum())
            if ragged:
                self._inputs += _ragged(rows, num_edge_features)
            else:
                arity = max(tree.arity for tree in rows) if arity is None else arity
                self._inputs.append(tf.constant(_table(rows, arity)))
                if num_edge_features is not None:
                    edges = [tree.edge_table(arity, num_edge_features) for tree in rows]
                    self._inputs.append(tf.constant(_joined(edges)))

    def batch(self, trees: tf.Tensor) -> tuple[tuple[Any, ...], Any]:
        """Gathers trees.

        Args:
            trees: The numbers of the trees, int64 `[batch]`.

        Returns:
            The inputs (one tensor or more), the children and the features of edges, if any; and the
            labels.
        """
        rows = self._ragged_rows(trees) if self._is_ragged else self._padded_rows(trees)

        def gathered(column: Any) -> Any:
            if not self._is_ragged:
                return tf.gather(column, rows)
            return rows.with_values(tf.gather(column, rows.values))

        inputs = tuple(map(gathered, self._inputs))
        if self._labels_trees:
            return inputs, tf.gather(self._labels, trees)
        return inputs, gathered(self._labels)

    def _padded_rows(self, trees: tf.Tensor) -> tf.Tensor:
        """The rows of the trees' nodes, int64 `[batch, nodes]`; padding is the last row."""
        sizes = tf.gather(self._sizes, trees)[:, None]
        nodes = tf.range(tf.reduce_max(sizes))[None, :]
        starts = tf.gather(self._starts, trees)[:, None]
        return tf.where(nodes < sizes, starts + nodes, self._padding_row)

    def _ragged_rows(self, trees: tf.Tensor) -> tf.RaggedTensor:
        """The same without padding, `[batch, (nodes)]`."""
        starts = tf.gather(self._starts, trees)
        return tf.ragged.range(starts, starts + tf.gather(self._sizes, trees))


def without_padding(tree: TreeArrays) -> EncodedTree:
    """A tree, which has been checked, without padding, since each node in ragged rows is read.

    Args:
        tree: The tree, with padding last.

    Returns:
        The tree; its tokens are a tuple of arrays, and its children `ChildRows`.
    """
    rows, labels = ChildRows.from_children(tree[1]), np.asarray(tree[2])
    size = 1 + max(0, rows.values.max(initial=0))
    splits = rows.splits[: size + 1]
    edges = None if rows.edges is None else rows.edges[: splits[-1]]
    return EncodedTree(
        tuple(column[:size] for column in inputs_of(tree[0])),
        ChildRows(rows.values[: splits[-1]], splits, edges),
        labels[:size] if labels.ndim else labels,
    )


def _joined(arrays: Sequence[Any], padding: int = 0) -> np.ndarray:
    """Joins arrays `[nodes, ...]`, with a row of padding at the end; NaN for labels of floats."""
    array = as_stored(np.concatenate(list(map(np.asarray, arrays))))
    fill = np.nan if padding and array.dtype == np.float32 else padding
    return np.concatenate([array, np.full((1, *array.shape[1:]), fill, array.dtype)])


def _ragged(rows: Sequence[ChildRows], num_edge_features: int | None) -> list[tf.RaggedTensor]:
    values = np.concatenate([tree.values for tree in rows]).astype(np.int32)
    lengths = np.concatenate([tree.lengths for tree in rows])
    children = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
    if num_edge_features is None:
        return [children]
    edges = np.concatenate([tree.edges_or_zeros(num_edge_features) for tree in rows])
    return [children, children.with_values(tf.constant(edges))]


def _table(rows: Sequence[ChildRows], arity: int) -> np.ndarray:
    table = np.full((sum(map(len, rows)) + 1, arity), -1, np.int32)
    start = 0
    for tree in rows:
        table[start : start + len(tree)] = tree.to_table(arity)
        start += len(tree)
    return table
