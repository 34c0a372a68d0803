"""Values as records of files, and such records as batches of values.

A record is a `tf.train.Example`. Under the key of each tensor of a batch it has the numbers or
texts that belong to the value, as a flat list. If these are lists, it has their lengths under the
key followed by `/lengths`. float64 and uint64 are stored as int64 with the same bits.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datasets.files.record_files import record_of
from kerasrec._src.datasets.files.value_index import Numbers

NUMBERS = ("label", "weight")  # no tensor of a batch has such a key
BY_BITS = (tf.float64, tf.uint64)


def records_of(batch: Mapping[str, tf.RaggedTensor], numbers: Sequence[np.ndarray]) -> list[bytes]:
    """Returns a record for each value of a batch.

    Args:
        batch: A batch from `kerasrec.Schema.encode`.
        numbers: The labels and weights, if there are any: `[values, ...]`.
    """
    columns: dict[str, Any] = dict(zip(NUMBERS, numbers, strict=False))
    for key, tensor in batch.items():
        splits, rows = tensor.row_splits.numpy(), tensor.values
        if isinstance(rows, tf.RaggedTensor):
            columns[_lengths(key)] = np.split(rows.row_lengths().numpy(), splits[1:-1])
            splits, rows = rows.row_splits.numpy()[splits], rows.values
        columns[key] = np.split(_stored(rows), splits[1:-1])
    return [
        record_of({key: column[number] for key, column in columns.items()})
        for number in range(len(next(iter(columns.values()))))
    ]


def batch_of(
    records: tf.Tensor, specs: Mapping[str, tf.RaggedTensorSpec], numbers: Sequence[Numbers]
) -> tuple[dict[str, tf.RaggedTensor], list[tf.Tensor]]:
    """Returns a batch of values, and their labels and weights.

    Args:
        records: The records, text `[values]`.
        specs: The specs of the batch's tensors.
        numbers: The types of labels and weights, if there are any.
    """
    features: dict[str, Any] = {}
    for key, spec in specs.items():
        features[key] = tf.io.RaggedFeature(_stored_dtype(spec.dtype), row_splits_dtype=tf.int64)
        if spec.ragged_rank == 2:
            features[_lengths(key)] = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    for name, of in zip(NUMBERS, numbers, strict=False):
        features[name] = tf.io.FixedLenFeature(of.shape, tf.float32 if of.is_float else tf.int64)
    parsed = tf.io.parse_example(records, features)
    batch = {key: _ragged(parsed, key, spec) for key, spec in specs.items()}
    names = NUMBERS[: len(numbers)]
    return batch, [
        parsed[name] if of.is_float else tf.cast(parsed[name], tf.int32)
        for name, of in zip(names, numbers, strict=True)
    ]


def _lengths(key: str) -> str:
    return f"{key}/lengths"


def _stored_dtype(dtype: tf.DType) -> tf.DType:
    if dtype == tf.string:
        return dtype
    return tf.float32 if dtype.is_floating and dtype not in BY_BITS else tf.int64


def _stored(values: tf.Tensor) -> np.ndarray:
    """Numbers as a record has them."""
    array = values.numpy()
    if values.dtype in BY_BITS:
        return array.view(np.int64)
    return (
        array
        if values.dtype == tf.string
        else array.astype(_stored_dtype(values.dtype).as_numpy_dtype)
    )


def _ragged(parsed: Mapping[str, Any], key: str, spec: tf.RaggedTensorSpec) -> tf.RaggedTensor:
    """A tensor of a batch, from the flat lists of its values."""
    flat = parsed[key].values
    if spec.dtype in BY_BITS:
        flat = tf.bitcast(flat, spec.dtype)
    elif spec.dtype != tf.string:
        flat = tf.cast(flat, spec.dtype)
    shape = spec.shape[spec.ragged_rank + 1 :]
    rows = tf.reshape(flat, [-1, *shape])
    if spec.ragged_rank == 1:
        splits = parsed[key].row_splits // shape.num_elements()
        return tf.RaggedTensor.from_row_splits(rows, splits, validate=False)
    lengths = parsed[_lengths(key)]
    entries = tf.RaggedTensor.from_row_lengths(rows, lengths.values, validate=False)
    return tf.RaggedTensor.from_row_splits(entries, lengths.row_splits, validate=False)
