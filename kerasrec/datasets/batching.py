"""Encoded trees to padded batches.

The trees lie one after another in three arrays, and a batch is one gather from each: padding is the
row after the last tree. The order of an epoch is a dataset of indices, so none of this runs in
Python once training starts, and the dataset can be sharded, saved and distributed.
"""

from collections.abc import Callable, Sequence
from typing import Literal, overload

import numpy as np
import tensorflow as tf

from kerasrec.datasets.checking import check_nth_tree
from kerasrec.datasets.encoding import TreeArrays
from kerasrec.datasets.tree_order import TreeOrder

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
) -> tf.data.Dataset | tuple[tf.data.Dataset, TreeOrder]:
    """Batches trees, padded to the largest of their batch.

    Trees keep their order, unless `shuffle` or `bucket_by_size` is given. Every tree comes exactly
    once an epoch. The dataset knows its number of batches.

    Two datasets with the same number of trees, made with the same arguments, may be zipped: the
    trees of a pair stay together. With `shuffle` this holds if both have the same `seed` and are
    only ever read together, since each pass over a dataset shuffles it again. It does not hold with
    `bucket_by_size`, since each dataset is sorted by its own sizes.

    Args:
        encoded_trees: Trees as `encode_tree` and `encode_dependencies` give them; or other tuples
            `(tokens, children, labels)`.
        batch_size: Trees per batch.
        shuffle: Whether trees come in a different order each epoch.
        seed: Makes the shuffling the same in each run (together with TensorFlow's global seed,
            where that is set).
        bucket_by_size: Whether trees of similar size come together, which saves padding. Without
            `shuffle` the trees then come in order of size.
        drop_remainder: Whether a last batch with fewer trees is left out.
        arity: Slots for children of each tree node, so that several datasets get the same shape;
            by default the largest number that a tree has.
        return_order: Whether to return a `TreeOrder` as well, which puts predictions back into
            the order of `encoded_trees`.

    Returns:
        A `tf.data.Dataset` of `((tokens, children), labels)`: int32 `[batch, nodes]`, padded with
        0; int32 `[batch, nodes, arity]`, padded with -1; int32 `[batch, nodes]`, padded with -1.
        With `return_order`, a pair: the dataset and a `TreeOrder`.

    Raises:
        ValueError: If there are no trees, one is malformed (see `check_tree`) or has more slots for
            children than `arity`, or no batch would come out; or if `return_order` is given
            together with `shuffle` or `drop_remainder`.

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
    if not len(encoded_trees):
        raise ValueError("encoded_trees is empty; expected at least one tree.")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; expected 1 or more.")
    num_trees = len(encoded_trees)
    num_batches = num_trees // batch_size if drop_remainder else -(-num_trees // batch_size)
    if not num_batches:
        raise ValueError(
            f"drop_remainder=True leaves no batch of {num_trees} trees with "
            f"batch_size={batch_size}. Pass a smaller batch_size or drop_remainder=False."
        )
    _check_trees(encoded_trees, arity)
    sizes = np.array([len(tree[0]) for tree in encoded_trees], np.int64)

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
    batches = batches.map(_pad(encoded_trees, sizes, arity), num_parallel_calls=tf.data.AUTOTUNE)
    batches = batches.apply(tf.data.experimental.assert_cardinality(num_batches)).prefetch(
        tf.data.AUTOTUNE
    )
    return (batches, TreeOrder(order)) if return_order else batches


def _check_trees(encoded_trees: Sequence[TreeArrays], arity: int | None) -> None:
    for index, tree in enumerate(encoded_trees):
        check_nth_tree(index, tree, arity, ". Pass arity={} or more, or None.")


def _sort_by(sizes: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    with tf.device("CPU:0"):
        all_sizes = tf.constant(sizes)

    def sort(trees: tf.Tensor) -> tf.Tensor:
        return tf.gather(trees, tf.argsort(tf.gather(all_sizes, trees), stable=True))

    return sort


def _joined(arrays: Sequence[np.ndarray], padding: int) -> np.ndarray:
    """Joins checked arrays, with the padding as the last entry: int32."""
    return np.concatenate([np.asarray(of, np.int32) for of in (*arrays, [padding])])


def _pad(
    encoded_trees: Sequence[TreeArrays], sizes: np.ndarray, arity: int | None
) -> Callable[[tf.Tensor], tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]]:
    tokens, children, labels = zip(*encoded_trees, strict=True)
    arity = max(np.shape(rows)[1] for rows in children) if arity is None else arity
    # The row after the last tree is the padding.
    flat_children = np.full((sizes.sum() + 1, arity), -1, np.int32)
    for start, rows in zip(np.cumsum(sizes) - sizes, children, strict=True):
        flat_children[start : start + len(rows), : np.shape(rows)[1]] = rows
    with tf.device("CPU:0"):
        all_tokens = tf.constant(_joined(tokens, 0))
        all_children = tf.constant(flat_children)
        all_labels = tf.constant(_joined(labels, -1))
        all_sizes = tf.constant(sizes)
        starts = tf.constant(np.cumsum(sizes) - sizes)
        padding_row = tf.constant(np.sum(sizes))

    def pad(trees: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
        batch_sizes = tf.gather(all_sizes, trees)[:, None]
        nodes = tf.range(tf.reduce_max(batch_sizes))[None, :]
        rows = tf.where(nodes < batch_sizes, tf.gather(starts, trees)[:, None] + nodes, padding_row)
        return (
            (tf.gather(all_tokens, rows), tf.gather(all_children, rows)),
            tf.gather(all_labels, rows),
        )

    return pad
