"""Files of encoded trees to padded or ragged batches; each process reads its own part."""

import random
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import tensorflow as tf

from kerasrec.datasets.batching import BATCHES_PER_CHUNK
from kerasrec.datasets.record_checking import Records, checked_trees, features_of
from kerasrec.datasets.tree_index import TreeIndex, check_file, file_of, read_index

# Of each file, while an epoch is shuffled.
TREES_TO_SHUFFLE = 10_000


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

    For treebanks that are larger than memory, and for clusters: each process opens only its own
    files. Trees come in the order in which they were written, unless `shuffle` or `bucket_by_size`
    is given. Every tree comes exactly once an epoch, and batches have the same trees however many
    processes read them. If the trees were written with `bucket_by_size`, the parts of a batch that
    processes get have nearly the same number of tree nodes.

    Args:
        directory: What `write_tree_files` wrote, which all processes can read.
        batch_size: Trees per batch, of all processes together: a multiple of the number of files.
        shuffle: Whether trees come in a different order each epoch. Trees at the same place of all
            files stay together.
        seed: Makes the shuffling the same in each run, and in each process: there must be one if
            several read, and their TensorFlow's global seeds must be the same, where they are set.
        bucket_by_size: Whether trees of similar size come together. It saves most padding if
            `write_tree_files` had it, too. Trees do not keep their order then: predict without it.
        drop_remainder: Whether a last batch with fewer trees is left out, and with it a group with
            fewer trees than there are files.
        input_context: Says which of all processes reads; `kerasrec.training.fit` and
            `tf.distribute.Strategy.distribute_datasets_from_function` pass it. By default there is
            one process, which reads everything.
        ragged: Whether batches are ragged, as those of `tree_batches`.

    Returns:
        A `tf.data.Dataset` of `((tokens, children), labels)`, as `tree_batches` gives them. With an
        `input_context`, of the parts of its replicas: in each step one part for each, in turn.

    Raises:
        FileNotFoundError: If `directory` has no index, or lacks a file that this process reads.
        MalformedFileError: If the index is damaged or of another version of kerasrec, or a file
            does not have the size and the number of records that the index says. The content of
            records is checked later, when TensorFlow reads them: `tf.errors.DataLossError` if bytes
            are not those that were written, and `tf.errors.InvalidArgumentError` if they are not a
            tree (`UnicodeDecodeError` if TensorFlow's message quotes bytes that are not text).
        ValueError: If `batch_size` is not a multiple of the number of files, or the number of files
            not a multiple of the number of replicas; several processes shuffle without a seed; or
            no batch would come out.

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
    num_files = len(index.file_sizes)
    files = [file_of(Path(directory), number, num_files) for number in range(num_files)]
    context = input_context or tf.distribute.InputContext()
    num_replicas = context.num_replicas_in_sync
    _check(num_files, batch_size, num_replicas)
    if shuffle and seed is None and context.num_input_pipelines > 1:
        raise ValueError(
            "Several processes shuffle trees, each with a different seed, so their parts of a "
            "batch would differ in size, and from run to run. Pass a seed."
        )
    num_whole_groups = index.num_trees // num_files
    num_groups = num_whole_groups if drop_remainder else index.num_groups
    # All replicas shuffle in the same way.
    seed = random.randrange(2**31) if seed is None else seed
    groups_per_batch = batch_size // num_files
    num_batches = num_groups // groups_per_batch
    if not drop_remainder:
        num_batches = -(-num_groups // groups_per_batch)
    if not num_batches:
        raise ValueError(
            f"drop_remainder=True leaves no batch of {index.num_trees} trees with "
            f"batch_size={batch_size}. Pass a smaller batch_size or drop_remainder=False."
        )

    def of_replica(number: int) -> tf.data.Dataset:
        names = list(map(str, files[number::num_replicas]))
        groups = _groups(names).take(num_groups)
        if shuffle:
            groups = groups.shuffle(TREES_TO_SHUFFLE, seed, reshuffle_each_iteration=True)
        if bucket_by_size:
            chunks = groups.batch(BATCHES_PER_CHUNK * groups_per_batch)
            groups = chunks.map(_sort_by_size).unbatch()
        batches = groups.batch(groups_per_batch, drop_remainder=drop_remainder)
        if shuffle and bucket_by_size:
            batches = batches.shuffle(BATCHES_PER_CHUNK, seed, reshuffle_each_iteration=True)
        rows = batch_size // num_replicas if drop_remainder else None
        return batches.map(
            of_groups(names, index, rows, ragged), num_parallel_calls=tf.data.AUTOTUNE
        )

    here = num_replicas // context.num_input_pipelines
    first = context.input_pipeline_id * here
    for number in range(num_files):
        if first <= number % num_replicas < first + here:
            check_file(files[number], index.file_sizes[number], index.num_groups)
    in_turns = tf.data.Dataset.choose_from_datasets(
        [of_replica(number) for number in range(first, first + here)],
        tf.data.Dataset.range(here).repeat(),
    )
    parts = in_turns.apply(tf.data.experimental.assert_cardinality(num_batches * here))
    # At the end of an epoch, tf.data's tuner may sleep for as long as the epoch took.
    options = tf.data.Options()
    options.autotune.enabled = False
    return parts.prefetch(tf.data.AUTOTUNE).with_options(options)


def _check(num_files: int, batch_size: int, num_replicas: int) -> None:
    if batch_size < 1 or batch_size % num_files:
        raise ValueError(
            f"batch_size is {batch_size}; expected a multiple of {num_files}, the number of files, "
            "each of which has as many trees of a batch. write_tree_files takes num_files."
        )
    if num_files % num_replicas:
        raise ValueError(
            f"{num_replicas} replicas cannot share {num_files} files evenly. Write the trees with "
            f"num_files={num_replicas} or a multiple of it."
        )


def _groups(files: Sequence[str]) -> tf.data.Dataset:
    """The place, and the records at that place of some files, text `[files]`."""
    records = tf.data.Dataset.zip(*map(tf.data.TFRecordDataset, files))
    return records.map(lambda *of_files: tf.stack(of_files)).enumerate()


@tf.autograph.experimental.do_not_convert
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
        files: Paths; each group has a record of each.
        index: Of their directory.
        num_rows: The number of trees, where it is known.
        ragged: Whether trees are ragged, and not padded.

    Returns:
        A function that takes the places of groups in the files, int64 `[groups]`, and their
        records, text `[groups, files]`, and returns trees as `tree_file_batches` does.
    """

    def read(places: tf.Tensor, groups: tf.Tensor) -> tuple[tuple[Any, ...], Any]:
        parsed = tf.io.parse_example(tf.reshape(groups, [-1]), features_of(index))
        trees = checked_trees(parsed, Records(files, places), index)
        # The same for all parts of a batch, also for a part without trees.
        width = tf.reduce_max(parsed["group_size"])

        def padded(of: Any, value: Any) -> Any:
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

        children = trees["children"]
        if ragged and children.ragged_rank == 1:
            rows = tf.RaggedTensor.from_tensor(children.values, padding=-1)
            children = children.with_values(rows)
        names = [name for name in ("tokens", "features") if name in trees]
        inputs = [padded(trees[name], 0) for name in names]
        nothing = float("nan") if index.has_float_labels else -1
        return (*inputs, padded(children, -1)), padded(trees["labels"], nothing)

    return read
