"""From files of values of a schema to batches; each process reads its own part."""

from os import PathLike
from pathlib import Path
from typing import Any

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.datasets.files.record_parts import RecordParts
from kerasrec._src.datasets.files.value_index import Schema, read_index
from kerasrec._src.datasets.files.value_records import batch_of


def value_file_batches(
    schema: Schema,
    directory: str | PathLike[str],
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Reads batches of values from files of `write_value_files`.

    Use it for data that is larger than memory or slow to encode, and on clusters: each process
    opens only its own files. Values come in the order in which they were written, unless `shuffle`
    is given. Every value comes exactly once in an epoch, and batches have the same values however
    many processes read them.

    Args:
        schema: A `kerasrec.Schema` equal to the one that wrote the files.
        directory: The directory that `write_value_files` wrote, which all processes can read.
        batch_size: The number of values in a batch, of all processes together: a multiple of the
            number of files.
        shuffle: Whether values come in a different order each epoch. Values at the same place of
            all files stay together.
        seed: The seed of the shuffling, which makes it the same in each run, and in each process.
            It is required if several processes read; their TensorFlow's global seeds must be the
            same, too, if they are set.
        drop_remainder: Whether a last batch with fewer values is left out, and with it a group with
            fewer values than there are files.
        input_context: Says which of all processes reads; `kerasrec.training.fit` and
            `tf.distribute.Strategy.distribute_datasets_from_function` pass it. By default there is
            one process, which reads everything.

    Returns:
        A `tf.data.Dataset` of batches as from `kerasrec.Schema.encode`, or of `(batch, labels)` or
        `(batch, labels, weights)`; labels and weights are int32 or float32 `[batch, ...]`. With an
        `input_context`, a dataset of the parts of its replicas: in each step one part for each, in
        turn.

    Raises:
        FileNotFoundError: If `directory` has no index, or lacks a file that this process reads.
        MalformedFileError: If the index is damaged or of another version of kerasrec, or a file
            does not have the size and the number of records that the index says. If bytes are not
            those that were written, TensorFlow raises `tf.errors.DataLossError` when it reads them.
        ValueError: If another schema wrote the files, `batch_size` is not a multiple of the number
            of files, or the number of files is not a multiple of the number of replicas; if several
            processes shuffle without a seed; or if no batch would come out.

    Example:

    >>> kerasrec.datasets.write_value_files(schema, zip(documents, labels), "documents/train")
    >>> def read(input_context):
    ...     return kerasrec.datasets.value_file_batches(
    ...         schema, "documents/train", 64, shuffle=True, seed=1, input_context=input_context)
    >>> kerasrec.training.fit(model, read)
    """
    index = read_index(directory, schema)
    parts = RecordParts(
        Path(directory),
        index.file_sizes,
        index.num_values,
        "values",
        batch_size,
        shuffle,
        seed,
        drop_remainder,
        input_context,
    )

    @not_converted
    def read(_: tf.Tensor, groups: tf.Tensor) -> Any:
        records = tf.reshape(groups, [-1])
        records = tf.boolean_mask(records, tf.strings.length(records) > 0)
        batch, numbers = batch_of(records, schema.element_spec, index.numbers)
        numbers = [tf.ensure_shape(of, [parts.rows, *of.shape[1:]]) for of in numbers]
        return (batch, *numbers) if numbers else batch

    def of_replica(number: int) -> tf.data.Dataset:
        groups = parts.groups(number)
        batches = groups.batch(parts.groups_per_batch, drop_remainder=drop_remainder)
        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE)

    return parts.in_turns(of_replica)
