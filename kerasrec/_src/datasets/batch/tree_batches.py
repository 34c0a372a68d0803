"""From encoded trees to padded or ragged batches.

The trees lie one after another in a few arrays, and a batch is one gather from each. The order of
an epoch is a dataset of indices. None of this runs in Python once training starts, and the dataset
can be sharded, saved and distributed.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from kerasrec._src.autograph import not_converted
from kerasrec._src.datasets.batch.tree_store import TreeStore
from kerasrec._src.datasets.encode.checking import check_nth_tree
from kerasrec._src.datasets.encode.sentences import EncodedTree, TreeArrays
from kerasrec._src.datasets.validation import (
    as_stored,
    expect_several,
    is_no_int32,
    is_too_large,
    number_of_batches,
)
from kerasrec._src.shuffling import shuffled_when_read

# Wide enough that a chunk of SST sorted by size leaves little padding, and narrow enough that the
# trees of a batch differ from one epoch to the next.
BATCHES_PER_CHUNK = 32


@overload
def tree_batches(
    encoded_trees: Sequence[TreeArrays],
    batch_size: int,
    shuffle: bool = ...,
    seed: int | None = ...,
    bucket_by_size: bool = ...,
    drop_remainder: bool = ...,
    arity: int | None = ...,
    return_order: Literal[False] = ...,
    ragged: bool = ...,
    shared_nodes: bool = ...,
) -> tf.data.Dataset: ...


@overload
def tree_batches(
    encoded_trees: Sequence[TreeArrays],
    batch_size: int,
    shuffle: bool = ...,
    seed: int | None = ...,
    bucket_by_size: bool = ...,
    drop_remainder: bool = ...,
    arity: int | None = ...,
    *,
    return_order: Literal[True],
    ragged: bool = ...,
    shared_nodes: bool = ...,
) -> tuple[tf.data.Dataset, TreeOrder]: ...


@overload
def tree_batches(
    encoded_trees: Sequence[TreeArrays],
    batch_size: int,
    shuffle: bool = ...,
    seed: int | None = ...,
    bucket_by_size: bool = ...,
    drop_remainder: bool = ...,
    arity: int | None = ...,
    return_order: bool = ...,
    ragged: bool = ...,
    shared_nodes: bool = ...,
) -> tf.data.Dataset | tuple[tf.data.Dataset, TreeOrder]: ...


def tree_batches(
    encoded_trees: Sequence[TreeArrays],
    batch_size: int,
    shuffle: bool = False,
    seed: int | None = None,
    bucket_by_size: bool = False,
    drop_remainder: bool = False,
    arity: int | None = None,
    return_order: bool = False,
    ragged: bool = False,
    shared_nodes: bool = False,
) -> tf.data.Dataset | tuple[tf.data.Dataset, TreeOrder]:
    """Batches trees, padded to the largest of their batch, or ragged.

    Trees keep their order, unless `shuffle` or `bucket_by_size` is given. Every tree comes exactly
    once in an epoch. The dataset knows its number of batches.

    For pairs of trees, see `tree_pair_batches`. Two datasets with the same number of trees, made
    with the same arguments, may also be zipped: the trees of a pair stay together. With `shuffle`
    this holds if both have the same `seed` and are only ever read together, since each pass over a
    dataset shuffles it again. It does not hold with `bucket_by_size`, since each dataset is sorted
    by its own sizes.

    Args:
        encoded_trees: Trees from `encode_objects`, `encode_tree` and `encode_dependencies`; or
            other tuples `(tokens, children, labels)`. See `check_tree`.
        batch_size: The number of trees in a batch.
        shuffle: Whether trees come in a different order each epoch.
        seed: The seed of the shuffling, which makes it the same in each run (together with
            TensorFlow's global seed, if that is set).
        bucket_by_size: Whether trees of similar size come together, which saves padding. Without
            `shuffle` the trees then come in order of size.
        drop_remainder: Whether a last batch with fewer trees is left out.
        arity: The number of slots for the children of a tree node, so that several datasets get the
            same shape; by default the largest number of children in a tree.
        return_order: Whether to return a `TreeOrder` as well, which puts predictions back into the
            order of `encoded_trees`.
        ragged: Whether batches are ragged. They then take memory only for their tree nodes and
            children, however much their numbers differ from tree to tree.
        shared_nodes: Whether tree nodes may have several parents. Give the layer the same option.

    Returns:
        A `tf.data.Dataset` of `((tokens, children), labels)`: int32 `[batch, nodes]`, padded with
        0; int32 `[batch, nodes, arity]`, padded with -1; int32 `[batch, nodes]`, padded with -1.
        Ids are int32 `[batch, nodes, ids]`, features are float32 `[batch, nodes, features]`, and
        trees with both become `((ids, features, children), labels)`, as do trees with more columns,
        such as `((words, upos, children), labels)`. If edges have features, from `edge_features_of`
        of `encode_objects`, these follow the children, `((tokens, children, edges), labels)`:
        float32 `[batch, nodes, arity, features]`, padded with 0. Labels that are floats are
        float32, padded with NaN; train on them with `kerasrec.training.TreeSquaredError`, since
        losses of Keras and all weights would become NaN. Labels of trees are `[batch]`. With
        `ragged`, nodes and children are ragged dimensions: `tf.RaggedTensor` `[batch, (nodes)]`,
        `[batch, (nodes), (children)]` and `[batch, (nodes)]`. With `return_order`, a pair: the
        dataset and a `TreeOrder`.

    Raises:
        ValueError: If there are no trees, a tree is malformed (see `check_tree`), of another kind
            than the first, or has more slots for children than `arity`, or no batch would come out;
            or if `return_order` is given together with `shuffle` or `drop_remainder`.

    Example:

    >>> batches, order = tree_batches(trees, 64, bucket_by_size=True, return_order=True)
    >>> logits = order.restore(model.predict(batches))  # logits[i] belongs to trees[i]
    """
    if return_order and (shuffle or drop_remainder):
        reason = (
            "shuffle=True draws another order in each epoch"
            if shuffle
            else "drop_remainder=True leaves out trees, which would have no predictions"
        )
        raise ValueError(
            f"return_order=True, but {reason}. Make the batches to predict on without it: they "
            "keep the order by default, and bucket_by_size=True saves padding."
        )
    check_trees(encoded_trees, arity, shared_nodes)
    store = TreeStore(encoded_trees, arity, ragged)
    batches, order = _batches(
        store.sizes, store.batch, batch_size, shuffle, seed, bucket_by_size, drop_remainder
    )
    return (batches, TreeOrder(order, store.sizes)) if return_order else batches


def tree_pair_batches(
    left: Sequence[TreeArrays],
    right: Sequence[TreeArrays],
    labels: ArrayLike,
    batch_size: int,
    shuffle: bool = False,
    seed: int | None = None,
    bucket_by_size: bool = False,
    drop_remainder: bool = False,
    arity: int | None = None,
    ragged: bool = False,
    shared_nodes: bool = False,
) -> tf.data.Dataset:
    """Batches pairs of trees, which stay together however they are shuffled and sorted.

    The other arguments are those of `tree_batches`; the size of a pair is that of both trees.

    Args:
        left: The first tree of each pair, as for `tree_batches`. The trees' own labels are not
            read.
        right: The second tree of each pair.
        labels: Numbers `[pairs, ...]`, one or several for each pair: a class, a score, or a
            distribution over scores.
        batch_size: The number of pairs in a batch.
        shuffle: Whether pairs come in a different order each epoch.
        seed: The seed of the shuffling, which makes it the same in each run.
        bucket_by_size: Whether pairs of similar size come together.
        drop_remainder: Whether a last batch with fewer pairs is left out.
        arity: The number of slots for the children of a tree node.
        ragged: Whether batches are ragged instead of padded.
        shared_nodes: Whether tree nodes may have several parents. Give the layer the same option.

    Returns:
        A `tf.data.Dataset` of `((tokens, children, tokens, children), labels)`, the left tree
        before the right one.

    Raises:
        ValueError: As for `tree_batches`, or if the numbers of left trees, right trees and labels
            differ, or if a label is not a number, or does not fit into int32 or float32.

    Example:

    >>> trees = [(np.array([2]), np.array([[-1]]), 0), (np.array([3]), np.array([[-1]]), 0)]
    >>> pairs = kerasrec.datasets.tree_pair_batches(trees, trees[::-1], [4.5, 1.0], batch_size=2)
    >>> (left, _, right, _), scores = next(iter(pairs))
    >>> left.numpy().ravel(), right.numpy().ravel(), scores.numpy()
    (array([2, 3], dtype=int32), array([3, 2], dtype=int32), array([4.5, 1. ], dtype=float32))
    """
    given = np.asarray(labels)
    if not len(left) == len(right) == len(given):
        raise ValueError(
            f"left has {len(left)} trees, right {len(right)}, and labels {len(given)}; expected as "
            "many of each, one for each pair."
        )
    if given.dtype.kind not in "iuf":
        raise ValueError(
            f"labels holds values of the type {given.dtype}; expected numbers, one or several for "
            "each pair, such as 1 for True."
        )
    wrong = np.argwhere(is_too_large(given) | is_no_int32(given))
    if len(wrong):
        raise ValueError(
            f"labels[{wrong[0, 0]}] holds {given[tuple(wrong[0])]}; expected integers of int32, or "
            "finite float32 values."
        )
    for trees in (left, right):
        check_trees(trees, arity, shared_nodes)
    stores = [TreeStore(trees, arity, ragged) for trees in (left, right)]
    with tf.device("CPU:0"):
        all_labels = tf.constant(as_stored(given))

    def pair(pairs: tf.Tensor) -> tuple[tuple[Any, ...], tf.Tensor]:
        (first, _), (second, _) = (store.batch(pairs) for store in stores)
        return (*first, *second), tf.gather(all_labels, pairs)

    sizes = stores[0].sizes + stores[1].sizes
    batches, _ = _batches(sizes, pair, batch_size, shuffle, seed, bucket_by_size, drop_remainder)
    return batches


def check_trees(
    encoded_trees: Sequence[TreeArrays], arity: int | None, shared_nodes: bool = False
) -> None:
    """Checks that there are trees, that each is well formed, and that all are of one kind."""
    expect_several("encoded_trees", encoded_trees)
    if isinstance(encoded_trees, EncodedTree):
        raise ValueError("encoded_trees is one tree; expected a list of trees. Pass [tree].")
    if not hasattr(encoded_trees, "__getitem__") or isinstance(encoded_trees, Mapping):
        raise ValueError(
            f"encoded_trees is {reprlib.repr(encoded_trees)}; expected a list of trees. Make a "
            "list of the iterator: list(...)."
        )
    if not len(encoded_trees):
        raise ValueError("encoded_trees is empty; expected at least one tree.")
    former: Sequence[Any] | None = None
    for index, tree in enumerate(encoded_trees):
        hint = ". Pass arity={} or more, or None."
        former = check_nth_tree(index, tree, former, arity, hint, shared_nodes)


def _batches(
    sizes: np.ndarray,
    gather: Callable[[tf.Tensor], Any],
    batch_size: int,
    shuffle: bool,
    seed: int | None,
    bucket_by_size: bool,
    drop_remainder: bool,
) -> tuple[tf.data.Dataset, np.ndarray]:
    """A dataset of the results of `gather` for indices, and their order if it is not shuffled."""
    num_trees = len(sizes)
    num_batches = number_of_batches(num_trees, batch_size, drop_remainder)
    order = np.argsort(sizes, kind="stable") if bucket_by_size else np.arange(num_trees)
    trees = tf.data.Dataset.from_tensor_slices(order)
    if shuffle:
        trees = tf.data.Dataset.range(num_trees)
        trees = trees.shuffle(num_trees, seed, reshuffle_each_iteration=True)
        if bucket_by_size:
            trees = trees.batch(BATCHES_PER_CHUNK * batch_size).map(_sort_by(sizes)).unbatch()
    batches = trees.batch(batch_size, drop_remainder=drop_remainder)
    if shuffle and bucket_by_size:
        batches = batches.shuffle(num_batches, seed, reshuffle_each_iteration=True)
    if shuffle:
        batches = shuffled_when_read(batches)
    batches = batches.map(not_converted(gather), num_parallel_calls=tf.data.AUTOTUNE)
    batches = batches.apply(tf.data.experimental.assert_cardinality(num_batches))
    return batches.prefetch(tf.data.AUTOTUNE), order


def _sort_by(sizes: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    with tf.device("CPU:0"):
        all_sizes = tf.constant(sizes)

    @not_converted
    def sort(trees: tf.Tensor) -> tf.Tensor:
        return tf.gather(trees, tf.argsort(tf.gather(all_sizes, trees), stable=True))

    return sort


class TreeOrder:
    """Tells which tree each row of predictions belongs to if batches reorder the trees.

    `tree_batches` and `Treebank.batches` return it with `return_order=True`.

    Args:
        trees: The tree of each row, int64 `[rows]`; each tree occurs once.
        sizes: The number of nodes of each tree, int64 `[trees]`, for `restore(as_list=True)`.

    Attributes:
        trees: The argument `trees`: row `i` of the predictions belongs to tree `trees[i]`.
        sizes: The argument `sizes`.

    Example:

    >>> batches, order = treebank.batches("dev", 64, bucket_by_size=True, return_order=True)
    >>> logits = order.restore(model.predict(batches))  # logits[i] belongs to treebank.dev[i]
    """

    def __init__(self, trees: np.ndarray, sizes: np.ndarray | None = None) -> None:
        self.trees = trees
        self.sizes = sizes
        self._rows = np.argsort(trees)

    def __repr__(self) -> str:
        return f"<TreeOrder of {len(self.trees):,} trees>"

    def restore(self, predictions: Any, as_list: bool = False) -> Any:
        """Puts rows into the order of the trees.

        Args:
            predictions: The result of `predict` for the batches: an array or tensor `[trees, ...]`;
                a `tf.RaggedTensor`, which Keras makes if batches differ in their numbers of tree
                nodes; or a nest of these, if the model has several outputs.
            as_list: Whether to return a list with a NumPy array for each tree, without padding.
                Each output must then be one of tree nodes, `[trees, nodes, ...]`: a second axis of
                an array may be one of nodes or one of classes, and only you know. Further axes are
                as long as they were in the tree's batch.

        Returns:
            The same predictions, where row `i` belongs to tree `i`. A row has as many tree nodes as
            the tree's batch had: padding follows the nodes of the tree. With `as_list` a list of
            arrays `[nodes, ...]` instead of each output.

        Raises:
            ValueError: If there is not one row for each tree; or with `as_list`, if a row has fewer
                rows than its tree has nodes.
        """
        if as_list:
            return keras.tree.map_structure(self._as_list, predictions)
        return keras.tree.map_structure(self._restored, predictions)

    def _restored(self, rows: Any) -> Any:
        is_ragged = isinstance(rows, tf.RaggedTensor)
        rows = rows if is_ragged else np.asarray(rows)
        if not len(rows.shape) or rows.shape[0] != len(self.trees):
            raise ValueError(
                f"Predictions are of shape {tuple(rows.shape)}; expected one row for each of the "
                f"{len(self.trees)} trees. Pass all that predict returns for the batches."
            )
        return tf.gather(rows, self._rows) if is_ragged else rows[self._rows]

    def _as_list(self, rows: Any) -> list[np.ndarray]:
        """An array of the nodes of each tree, from their predictions."""
        if self.sizes is None:
            raise ValueError(
                "as_list=True needs the sizes of the trees: make the TreeOrder with `sizes`, as "
                "tree_batches does."
            )
        rows = self._restored(rows)
        splits = None
        if isinstance(rows, tf.RaggedTensor):
            splits = rows.row_splits.numpy()
            rows = rows.values if rows.ragged_rank > 1 else rows.values.numpy()
        found = []
        for tree, size in enumerate(self.sizes):
            row = rows[tree] if splits is None else rows[splits[tree] : splits[tree + 1]]
            if isinstance(row, tf.RaggedTensor):  # Another axis also differs between batches.
                row = row.to_tensor().numpy()
            if not row.ndim or len(row) < size:
                raise ValueError(
                    f"The prediction for tree {tree} is of shape {row.shape}, and the tree has "
                    f"{size} nodes. as_list=True is for outputs of tree nodes, [trees, nodes, ..]: "
                    "leave it out for an output of whole trees."
                )
            found.append(row[:size])
        return found
