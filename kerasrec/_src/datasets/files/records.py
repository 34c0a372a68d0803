"""Records: ragged tensors of examples as `tf.train.Example`, and back.

A record has, under the key of each tensor, the numbers or texts of one example as a flat list. If
these are in lists, it has their lengths under the key followed by `/lengths`. float64 and uint64
are stored as int64 with the same bits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

BY_BITS = (tf.float64, tf.uint64)


def record_of(arrays: Mapping[str, Any]) -> bytes:
    """Returns a `tf.train.Example` with a flat list by key for each array of numbers or texts."""
    feature = {key: _feature(np.ravel(array)) for key, array in arrays.items()}
    features = tf.train.Features(feature=feature)
    return tf.train.Example(features=features).SerializeToString()


def _feature(flat: np.ndarray) -> tf.train.Feature:
    if flat.dtype == object:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=flat))
    if np.issubdtype(flat.dtype, np.floating):
        return tf.train.Feature(float_list=tf.train.FloatList(value=flat))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=flat))


def lengths_key(key: str) -> str:
    """The key of the lengths of the lists in a tensor."""
    return f"{key}/lengths"


def arrays_of(key: str, tensor: tf.RaggedTensor) -> dict[str, list[np.ndarray]]:
    """Returns the entries of a ragged tensor in the record of each example, by key."""
    splits, rows = tensor.row_splits.numpy(), tensor.values
    arrays = {}
    if isinstance(rows, tf.RaggedTensor):
        arrays[lengths_key(key)] = np.split(rows.row_lengths().numpy(), splits[1:-1])
        splits, rows = rows.row_splits.numpy()[splits], rows.values
    stored = rows.numpy()
    if rows.dtype in BY_BITS:
        stored = stored.view(np.int64)
    elif rows.dtype != tf.string:
        stored = stored.astype(_stored_dtype(rows.dtype).as_numpy_dtype)
    return arrays | {key: np.split(stored, splits[1:-1])}


def features_of(specs: Mapping[str, tf.RaggedTensorSpec]) -> dict[str, Any]:
    """Returns the features to parse of each record, for `tf.io.parse_example`."""
    dtypes = {key: _stored_dtype(spec.dtype) for key, spec in specs.items()}
    dtypes |= {lengths_key(key): tf.int64 for key, spec in specs.items() if spec.ragged_rank == 2}
    return {
        key: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) for key, dtype in dtypes.items()
    }


def ragged_of(parsed: Mapping[str, Any], key: str, spec: tf.RaggedTensorSpec) -> tf.RaggedTensor:
    """Returns a tensor of the parsed records, a row for each."""
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
    lengths = parsed[lengths_key(key)]
    entries = tf.RaggedTensor.from_row_lengths(rows, lengths.values, validate=False)
    return tf.RaggedTensor.from_row_splits(entries, lengths.row_splits, validate=False)


def _stored_dtype(dtype: tf.DType) -> tf.DType:
    if dtype == tf.string:
        return dtype
    return tf.float32 if dtype.is_floating and dtype not in BY_BITS else tf.int64
