"""Keras models with `fit` and `evaluate` methods that work under every strategy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.errors import SentenceFirst
from kerasrec._src.private import in_order_of_metrics
from kerasrec._src.shuffling import shuffled_when_read
from kerasrec._src.training import replica
from kerasrec._src.training.batches import Batches, check_trees, dataset, is_data
from kerasrec._src.training.fit import evaluate, fit
from kerasrec._src.training.input_range import checked_inputs
from kerasrec._src.training.keras_losses import with_checked_labels
from kerasrec._src.training.likelihood import TreeNegativeLogLikelihood
from kerasrec._src.training.losses import TreeLoss
from kerasrec._src.training.strategies import is_default, is_served, splits_batches

# The arguments that are data.
DATA = ("x", "y", "sample_weight", "batch_size")
# The arguments of `model.fit` and `model.evaluate` that have the same names here.
FIT_ARGUMENTS = {"epochs", "verbose", "callbacks", "initial_epoch"}
# All arguments of `model.fit` that are the same here.
OURS = {*FIT_ARGUMENTS, *DATA, "shuffle", "validation_data", "validation_batch_size"}
# The arguments that Keras' `fit` does not have.
BACKUP_ARGUMENTS = ("backup_dir", "save_freq")
# The arguments of Keras' `fit` that read arrays or datasets in another way.
OF_KERAS = {"validation_split", "steps_per_epoch"}
READ = {"x", "validation_data"}

# The next class in the method resolution order, for the type checker.
_Keras: Any = object


class _AnyStrategy(_Keras):
    """The methods of the models below, which come before those of Keras."""

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Runs `keras.Model.compile`, in the scope of the strategy in which the model was made."""
        with self.distribute_strategy.scope():
            super().compile(*args, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles a loaded model as it was, as Keras does for models without `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    @SentenceFirst()
    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Runs `keras.Model.fit`, or `kerasrec.training.fit` where batches are computed in parts.

        Here `kerasrec.training.fit` also takes arrays, which must be the same in every worker. It
        is also called on one device if `backup_dir` is given. One seed gives one order of batches
        in both, except with `validation_split` or `steps_per_epoch`.

        Raises:
            ValueError: If `kerasrec.training.fit` has no such argument, or if `class_weight` is
                given for labels of tree nodes, which Keras would misread.
        """
        taken = _taken(kwargs, *BACKUP_ARGUMENTS)
        backup = {name: value for name, value in taken.items() if value is not None}
        given = _given(keras.Model.fit, args, kwargs)
        if "class_weight" in given:
            _check_labels(self, given)
        strategy = self.distribute_strategy
        splits = splits_batches(strategy)
        takes_data = is_data(given.get("x")) and not given.keys() & OF_KERAS
        # In the scope of a strategy, Keras' `fit` reads a batch before the first epoch, so that
        # shuffled data have another order.
        is_in_scope = takes_data and given.keys() <= OURS and not is_default(strategy)
        is_own = splits or backup or is_in_scope
        if not (is_own or takes_data):
            return super().fit(**_with_datasets(given))
        batch_size = given.get("batch_size")
        # All workers must have the same order, or some would miss examples; other calls have
        # others.
        seed = int(self.optimizer.iterations.numpy()) if given.pop("shuffle", True) else None
        data = dataset(**_taken(given, *DATA), seed=seed)
        if not is_own:
            data = shuffled_when_read(Batches("x", data).whole)
            return super().fit(data, shuffle=False, **_with_datasets(given))
        held_out = given.pop("validation_data", None)
        if held_out is not None:
            parts = held_out if isinstance(held_out, tuple | list) else (held_out,)
            held_out = dataset(*parts, batch_size=given.pop("validation_batch_size", batch_size))
        where = "on several replicas" if splits else f"with {next(iter(backup), 'a strategy')}"
        _refuse(given, FIT_ARGUMENTS, f"fit {where}")
        return fit(self, data, held_out, **given, **backup)

    def train_step(self, data: Any) -> dict[str, Any]:
        """Runs `keras.Model.train_step`, but with each row only once in the gradients of tables.

        Keras' own `fit` calls it.

        Raises:
            tf.errors.InvalidArgumentError: As for `with_checked_labels`.
        """
        data = with_checked_labels(self, data)
        replica.train_step(self, data, lambda gradients: replica.move(self, gradients, None))
        return self.get_metrics_result()

    @SentenceFirst()
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Runs `keras.Model.evaluate` or `kerasrec.training.evaluate`, chosen as for `fit`.

        Raises:
            ValueError: If `kerasrec.training.evaluate` has no such argument.
        """
        given = _given(keras.Model.evaluate, args, kwargs)
        if not splits_batches(self.distribute_strategy):
            return super().evaluate(**_with_datasets(given))
        data = dataset(**_taken(given, *DATA))
        return_dict = _taken(given, "return_dict", "verbose").get("return_dict", False)
        _refuse(given, set(), "evaluate on several replicas")
        metrics = evaluate(self, data)
        return metrics if return_dict else in_order_of_metrics(self, metrics)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Runs `keras.Model.predict`; under `ParameterServerStrategy` in the coordinator.

        Raises:
            ValueError: Under `ParameterServerStrategy`, if an argument is none of `x`, `batch_size`
                and `verbose`.
        """
        given = _given(keras.Model.predict, args, kwargs)
        if not is_served(self.distribute_strategy):
            return super().predict(**_with_datasets(given))
        data = Batches("x", dataset(**_taken(given, "x", "batch_size"))).whole
        _taken(given, "verbose")
        _refuse(given, set(), "predict on several replicas")
        inputs = (keras.utils.unpack_x_y_sample_weight(batch)[0] for batch in data)
        batches = [self.predict_on_batch(x) for x in inputs]
        return keras.tree.map_structure(lambda *parts: _joined(parts), *batches)


class _OfKnownInputs(_AnyStrategy):
    """For models with inputs of known dtypes."""

    def call(self, inputs: Any, training: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        """Runs `keras.Model.call`, but numbers that do not fit the inputs' dtypes are an error.

        Raises:
            tf.errors.InvalidArgumentError: If a number does not fit into the dtype of its input, as
                1.5 does not fit into an integer dtype.
        """
        return super().call(checked_inputs(self, inputs), training=training, mask=mask, **kwargs)


@keras.saving.register_keras_serializable("kerasrec")
class Functional(_OfKnownInputs, keras.Model):
    """The class that `Model` creates from inputs and outputs.

    It is a separate class, because Keras changes the bases of a class that it makes functional.
    """


class Model(_AnyStrategy, keras.Model):
    """A `keras.Model` with which `fit` and `evaluate` work under every strategy.

    The methods of Keras 3 do not work under `MultiWorkerMirroredStrategy` and
    `ParameterServerStrategy`, and with several replicas of `MirroredStrategy` they do not weight
    the parts of a batch by their sizes. There, this model uses `kerasrec.training.fit` and
    `evaluate`; elsewhere it uses those of Keras. `fit` also takes `backup_dir` and `save_freq`,
    under every strategy. `Model` can be a functional model or a base class. A functional model
    raises an error if a number does not fit into the dtype of its input; Keras would keep only the
    number's lower bits.

    If a batch looks up a row of a table several times, the optimizer gets the sum of the row's
    gradients. In Keras' own models it gets each one separately, and squares and clips them one by
    one, if the table is a `keras.layers.Embedding` before a tree layer. Plain gradient descent is
    not affected.

    Args:
        *args: The arguments of `keras.Model`, such as `inputs` and `outputs`.
        **kwargs: The keyword arguments of `keras.Model`.

    Example:

    >>> with tf.distribute.MultiWorkerMirroredStrategy().scope():
    ...     model = kerasrec.training.Model([tokens, children], logits)
    ...     model.compile("adam", kerasrec.training.TreeCrossentropy())
    >>> model.fit(batches, epochs=10)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> keras.Model:
        is_functional = len(args) == 2 or "outputs" in kwargs
        if is_functional and cls is Model:
            return Functional(*args, **kwargs)
        if is_functional:  # Otherwise Keras would also change the bases of `Model`.
            cls.__bases__ = tuple(Functional if base is Model else base for base in cls.__bases__)
        return keras.Model.__new__(cls)


@keras.saving.register_keras_serializable("kerasrec")
class Sequential(_OfKnownInputs, keras.Sequential):
    """A `keras.Sequential` with which `fit` and `evaluate` work under every strategy; see `Model`.

    Args:
        *args: The arguments of `keras.Sequential`: a list of layers.
        **kwargs: The keyword arguments of `keras.Sequential`.

    Example:

    >>> with tf.distribute.MultiWorkerMirroredStrategy().scope():
    ...     model = kerasrec.training.Sequential([keras.layers.Dense(5)])
    """


def _joined(batches: Sequence[np.ndarray]) -> np.ndarray | tf.RaggedTensor:
    """Joins the predictions of all batches, as Keras does: ragged where batches differ in size."""
    if len({batch.shape[1:] for batch in batches}) == 1:
        return np.concatenate(batches)
    return tf.concat([tf.RaggedTensor.from_tensor(batch) for batch in batches], 0)


def _given(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, without those that are None or have their default.

    Raises:
        ValueError: If `x` is a tree or a list of trees.
    """
    signature = inspect.signature(method)
    given = signature.bind(None, *args, **kwargs).arguments
    given.pop("self")
    given.update(given.pop("kwargs", {}))
    check_trees(given.get("x"))
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
    return {
        name: value
        for name, value in given.items()
        if value is not None and not _is_same(value, defaults.get(name))
    }


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | int | float) and value == default)


def _check_labels(model: keras.Model, given: dict[str, Any]) -> None:
    """Raises a ValueError if Keras would look up `class_weight` by the numbers of nodes.

    Keras reads labels `[batch, nodes]` as if they were `[batch, classes]`: it takes the place of
    the largest label for the class.
    """
    labels = given.get("y")
    if isinstance(given.get("x"), tf.data.Dataset):
        labels = keras.utils.unpack_x_y_sample_weight(given["x"].element_spec)[1]
    of_nodes = len(getattr(labels, "shape", ())) == 2 and any(
        len(output.shape) > 2 for output in getattr(model, "outputs", None) or ()
    )
    of_trees = TreeLoss, TreeNegativeLogLikelihood
    if of_nodes or any(isinstance(loss, of_trees) for loss in keras.tree.flatten(model.loss)):
        raise ValueError(
            "fit has class_weight, but the labels are of nodes, [batch, nodes]: Keras would weigh "
            "each example by the number of the node that has its largest label. Compile the model "
            "with kerasrec.training.TreeCrossentropy(class_weight=...) instead. Floats have no "
            "classes; give sample weights, [batch, nodes]."
        )


def _taken(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """Takes some of the arguments out of a call's."""
    return {name: given.pop(name) for name in names if name in given}


def _with_datasets(given: dict[str, Any]) -> dict[str, Any]:
    """The same arguments, with each function of a context replaced by the dataset that it reads."""
    return {
        name: Batches(name, value).whole if name in READ and callable(value) else value
        for name, value in given.items()
    }


def _refuse(given: dict[str, Any], known: set[str], method: str) -> None:
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValueError(
            f"{method} does not take {', '.join(unknown)}. Pass a tf.data.Dataset instead: `take` "
            "and `skip` choose its batches, and a third entry of a batch weighs its examples."
        )
