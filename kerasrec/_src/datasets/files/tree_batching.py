"""From files of encoded trees to padded or ragged batches; each process reads its own part."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.datasets.batch.batching import BATCHES_PER_CHUNK
from kerasrec._src.datasets.files.pairs import halves
from kerasrec._src.datasets.files.record_parts import RecordParts
from kerasrec._src.datasets.files.tree_checks import Records, checked_trees, features_of
from kerasrec._src.datasets.files.tree_index import TreeIndex, read_index


def tree_file_batches(
    directory: str | PathLike[str],
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    bucket_by_size: bool = False,
    drop_remainder: bool = False,
    input_context: tf.distribute.InputContext | None = None,
    ragged: bool = False,
) -> tf.data.Dataset:
    """Reads batches of trees from files of `write_tree_files`, padded to the largest of a batch.

    Use it for treebanks that are larger than memory, and on clusters: each process opens only its
    own files. Trees come in the order in which they were written, unless `shuffle` or
    `bucket_by_size` is given. Every tree comes exactly once in an epoch, and batches have the same
    trees however many processes read them. If the trees were written with `bucket_by_size`, the
    parts of a batch that processes get have nearly the same number of tree nodes.

    Args:
        directory: The directory that `write_tree_files` wrote, which all processes can read.
        batch_size: The number of trees in a batch, of all processes together: a multiple of the
            number of files.
        shuffle: Whether trees come in a different order each epoch. Trees at the same place of all
            files stay together.
        seed: The seed of the shuffling, which makes it the same in each run, and in each process.
            It is required if several processes read; their TensorFlow's global seeds must be the
            same, too, if they are set.
        bucket_by_size: Whether trees of similar size come together. It saves most padding if
            `write_tree_files` used it, too. Trees do not keep their order then: predict without it.
        drop_remainder: Whether a last batch with fewer trees is left out, and with it a group with
            fewer trees than there are files.
        input_context: Says which of all processes reads; `kerasrec.training.fit` and
            `tf.distribute.Strategy.distribute_datasets_from_function` pass it. By default there is
            one process, which reads everything.
        ragged: Whether batches are ragged, as in `tree_batches`.

    Returns:
        A `tf.data.Dataset` of `((tokens, children), labels)`, as from `tree_batches`, or, if pairs
        were written, of `((tokens, children, tokens, children), labels)`, as from
        `tree_pair_batches`. With an `input_context`, a dataset of the parts of its replicas: in
        each step one part for each, in turn.

    Raises:
        FileNotFoundError: If `directory` has no index, or lacks a file that this process reads.
        MalformedFileError: If the index is damaged or of another version of kerasrec, or a file
            does not have the size and the number of records that the index says. The content of
            records is checked later, when TensorFlow reads them: `tf.errors.DataLossError` if bytes
            are not those that were written, and `tf.errors.InvalidArgumentError` if they are not a
            tree (`UnicodeDecodeError` if TensorFlow's message quotes bytes that are not text).
        ValueError: If `batch_size` is not a multiple of the number of files, or the number of files
            is not a multiple of the number of replicas; if several processes shuffle without a
            seed; or if no batch would come out.

    Example:

    >>> trees = treebank.encoded("train")
    >>> kerasrec.datasets.write_tree_files(trees, "trees/train", bucket_by_size=True)
    >>> def read(input_context):
    ...     return kerasrec.datasets.tree_file_batches(
    ...         "trees/train", 64, shuffle=True, seed=1, bucket_by_size=True,
    ...         input_context=input_context)
    >>> kerasrec.training.fit(model, read)
    """
    index = read_index(directory)
    parts = RecordParts(
        Path(directory),
        index.file_sizes,
        index.num_trees,
        "trees",
        batch_size,
        shuffle,
        seed,
        drop_remainder,
        input_context,
    )

    def of_replica(number: int) -> tf.data.Dataset:
        groups = parts.groups(number)
        if bucket_by_size:
            chunks = groups.batch(BATCHES_PER_CHUNK * parts.groups_per_batch)
            groups = chunks.map(_sort_by_size).unbatch()
        batches = groups.batch(parts.groups_per_batch, drop_remainder=drop_remainder)
        if shuffle and bucket_by_size:
            batches = batches.shuffle(BATCHES_PER_CHUNK, parts.seed, reshuffle_each_iteration=True)
        return batches.map(
            of_groups(parts.files(number), index, parts.rows, ragged),
            num_parallel_calls=tf.data.AUTOTUNE,
        )

    return parts.in_turns(of_replica)


@not_converted
def _sort_by_size(places: tf.Tensor, groups: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sorts groups, text `[groups, files]`; all files have the same order."""
    size = tf.io.FixedLenFeature([], tf.int64)
    sizes = tf.io.parse_example(groups[:, 0], {"group_size": size})["group_size"]
    order = tf.argsort(sizes, stable=True)
    return tf.gather(places, order), tf.gather(groups, order)


def of_groups(
    files: Sequence[str], index: TreeIndex, num_rows: int | None, ragged: bool
) -> Callable[[tf.Tensor, tf.Tensor], tuple[tuple[Any, ...], Any]]:
    """Returns a function that turns groups into a batch of trees.

    Args:
        files: The paths; each group has a record of each file.
        index: The index of their directory.
        num_rows: The number of trees, if it is known.
        ragged: Whether trees are ragged instead of padded.

    Returns:
        A function that takes the places of groups in the files, int64 `[groups]`, and their
        records, text `[groups, files]`, and returns trees as `tree_file_batches` does.
    """

    @not_converted
    def read(places: tf.Tensor, groups: tf.Tensor) -> tuple[tuple[Any, ...], Any]:
        parsed = tf.io.parse_example(tf.reshape(groups, [-1]), features_of(index))
        trees = checked_trees(parsed, Records(files, places), index)
        # The same for all parts of a batch, even for a part without trees.
        width = tf.reduce_max(parsed["group_size"])

        def padded(of: Any, value: Any, width: tf.Tensor) -> Any:
            if ragged or not isinstance(of, tf.RaggedTensor):
                return of
            rows = of.nrows(tf.int64)
            if of.ragged_rank == 2:  # Children in rows: as many slots as the batch needs.
                most = tf.reduce_max(tf.concat([of.values.row_lengths(), [0]], 0))
                tensor = of.to_tensor(value, shape=[rows, width, most])
                return tf.ensure_shape(tensor, [num_rows, None, None])
            inner = of.shape[2:]
            tensor = of.to_tensor(value, shape=[rows, width, *inner])
            return tf.ensure_shape(tensor, [num_rows, None, *inner])

        def inputs_of(trees: Mapping[str, Any], width: tf.Tensor) -> list[Any]:
            children = trees["children"]
            if ragged and children.ragged_rank == 1:
                rows = tf.RaggedTensor.from_tensor(children.values, padding=-1)
                children = children.with_values(rows)
            names = [name for name in ("tokens", "features") if name in trees]
            return [*(padded(trees[name], 0, width) for name in names), padded(children, -1, width)]

        labels = trees.pop("labels")
        if index.has_pairs:
            sides = halves(trees)
            # The last part of an epoch may have no pair.
            widths = [
                tf.maximum(tf.reduce_max(side["children"].row_lengths()), 0) for side in sides
            ]
            pairs = zip(sides, widths, strict=True)
            return tuple(of for side, width in pairs for of in inputs_of(side, width)), labels
        nothing = float("nan") if index.has_float_labels else -1
        return tuple(inputs_of(trees, width)), padded(labels, nothing, width)

    return read
