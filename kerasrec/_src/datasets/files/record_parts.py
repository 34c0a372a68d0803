"""Which records of a directory a replica reads, and in which order.

A *group* is the records at the same place of all files. A batch consists of some groups, and each
replica reads some files, so it has as many records of a batch as any other replica.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from kerasrec._src.datasets.expected import expect_batch_size
from kerasrec._src.datasets.files.record_files import check_file, file_of
from kerasrec._src.shuffling import shuffled_when_read

# The size of the shuffle buffer, as a number of records of each file.
GROUPS_TO_SHUFFLE = 10_000


class RecordParts:
    """The parts of batches that the replicas of a process read.

    Args:
        directory: The directory of the files.
        file_sizes: The size of each file in bytes.
        num_examples: The number of examples in all files. The last group may lack some.
        examples: A word for the examples.
        batch_size: The number of examples in a batch, of all replicas together.
        shuffle: Whether groups come in a different order each epoch.
        seed: The seed of the order.
        drop_remainder: Whether a last batch with fewer examples is left out, and with it a group
            with fewer examples than there are files.
        input_context: Says which of all processes reads; by default there is one.

    Attributes:
        seed: The given or drawn seed: all replicas shuffle in the same way.
        groups_per_batch: The number of groups in a batch.
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
        directory: Path,
        file_sizes: Sequence[int],
        num_examples: int,
        examples: str,
        batch_size: int,
        shuffle: bool,
        seed: int | None,
        drop_remainder: bool,
        input_context: tf.distribute.InputContext | None,
    ):
        context = input_context or tf.distribute.InputContext()
        num_files, self._num_replicas = len(file_sizes), context.num_replicas_in_sync
        _check(examples, num_files, batch_size, self._num_replicas)
        if shuffle and seed is None and context.num_input_pipelines > 1:
            raise ValueError(
                f"Several processes shuffle {examples}, each with a different seed, so their parts "
                "of a batch would differ in size, and from run to run. Pass a seed."
            )
        self.seed = random.randrange(2**31) if seed is None else seed
        self._shuffle = shuffle
        self.groups_per_batch = batch_size // num_files
        num_groups = -(-num_examples // num_files)
        self._num_groups = num_examples // num_files if drop_remainder else num_groups
        self._num_batches = self._num_groups // self.groups_per_batch
        if not drop_remainder:
            self._num_batches = -(-self._num_groups // self.groups_per_batch)
        if not self._num_batches:
            raise ValueError(
                f"drop_remainder=True leaves no batch of {num_examples} {examples} with "
                f"batch_size={batch_size}. Pass a smaller batch_size or drop_remainder=False."
            )
        self.rows = batch_size // self._num_replicas if drop_remainder else None
        self._files = [
            file_of(directory, number, num_files, examples) for number in range(num_files)
        ]
        here = self._num_replicas // context.num_input_pipelines
        first = context.input_pipeline_id * here
        self._replicas = range(first, first + here)
        for number in range(num_files):
            if number % self._num_replicas in self._replicas:
                check_file(self._files[number], file_sizes[number], num_groups)

    def files(self, replica: int) -> list[str]:
        """The files that a replica reads."""
        return list(map(str, self._files[replica :: self._num_replicas]))

    def groups(self, replica: int) -> tf.data.Dataset:
        """Groups in the order of an epoch: the place, and a replica's records, text `[files]`."""
        records = tf.data.Dataset.zip(*map(tf.data.TFRecordDataset, self.files(replica)))
        groups = records.map(lambda *of_files: tf.stack(of_files)).enumerate()
        groups = groups.take(self._num_groups)
        if self._shuffle:
            groups = groups.shuffle(GROUPS_TO_SHUFFLE, self.seed, reshuffle_each_iteration=True)
        return groups

    def in_turns(self, batches: Callable[[int], tf.data.Dataset]) -> tf.data.Dataset:
        """In each step one part for each replica of this process, in turn.

        Args:
            batches: Returns the parts of a replica.
        """
        here = len(self._replicas)
        in_turns = tf.data.Dataset.choose_from_datasets(
            [batches(replica) for replica in self._replicas], tf.data.Dataset.range(here).repeat()
        )
        if self._shuffle:
            in_turns = shuffled_when_read(in_turns)
        parts = in_turns.apply(tf.data.experimental.assert_cardinality(self._num_batches * here))
        # At the end of an epoch, tf.data's tuner may sleep for as long as the epoch took.
        options = tf.data.Options()
        options.autotune.enabled = False
        return parts.prefetch(tf.data.AUTOTUNE).with_options(options)


def _check(examples: str, num_files: int, batch_size: int, num_replicas: int) -> None:
    expect_batch_size(batch_size)
    if batch_size % num_files:
        raise ValueError(
            f"batch_size is {batch_size}; expected a multiple of {num_files}, the number of files, "
            f"each of which has as many {examples} of a batch. Files are written with num_files."
        )
    if num_files % num_replicas:
        raise ValueError(
            f"{num_replicas} replicas cannot share {num_files} files evenly. Write the {examples} "
            f"with num_files={num_replicas} or a multiple of it."
        )
