"""Encoded trees in files, which are written once; each worker of a cluster reads its own files.

A group has as many trees as there are files. Each file has one tree of every group, at the same
place. By default a group consists of trees that follow one another, so that their order is kept.
With `bucket_by_size` it consists of trees of similar size: processes that read different files in
an order drawn with the same seed then have trees of about the same size at each step, without
communicating.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datasets.batch.tree_store import without_padding
from kerasrec._src.datasets.encode.checking import as_floats, check_alike, check_nth_tree, inputs_of
from kerasrec._src.datasets.encode.child_rows import ChildRows
from kerasrec._src.datasets.encode.sentences import EncodedTree, TreeArrays
from kerasrec._src.datasets.files.new_directory import new_directory
from kerasrec._src.datasets.files.pairs import joined
from kerasrec._src.datasets.files.record_files import file_of, record_of
from kerasrec._src.datasets.files.tree_index import TreeIndex, write_index

# Trees that are sorted together: enough that the trees of a group hardly differ in size, and few
# enough for any memory.
TREES_IN_MEMORY = 100_000


def write_tree_files(
    encoded_trees: Iterable[TreeArrays] | Iterable[tuple[TreeArrays, TreeArrays, Any]],
    directory: str | PathLike[str],
    num_files: int = 8,
    arity: int | None = None,
    seed: int = 0,
    bucket_by_size: bool = False,
    pairs: bool = False,
) -> None:
    """Writes trees, or pairs of trees, to a directory of TFRecord files, for `tree_file_batches`.

    The directory appears only when all of it is written.

    Args:
        encoded_trees: Trees from `encode`, `encode_tree` and `encode_dependencies`, or an iterator
            that reads them one by one. With `pairs`, the same of `(left, right, label)`: two trees,
            whose own labels are not read, and one number.
        directory: The directory to make; it must not exist.
        num_files: The number of files. As many processes, or a number that divides it, can share
            the trees. Batch sizes must be a multiple of it.
        arity: The number of slots for the children of a tree node. By default as many as the first
            tree has; if its children are in rows, as from `encode`, trees are written in rows of
            any length.
        seed: The seed of the random order in which trees are written with `bucket_by_size`.
        bucket_by_size: Whether trees of similar size are put at the same place of all files, so
            that processes that share a batch have about the same number of tree nodes each. Trees
            are then written in random order; by default they keep their order.
        pairs: Whether pairs of trees are written. They stay pairs however they are read.

    Raises:
        FileExistsError: If the directory exists.
        ValueError: If there are no trees, a tree is malformed (see `check_tree`), of another kind
            than the first, or has more slots for children than `arity`, or if `num_files` is less
            than 1.
    """
    if num_files < 1:
        raise ValueError(f"num_files is {num_files}; expected 1 or more.")
    with new_directory(directory) as unfinished:
        trees: Iterable[Any] = encoded_trees
        if pairs:
            # The root of a pair has two children.
            trees, arity = joined(trees), arity and max(arity, 2)
        random = np.random.default_rng(seed) if bucket_by_size else None
        _write(_checked(trees, arity), unfinished, num_files, random, pairs)


def _write(
    trees: Iterator[EncodedTree],
    directory: Path,
    num_files: int,
    random: np.random.Generator | None,
    pairs: bool,
) -> None:
    num_trees = num_groups = largest = 0
    first: EncodedTree | None = None
    files = [file_of(directory, number, num_files) for number in range(num_files)]
    writers = [tf.io.TFRecordWriter(str(file)) for file in files]
    for chunk in _chunks(trees, num_files):
        chunk = _of_one_kind(chunk, first)
        for group in _groups(chunk, num_files, random):
            size = max(len(tree.children) for tree in group)
            # The last group may lack trees; empty records keep all files equally long.
            records = [_record(tree, size) for tree in group]
            records += [_record(None, size)] * (num_files - len(group))
            places = random.permutation(num_files) if random else range(num_files)
            for writer, place in zip(writers, places, strict=True):
                writer.write(records[place])
            num_groups += 1
            largest = max(largest, size)
        num_trees += len(chunk)
        first = chunk[0]
    for writer in writers:
        writer.close()
    if first is None:
        raise ValueError("encoded_trees is empty; expected at least one tree.")
    sizes = [file.stat().st_size for file in files]
    write_index(directory, _index(first, num_trees, num_groups, largest, sizes, pairs))


def _index(
    tree: EncodedTree,
    num_trees: int,
    num_groups: int,
    largest: int,
    sizes: list[int],
    pairs: bool,
) -> TreeIndex:
    """The index of files of trees of one kind, given one of the trees."""
    arity = -1 if isinstance(tree.children, ChildRows) else tree.children.shape[1]
    ids, features = _columns(tree)
    labels = "int" if np.issubdtype(tree.labels.dtype, np.integer) else "float"
    return TreeIndex(
        num_trees,
        num_groups,
        arity,
        largest,
        sizes,
        -1 if ids is None else 0 if ids.ndim == 1 else ids.shape[1],
        0 if features is None else features.shape[1],
        labels if tree.labels.ndim else f"{labels} of {'pairs' if pairs else 'trees'}",
    )


def _columns(tree: EncodedTree) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The ids and the features of a tree; None for those that it lacks."""
    columns = inputs_of(tree.tokens)
    features = next((of for of in columns if np.issubdtype(of.dtype, np.floating)), None)
    return next((of for of in columns if of is not features), None), features


