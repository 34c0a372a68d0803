"""`fit` and `evaluate`: training and evaluation under every strategy of `tf.distribute`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec.training.in_step import InStep
from kerasrec.training.parameter_server import Coordinated


def fit(
    model: keras.Model,
    data: tf.data.Dataset,
    validation_data: tf.data.Dataset | None = None,
    epochs: int = 1,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
    initial_epoch: int = 0,
) -> keras.callbacks.History:
    """Trains a compiled Keras model under the strategy in whose scope it was made.

    This is `model.fit`, for every strategy: none, one device, `MirroredStrategy`,
    `MultiWorkerMirroredStrategy` (call it in every worker, with the same data) and
    `ParameterServerStrategy` (call it in the coordinator). Batches are those of the whole cluster:
    each replica gets its part of one, and the loss and its gradient are those of the whole batch.
    So the same seeds and data give the same weights under each strategy, to rounding, for losses of
    trees and those of Keras that are means over examples, without a mask.

    Optimizer, loss, metrics, `steps_per_execution`, `run_eagerly` and `jit_compile` are those of
    `model.compile`; clipping and accumulation of gradients those of the optimizer, which clips the
    gradients of each replica before they are added up.

    Args:
        model: compiled, made in the scope of its strategy.
        data: batches of `(x, y)` or `(x, y, sample_weight)`.
        validation_data: batches to evaluate after each epoch.
        epochs: the number of the last epoch.
        callbacks: of Keras, which get the metrics of the whole cluster.
        verbose: of Keras' progress bar: 0, 1, 2 or "auto".
        initial_epoch: the number of the first epoch.

    Returns:
        Loss and metrics of all epochs, as `model.fit` gives them.

    Raises:
        ValueError: if the model is not compiled, or `data` is no dataset.
    """
    runner = _runner(model, data)
    bars = keras.callbacks.CallbackList(
        list(callbacks),
        add_history=True,
        add_progbar=verbose != 0,
        verbose=1 if verbose == "auto" else verbose,
        epochs=epochs,
        steps=_num_batches(data),
        model=model,
    )
    distributed = runner.distributed(data)
    validation = None if validation_data is None else runner.distributed(validation_data)
    model.stop_training = False
    logs: dict[str, float] = {}
    bars.on_train_begin()
    for epoch in range(initial_epoch, epochs):
        bars.on_epoch_begin(epoch)
        logs = _pass(runner, model, distributed, bars, "train")
        if validation is not None:
            found = _pass(runner, model, validation, bars, "test")
            logs.update({f"val_{name}": value for name, value in found.items()})
        bars.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    model.optimizer.finalize_variable_values(model.trainable_weights)
    bars.on_train_end(logs)
    return model.history


def evaluate(model: keras.Model, data: tf.data.Dataset) -> dict[str, float]:
    """Loss and metrics of a compiled model, under the strategy in whose scope it was made.

    Args:
        model: compiled, made in the scope of its strategy.
        data: batches of `(x, y)` or `(x, y, sample_weight)`.

    Raises:
        ValueError: if the model is not compiled, or `data` is no dataset.
    """
    runner = _runner(model, data)
    return _pass(runner, model, runner.distributed(data), keras.callbacks.CallbackList(), "test")


def _runner(model: keras.Model, data: Any) -> InStep | Coordinated:
    if not model.compiled:
        raise ValueError("The model is not compiled. Call model.compile(optimizer, loss) first.")
    if not isinstance(data, tf.data.Dataset):
        raise ValueError(f"`data` must be a tf.data.Dataset of batches; received {data!r}.")
    if isinstance(model.distribute_strategy, tf.distribute.ParameterServerStrategy):
        return Coordinated(model, data.element_spec)
    return InStep(model, data.element_spec)


def _pass(
    runner: InStep | Coordinated,
    model: keras.Model,
    batches: Any,
    callbacks: keras.callbacks.CallbackList,
    mode: str,
) -> dict[str, float]:
    """Runs through the data once and returns the metrics."""
    run = runner.train if mode == "train" else runner.test
    begin = getattr(callbacks, f"on_{mode}_batch_begin")
    end = getattr(callbacks, f"on_{mode}_batch_end")
    if mode == "test":
        callbacks.on_test_begin()
    model.reset_metrics()
    iterator = iter(batches)
    step, logs = 0, {}
    while not (mode == "train" and model.stop_training):
        begin(step)
        taken = 0
        # Not drawn inside of the step: at the end of the data part of it would still run.
        for batch in itertools.islice(iterator, model.steps_per_execution):
            run(batch)
            taken += 1
        step += taken
        logs = {name: float(value) for name, value in runner.metrics().items()}
        if not taken:
            break
        end(step - 1, logs)
    if mode == "test":
        callbacks.on_test_end(logs)
    return logs


def _num_batches(data: tf.data.Dataset) -> int | None:
    number = int(data.cardinality())
    return number if number >= 0 else None
