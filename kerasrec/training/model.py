"""Keras models whose own `fit` and `evaluate` work under every strategy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kerasrec.training.fit import evaluate, fit

# What `model.fit` and `model.evaluate` have as well, by the same name.
FIT_ARGUMENTS = {"epochs", "verbose", "callbacks", "initial_epoch"}


# What comes after in the order of classes, to a type checker.
_Keras: Any = object


class _AnyStrategy(_Keras):
    """The methods of the models below, before those of Keras."""

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """`keras.Model.compile`, in the scope of the strategy that the model was made in."""
        with self.distribute_strategy.scope():
            super().compile(*args, **kwargs)

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """`keras.Model.fit`, by `kerasrec.training.fit` where there are several replicas.

        There data are a `tf.data.Dataset` of batches, or arrays, the same in every worker.

        Raises:
            ValueError: if `kerasrec.training.fit` has no such argument.
        """
        if not _is_of_several(self.distribute_strategy):
            return super().fit(*args, **kwargs)
        given = _given(keras.Model.fit, args, kwargs)
        validation_data, size = given.pop("validation_data", None), given.get("batch_size")
        data = _dataset(given, given.pop("shuffle", True))
        if validation_data is not None:
            parts = zip(("x", "y", "sample_weight"), _as_tuple(validation_data), strict=False)
            size = given.pop("validation_batch_size", None) or size
            validation_data = _dataset({**dict(parts), "batch_size": size}, False)
        _refuse(given, FIT_ARGUMENTS, "fit")
        return fit(self, data, validation_data, **given)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """`keras.Model.evaluate`, by `kerasrec.training.evaluate` where `fit` is by its `fit`.

        Raises:
            ValueError: if `kerasrec.training.evaluate` has no such argument.
        """
        if not _is_of_several(self.distribute_strategy):
            return super().evaluate(*args, **kwargs)
        given = _given(keras.Model.evaluate, args, kwargs)
        return_dict = given.pop("return_dict", False)
        given.pop("verbose", None)
        data = _dataset(given, shuffle=False)
        _refuse(given, set(), "evaluate")
        metrics = evaluate(self, data)
        values = list(metrics.values())
        return metrics if return_dict else values if len(values) > 1 else values[0]

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """`keras.Model.predict`; by the coordinator under `ParameterServerStrategy`.

        Raises:
            ValueError: there, if an argument is none of `x`, `batch_size` and `verbose`.
        """
        if not isinstance(self.distribute_strategy, tf.distribute.ParameterServerStrategy):
            return super().predict(*args, **kwargs)
        given = _given(keras.Model.predict, args, kwargs)
        given.pop("verbose", None)
        data = _dataset(given, shuffle=False)
        _refuse(given, set(), "predict")
        batches = [self.predict_on_batch(_inputs(batch)) for batch in data]
        return keras.tree.map_structure(lambda *parts: _joined(parts), *batches)


@keras.saving.register_keras_serializable("kerasrec")
class Functional(_AnyStrategy, keras.Model):
    """What `Model` makes of inputs and outputs.

    A class of its own: Keras changes the bases of one that it makes a functional model of.
    """


class Model(_AnyStrategy, keras.Model):
    """A `keras.Model` with which `fit` and `evaluate` work under every strategy.

    Under `MultiWorkerMirroredStrategy` and `ParameterServerStrategy` the methods of Keras 3 do not
    work, and with several replicas of `MirroredStrategy` they do not weigh the parts of a batch by
    what these hold: there they are `kerasrec.training.fit` and `evaluate`, and else Keras' own. For
    functional models, and to make subclasses of.

    Example:

    >>> with tf.distribute.MultiWorkerMirroredStrategy().scope():
    ...     model = kerasrec.training.Model([tokens, children], logits)
    ...     model.compile("adam", kerasrec.training.TreeCrossentropy())
    >>> model.fit(batches, epochs=10)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> keras.Model:
        if cls is Model and (len(args) == 2 or "outputs" in kwargs):
            return Functional(*args, **kwargs)
        return super().__new__(cls)


@keras.saving.register_keras_serializable("kerasrec")
class Sequential(_AnyStrategy, keras.Sequential):
    """A `keras.Sequential` with which `fit` and `evaluate` work under every strategy; see `Model`.

    Example:

    >>> with tf.distribute.MultiWorkerMirroredStrategy().scope():
    ...     model = kerasrec.training.Sequential([keras.layers.Dense(5)])
    """


def _is_of_several(strategy: tf.distribute.Strategy) -> bool:
    """Whether a strategy has several replicas, or another process for its only one."""
    served = isinstance(strategy, tf.distribute.ParameterServerStrategy)
    return served or strategy.num_replicas_in_sync > 1


def _given(method: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The arguments of a call by name, but for those that are as if they were not there."""
    signature = inspect.signature(method)
    given = signature.bind(None, *args, **kwargs).arguments
    given.pop("self")
    return {
        name: value
        for name, value in given.items()
        if value is not None and not _is_same(value, signature.parameters[name].default)
    }


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | int | float) and value == default)


def _refuse(given: dict[str, Any], known: set[str], method: str) -> None:
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValueError(
            f"{method} on several replicas does not know {', '.join(unknown)}. Pass a "
            "tf.data.Dataset that has what is wanted: `take` and `skip` choose its batches, and a "
            "third entry of a batch weighs its examples."
        )


def _inputs(batch: Any) -> Any:
    """Of what a dataset of batches gives, what a model reads."""
    return keras.utils.unpack_x_y_sample_weight(batch)[0]


def _joined(batches: Sequence[np.ndarray]) -> np.ndarray | tf.RaggedTensor:
    """Predictions of all batches, as Keras gives them: ragged where batches differ in size."""
    if len({batch.shape[1:] for batch in batches}) == 1:
        return np.concatenate(batches)
    return tf.concat([tf.RaggedTensor.from_tensor(batch) for batch in batches], 0)


def _as_tuple(data: Any) -> tuple:
    return data if isinstance(data, tuple) else (data,)


def _dataset(given: dict[str, Any], shuffle: bool) -> tf.data.Dataset:
    """Takes the data out of the arguments of a call; makes batches of them if they are arrays."""
    x, y, sample_weight = (given.pop(name, None) for name in ("x", "y", "sample_weight"))
    if isinstance(x, tf.data.Dataset):
        if y is not None or sample_weight is not None:
            raise ValueError("y and sample_weight are for arrays; those of a dataset are in it.")
        return x
    arrays = tuple(_without_lists(of) for of in (x, y, sample_weight) if of is not None)
    if not all(hasattr(of, "shape") for of in keras.tree.flatten(arrays)):
        raise ValueError(
            f"Data is {type(x).__name__}; expected a tf.data.Dataset of batches, or arrays."
        )
    data = tf.data.Dataset.from_tensor_slices(arrays)
    if shuffle:
        # In the same order in each worker, or some examples would be none's.
        data = data.shuffle(len(data), seed=0)
    return data.batch(given.pop("batch_size", None) or 32)


def _without_lists(nest: Any) -> Any:
    """Tuples for lists, which TensorFlow takes for tensors."""
    if isinstance(nest, dict):
        return {key: _without_lists(value) for key, value in nest.items()}
    return tuple(map(_without_lists, nest)) if isinstance(nest, list | tuple) else nest