def _checked(encoded_trees: Iterable[TreeArrays], arity: int | None) -> Iterator[EncodedTree]:
    """The trees, each with slots for `arity` children, or as many as the first has, or in rows."""
    former: Any = None
    for index, tree in enumerate(encoded_trees):
        hint = ", by default that of the first tree. Pass arity={} or more."
        check_nth_tree(index, tree, arity, hint)
        rows = ChildRows.of(tree[1])
        if former is None:
            former = tree
            if not isinstance(tree[1], ChildRows | tf.RaggedTensor) and arity is None:
                arity = rows.most
        former = check_alike(index, tree, former)
        whole = without_padding(tree)
        yield whole if arity is None else whole._replace(children=whole.children.table(arity))


def _chunks(trees: Iterator[EncodedTree], group_size: int) -> Iterator[list[EncodedTree]]:
    """Lists of trees that are sorted together: whole groups, except for the last list."""
    size = group_size * max(1, TREES_IN_MEMORY // group_size)
    while chunk := list(itertools.islice(trees, size)):
        yield chunk


def _of_one_kind(trees: list[EncodedTree], first: EncodedTree | None) -> list[EncodedTree]:
    """The trees with labels of one dtype; those without any label have either.

    Raises:
        ValueError: If trees that were written already have the other dtype.
    """
    known = [*trees, *([] if first is None else [first])]
    if not any(np.issubdtype(tree.labels.dtype, np.floating) for tree in known):
        return trees
    if first is not None and not np.issubdtype(first.labels.dtype, np.floating):
        raise ValueError(
            f"The first {TREES_IN_MEMORY:,} trees have no labels, and later ones have floats. "
            "Write a tree with labels first."
        )
    return [tree._replace(labels=as_floats(tree.labels)) for tree in trees]


def _groups(
    trees: Sequence[EncodedTree], size: int, random: np.random.Generator | None
) -> list[Sequence[EncodedTree]]:
    """Groups of trees in their order, or of similar size in random order; a smaller one is last."""
    if random is None:
        return [trees[start : start + size] for start in range(0, len(trees), size)]
    shuffled = [trees[place] for place in random.permutation(len(trees))]
    shuffled.sort(key=lambda tree: -len(tree.children))
    groups: list[Sequence[EncodedTree]]
    groups = [shuffled[start : start + size] for start in range(0, len(shuffled), size)]
    num_whole = len(trees) // size
    return [groups[place] for place in random.permutation(num_whole)] + groups[num_whole:]


def _record(tree: EncodedTree | None, group_size: int) -> bytes:
    """A tree as `tf.train.Example`; for None, one without tree nodes."""
    arrays: dict[str, Any] = {"group_size": group_size}
    if tree is not None:
        tokens, features = _columns(tree)
        rows = ChildRows.of(tree.children)
        arrays |= {"tokens": tokens, "features": features, "children": rows.values}
        arrays["labels"] = tree.labels
        if isinstance(tree.children, ChildRows):
            arrays["lengths"] = rows.lengths
    return record_of({name: array for name, array in arrays.items() if array is not None})
