"""Which records of a directory a replica reads, and in which order.

A *group* is the records at the same place of all files. A batch consists of some groups, and each
replica reads some files, so it has as many records of a batch as any other replica.
"""

import random
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import tensorflow as tf

from kerasrec._src.datasets.batch.tree_batches import BATCHES_PER_CHUNK
from kerasrec._src.datasets.files.directory import Index, check_file, files_of
from kerasrec._src.datasets.validation import number_of_batches
from kerasrec._src.shuffling import shuffled_when_read

# The size of the shuffle buffer, as a number of records of each file.
GROUPS_TO_SHUFFLE = 10_000
# Of the places of groups in their files, int64 `[groups]`, and the records, text `[groups, files]`.
OfGroups = Callable[[tf.Tensor, tf.Tensor], Any]


class RecordBatches:
    """The parts of batches that the replicas of a process read.

    Args:
        directory: The directory of the files.
        index: The index of the directory. The last group may lack examples.
        batch_size: The number of examples in a batch, of all replicas together.
        shuffle: Whether groups come in a different order each epoch.
        seed: The seed of the order. All replicas shuffle in the same way.
        drop_remainder: Whether a last batch with fewer examples is left out, and with it a group
            with fewer examples than there are files.
        input_context: Which of all processes reads; by default there is one.

    Attributes:
        rows: The number of examples of a part, if it is known.

    Raises:
        FileNotFoundError: If the directory lacks a file that this process reads.
        MalformedFileError: If a file has another size or number of records than expected.
        ValueError: If `batch_size` is not a multiple of the number of files, or the number of files
            is not a multiple of the number of replicas; if several processes shuffle without a
            seed; or if no batch would come out.
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        index: Index,
        batch_size: int,
        shuffle: bool,
        seed: int | None,
        drop_remainder: bool,
        input_context: tf.distribute.InputContext | None,
    ):
        context = input_context or tf.distribute.InputContext()
        examples, num_examples = index.examples, index.num_examples
        num_files, self._num_replicas = len(index.file_sizes), context.num_replicas_in_sync
        self._num_batches = number_of_batches(num_examples, batch_size, drop_remainder, examples)
        if batch_size % num_files:
            raise ValueError(
                f"batch_size is {batch_size}; expected a multiple of {num_files}, the number of "
                f"files, each with as many {examples} of a batch. Files are written with "
                "num_files."
            )
        if num_files % self._num_replicas:
            raise ValueError(
                f"{self._num_replicas} replicas cannot share {num_files} files evenly. Write the "
                f"{examples} with num_files={self._num_replicas} or a multiple of it."
            )
        if shuffle and seed is None and context.num_input_pipelines > 1:
            raise ValueError(
                f"Several processes shuffle {examples}, each with a different seed, so their parts "
                "of a batch would differ in size, and from run to run. Pass a seed."
            )
        self._seed = random.randrange(2**31) if seed is None else seed
        self._shuffle, self._drop_remainder = shuffle, drop_remainder
        self._groups_per_batch = batch_size // num_files
        num_groups = -(-num_examples // num_files)
        self._num_groups = num_examples // num_files if drop_remainder else num_groups
        self.rows = batch_size // self._num_replicas if drop_remainder else None
        self._files = files_of(Path(directory), num_files, examples)
        here = self._num_replicas // context.num_input_pipelines
        first = context.input_pipeline_id * here
        self._replicas = range(first, first + here)
        for number, (file, size) in enumerate(zip(self._files, index.file_sizes, strict=True)):
            if number % self._num_replicas in self._replicas:
                check_file(file, size, num_groups)

    def dataset(
        self, reader: Callable[[list[str]], OfGroups], sort: OfGroups | None = None
    ) -> tf.data.Dataset:
        """In each step one part for each replica of this process, in turn.

        Args:
            reader: Returns a function that makes a part of a batch of groups in some files.
            sort: Sorts groups, so that the groups of a batch are alike.
        """
        here = len(self._replicas)
        in_turns = tf.data.Dataset.choose_from_datasets(
            [self._of_replica(replica, reader, sort) for replica in self._replicas],
            tf.data.Dataset.range(here).repeat(),
        )
        if self._shuffle:
            in_turns = shuffled_when_read(in_turns)
        parts = in_turns.apply(tf.data.experimental.assert_cardinality(self._num_batches * here))
        # At the end of an epoch, tf.data's tuner may sleep for as long as the epoch took.
        options = tf.data.Options()
        options.autotune.enabled = False
        return parts.prefetch(tf.data.AUTOTUNE).with_options(options)

    def _of_replica(
        self, replica: int, reader: Callable[[list[str]], OfGroups], sort: OfGroups | None
    ) -> tf.data.Dataset:
        files = list(map(str, self._files[replica :: self._num_replicas]))
        records = tf.data.Dataset.zip(*map(tf.data.TFRecordDataset, files))
        groups = records.map(lambda *of_files: tf.stack(of_files)).enumerate()
        groups = groups.take(self._num_groups)
        if self._shuffle:
            groups = groups.shuffle(GROUPS_TO_SHUFFLE, self._seed, reshuffle_each_iteration=True)
        if sort is not None:
            groups = groups.batch(BATCHES_PER_CHUNK * self._groups_per_batch).map(sort).unbatch()
        batches = groups.batch(self._groups_per_batch, drop_remainder=self._drop_remainder)
        if self._shuffle and sort is not None:
            batches = batches.shuffle(BATCHES_PER_CHUNK, self._seed, reshuffle_each_iteration=True)
        return batches.map(reader(files), num_parallel_calls=tf.data.AUTOTUNE)
