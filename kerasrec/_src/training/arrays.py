"""Turns the data that Keras' `fit`, `evaluate` and `predict` take into datasets of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.training.batches import Reader


def inputs(batch: Any) -> Any:
    """Returns the inputs of a model, from a batch of a dataset."""
    return keras.utils.unpack_x_y_sample_weight(batch)[0]


def joined(batches: Sequence[np.ndarray]) -> np.ndarray | tf.RaggedTensor:
    """Joins the predictions of all batches, as Keras does: ragged where batches differ in size."""
    if len({batch.shape[1:] for batch in batches}) == 1:
        return np.concatenate(batches)
    return tf.concat([tf.RaggedTensor.from_tensor(batch) for batch in batches], 0)


def is_data(x: Any) -> bool:
    """Whether `dataset` makes batches of `x`, which may also be a generator or a `PyDataset`."""
    is_batched = isinstance(x, tf.data.Dataset) or callable(x)
    return is_batched or all(hasattr(of, "shape") for of in keras.tree.flatten(x))


def dataset(
    x: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    seed: int | None = None,
) -> tf.data.Dataset | Reader:
    """Batches of arrays, shuffled if there is a seed; or `x` itself, if `Batches` accepts it.

    Raises:
        ValueError: If `x` is neither, or if it is a dataset and there are `y` or `sample_weight` as
            well.
    """
    if isinstance(x, tf.data.Dataset) or callable(x):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "y and sample_weight are for arrays. Put those of a dataset into its batches: "
                "(x, y, sample_weight)."
            )
        return x
    arrays = tuple(_without_lists(of) for of in (x, y, sample_weight) if of is not None)
    if not is_data(arrays):
        raise ValueError(
            f"Data is {type(x).__name__}; expected a tf.data.Dataset of batches, or arrays."
        )
    data = tf.data.Dataset.from_tensor_slices(arrays)
    if seed is not None:
        data = data.shuffle(len(data), seed)
    return data.batch(batch_size or 32)


def _without_lists(nest: Any) -> Any:
    """The nest with tuples in place of lists, which TensorFlow would take for tensors."""
    if isinstance(nest, dict):
        return {key: _without_lists(value) for key, value in nest.items()}
    return tuple(map(_without_lists, nest)) if isinstance(nest, list | tuple) else nest
