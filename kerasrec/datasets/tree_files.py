"""Encoded trees in files, which are written once; each worker of a cluster reads its own files.

A group has as many trees as there are files. Each file has one tree of every group, at the same
place. By default a group is trees that follow one another, so that their order is kept. With
`bucket_by_size` a group is trees of similar size: processes that read different files in an order
drawn with the same seed then have trees of about the same size at each step, without communicating.
"""

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import tensorflow as tf

from kerasrec.datasets.checking import check_nth_tree
from kerasrec.datasets.encoding import EncodedTree, TreeArrays
from kerasrec.datasets.tree_index import TreeIndex, file_of, write_index

# Trees that are sorted together: enough that the trees of a group hardly differ in size, and few
# enough for any memory.
TREES_IN_MEMORY = 100_000


def write_tree_files(
    encoded_trees: Iterable[TreeArrays],
    directory: str | PathLike[str],
    num_files: int = 8,
    arity: int | None = None,
    seed: int = 0,
    bucket_by_size: bool = False,
) -> None:
    """Writes trees to a directory of TFRecord files, for `tree_file_batches`.

    The directory appears only when all of it is written.

    Args:
        encoded_trees: Trees as `encode_tree` and `encode_dependencies` give them, or an iterator
            that reads them one by one.
        directory: The directory to make; it must not exist.
        num_files: The number of files. As many processes, or a number that divides it, can share
            the trees. Batch sizes must be a multiple of it.
        arity: Slots for children of each tree node. By default as many as the first tree has.
        seed: For the random order in which trees are written with `bucket_by_size`.
        bucket_by_size: Whether trees of similar size are put at the same place of all files, so
            that processes that share a batch have about the same number of tree nodes each. Trees
            are then written in random order; by default they keep their order.

    Raises:
        FileExistsError: If the directory exists.
        ValueError: If there are no trees, one is malformed (see `check_tree`) or has more slots for
            children than `arity`, or `num_files` is less than 1.
    """
    directory = Path(directory)
    if directory.exists():
        raise FileExistsError(
            f"'{directory}' exists. Files of trees are written once: remove it first, or choose "
            "another directory."
        )
    if num_files < 1:
        raise ValueError(f"num_files is {num_files}; expected 1 or more.")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=directory.name, dir=directory.parent) as place:
        unfinished = Path(place) / "unfinished"
        unfinished.mkdir()
        trees = _checked(encoded_trees, arity)
        random = np.random.default_rng(seed) if bucket_by_size else None
        _write(trees, unfinished, num_files, random)
        unfinished.rename(directory)


def _write(
    trees: Iterator[EncodedTree],
    directory: Path,
    num_files: int,
    random: np.random.Generator | None,
) -> None:
    num_trees = num_groups = arity = largest = 0
    files = [file_of(directory, number, num_files) for number in range(num_files)]
    writers = [tf.io.TFRecordWriter(str(file)) for file in files]
    for chunk in _chunks(trees, num_files):
        for group in _groups(chunk, num_files, random):
            size = max(len(tree.tokens) for tree in group)
            # The last group may lack trees; records of none keep all files equally long.
            records = [_record(tree, size) for tree in group]
            records += [_record(None, size)] * (num_files - len(group))
            places = random.permutation(num_files) if random else range(num_files)
            for writer, place in zip(writers, places, strict=True):
                writer.write(records[place])
            num_groups += 1
            largest = max(largest, size)
        num_trees += len(chunk)
        arity = chunk[0].children.shape[1]
    for writer in writers:
        writer.close()
    if not num_trees:
        raise ValueError("encoded_trees is empty; expected at least one tree.")
    sizes = [file.stat().st_size for file in files]
    write_index(directory, TreeIndex(num_trees, num_groups, arity, largest, sizes))


def _checked(encoded_trees: Iterable[TreeArrays], arity: int | None) -> Iterator[EncodedTree]:
    """The trees, each with slots for `arity` children, or as many as the first has."""
    for index, tree in enumerate(encoded_trees):
        hint = ", by default that of the first tree. Pass arity={} or more."
        check_nth_tree(index, tree, arity, hint)
        tokens, children, labels = map(np.asarray, tree)
        arity = children.shape[1] if arity is None else arity
        num_empty = arity - children.shape[1]
        children = np.pad(children, [(0, 0), (0, num_empty)], constant_values=-1)
        yield EncodedTree(tokens, children, labels)


def _chunks(trees: Iterator[EncodedTree], group_size: int) -> Iterator[list[EncodedTree]]:
    """Lists of trees that are sorted together: whole groups, except for the last list."""
    size = group_size * max(1, TREES_IN_MEMORY // group_size)
    while chunk := list(itertools.islice(trees, size)):
        yield chunk


def _groups(
    trees: Sequence[EncodedTree], size: int, random: np.random.Generator | None
) -> list[Sequence[EncodedTree]]:
    """Groups of trees in their order, or of similar size in random order; a smaller one is last."""
    if random is None:
        return [trees[start : start + size] for start in range(0, len(trees), size)]
    shuffled = [trees[place] for place in random.permutation(len(trees))]
    shuffled.sort(key=lambda tree: -len(tree.tokens))
    groups: list[Sequence[EncodedTree]]
    groups = [shuffled[start : start + size] for start in range(0, len(shuffled), size)]
    num_whole = len(trees) // size
    return [groups[place] for place in random.permutation(num_whole)] + groups[num_whole:]


def _record(tree: EncodedTree | None, group_size: int) -> bytes:
    """A tree as `tf.train.Example`; for None, one without tree nodes."""
    arrays = {} if tree is None else tree._asdict()
    lists = {
        name: tf.train.Int64List(value=np.ravel(values))
        for name, values in {"group_size": group_size, **arrays}.items()
    }
    features = {name: tf.train.Feature(int64_list=values) for name, values in lists.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
