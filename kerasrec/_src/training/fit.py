"""`fit` and `evaluate`: training and evaluation under every strategy of `tf.distribute`."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.errors import SentenceFirst
from kerasrec._src.training.batches import Batches, Reader
from kerasrec._src.training.callbacks import of_this_worker, want_metrics
from kerasrec._src.training.checkpoints import Checkpoints
from kerasrec._src.training.keras_losses import checked_batches
from kerasrec._src.training.parameter_server import Coordinated
from kerasrec._src.training.progress import Progress
from kerasrec._src.training.replica import tracker
from kerasrec._src.training.runner import OnReplicas, Runner
from kerasrec._src.training.strategies import is_chief, is_served
from kerasrec._src.training.termination import Termination


def fit(
    model: keras.Model,
    data: tf.data.Dataset | Reader,
    validation_data: tf.data.Dataset | Reader | None = None,
    epochs: int = 1,
    callbacks: Sequence[keras.callbacks.Callback] | None = None,
    verbose: Literal["auto", 0, 1, 2] | bool = "auto",
    initial_epoch: int = 0,
    backup_dir: str | os.PathLike[str] | None = None,
    save_freq: Literal["epoch"] | int = "epoch",
) -> keras.callbacks.History:
    """Trains a compiled Keras model under the strategy that it was made under.

    This is `model.fit`, for every strategy: none, one device, `MirroredStrategy`,
    `MultiWorkerMirroredStrategy` (call it in every worker, with the same data) and
    `ParameterServerStrategy` (call it in the coordinator). Each batch is one of the whole cluster:
    each replica gets its part, and the loss and its gradient are those of the whole batch.
    Therefore the same seeds and data give the same weights under each strategy, up to rounding. A
    loss that cannot be computed from the losses of the parts is refused. If a word is looked up
    several times, its gradients are added up before the optimizer squares or clips them, as if the
    gradient of the table were dense. Keras' own `fit` does not do that for a
    `keras.layers.Embedding` before a tree layer.

    `model.compile` sets the optimizer, loss, metrics, `steps_per_execution`, `run_eagerly` (except
    under `ParameterServerStrategy`) and `jit_compile` (on one replica). The optimizer sets
    accumulation, loss scaling, and clipping, which applies to the gradient of the whole batch.

    Args:
        model: A compiled model that was made in the scope of its strategy.
        data: Batches of `(x, y)` or `(x, y, sample_weight)`. Either a dataset, which each worker
            reads; or a function of a `tf.distribute.InputContext` that returns the parts of batches
            for the replicas that the context names, as those from
            `kerasrec.datasets.tree_file_batches` do. The function is also called once for all
            replicas, to learn the spec and the number of batches.
        validation_data: Batches to evaluate after each epoch, as for `data`.
        epochs: The number of the last epoch.
        callbacks: Keras callbacks; they get the metrics of the whole cluster. With several workers,
            the chief writes the files of `CSVLogger`, `TensorBoard` and `ModelCheckpoint`.
        verbose: The mode of Keras' progress bar, which the chief shows: 0, 1, 2 or "auto".
        initial_epoch: The number of the first epoch.
        backup_dir: The directory of checkpoints. If it contains one, training goes on from there,
            and reaches the weights of an uninterrupted run if the data come in the same order again
            (`shuffle` with a seed). The last two checkpoints are kept; if the newest is damaged,
            training goes on from the one before. None is written while a weight is NaN or infinite.
            At SIGTERM one is written; then the signal ends the process, or calls the program's own
            handler. On a cluster all workers must be able to read the directory; the chief writes
            and locks it.
        save_freq: "epoch" to write a checkpoint after each epoch; or a number of steps, after which
            one is written as well.

    Returns:
        The loss and metrics of all epochs, as `model.fit` returns them.

    Raises:
        ValueError: If the model was not compiled in the scope of its strategy; if `data` is neither
            a dataset nor a function that reads one; if `save_freq` is neither "epoch" nor a
            positive number; if no checkpoint of `backup_dir` can be read, or the newest is of
            another model or of other data; or if replicas cannot follow the loss or the optimizer
            as one device does.
        tf.errors.InvalidArgumentError: If a label is NaN, as float labels are where there is none,
            and the loss is one of Keras: use `TreeSquaredError`. Or if a label is negative, and the
            loss is a binary cross-entropy of Keras, without sample weights.
        OSError: If a checkpoint cannot be written.
        RuntimeError: If another program uses `backup_dir`; or if a worker of a
            `MultiWorkerMirroredStrategy`, or a parameter server, is lost or asked to end. Workers
            of a `ParameterServerStrategy` may be lost.
    """
    if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
        raise ValueError(f'`save_freq` is {save_freq!r}; expected "epoch" or a number of steps.')
    if save_freq != "epoch" and backup_dir is None:
        raise ValueError(f"`save_freq` is {save_freq!r}, and there is no `backup_dir` to save to.")
    batches = Batches("data", data)
    held_out = None if validation_data is None else Batches("validation_data", validation_data)
    runner = runner_of(model, batches)
    tester = None if held_out is None else runner_of(model, held_out)
    strategy = model.distribute_strategy
    with (
        Termination(strategy, is_awaited=backup_dir is not None) as termination,
        Checkpoints(backup_dir, strategy) as checkpoints,
    ):
        callbacks = of_this_worker(callbacks, strategy, goes_on=checkpoints.newest is not None)
        shows = is_chief(strategy)
        bar = [keras.callbacks.ProgbarLogger()] if shows and verbose in (1, "auto") else []
        looking = [*callbacks, *bar]
        train_reads = want_metrics(looking, strategy, "on_train_batch_end", "on_batch_end")
        test_reads = want_metrics(callbacks, strategy, "on_test_batch_end")
        bars = keras.callbacks.CallbackList(
            callbacks,
            add_history=True,
            add_progbar=shows and verbose != 0,
            verbose=1 if verbose == "auto" else verbose,
            epochs=epochs,
            steps=batches.number,
            model=model,
        )
        model.stop_training = False
        logs: dict[str, Any] = {}
        bars.on_train_begin()
        remembering = [*callbacks, model.history]
        progress = Progress(model, remembering, runner, initial_epoch, checkpoints)
        progress.restore()
        for _ in range(initial_epoch, progress.epoch):  # Each epoch shuffles the data again.
            next(progress.watched(runner.data), None)

        def between_steps() -> None:
            termination.obey_after(progress.save)

        for epoch in range(progress.epoch, epochs):
            if model.stop_training:
                break
            progress.begin_epoch(bars)
            with SentenceFirst(), _clear_error_of_loss(epoch, backup_dir):
                with _saved_when_interrupted(runner, progress):
                    if progress.logs is None:
                        progress.logs = _train(
                            runner, bars, progress, save_freq, between_steps, train_reads
                        )
                    logs = dict(progress.logs)
                    if tester is not None:
                        values = _test(tester, bars, test_reads, between_steps)
                        logs.update({f"val_{name}": value for name, value in values.items()})
                bars.on_epoch_end(epoch, logs)
                progress.end_epoch()
        if model.optimizer.iterations > 0:  # Before, the averages of `use_ema` are zeros.
            model.optimizer.finalize_variable_values(model.trainable_weights)
        bars.on_train_end(logs)
    return model.history


def evaluate(model: keras.Model, data: tf.data.Dataset | Reader) -> dict[str, Any]:
    """Computes loss and metrics of a compiled model, under the strategy that it was made under.

    Args:
        model: A compiled model that was made in the scope of its strategy.
        data: Batches of `(x, y)` or `(x, y, sample_weight)`, as for `fit`.

    Raises:
        ValueError: If the model was not compiled in the scope of its strategy, or if `data` is
            neither a dataset nor a function that reads one.
        tf.errors.InvalidArgumentError: If a label is missing and the loss would take it for a
            label, as in `fit`.
    """
    runner = runner_of(model, Batches("data", data))
    with SentenceFirst():
        return _test(runner, keras.callbacks.CallbackList())


def runner_of(model: keras.Model, batches: Batches) -> Runner:
    """Creates a model's variables, and the object that runs its steps under its strategy.

    Args:
        model: A compiled model that was made in the scope of its strategy.
        batches: The batches that the model will get.

    Raises:
        ValueError: If the strategy cannot train the model as it was made or compiled.
    """
    if not model.compiled:
        raise ValueError("The model is not compiled. Call model.compile(optimizer, loss) first.")
    for method in ("train_step", "test_step"):
        if not getattr(type(model), method).__module__.startswith(("keras.", "kerasrec.")):
            raise ValueError(
                f"{type(model).__name__} overrides {method}, which this loop never calls. "
                "Override compute_loss and compute_metrics instead."
            )
    strategy = model.distribute_strategy
    in_scope = strategy.extended.variable_created_in_scope
    if not all(in_scope(variable.value) for variable in tracker(model).variables):
        raise ValueError(
            "The model was made in the scope of a strategy, but compiled outside of it, so that "
            "each replica would track a separate loss. Call `model.compile` within "
            "`strategy.scope()`."
        )
    make = Coordinated if is_served(strategy) else OnReplicas
    return make(model, checked_batches(model, batches))


def _train(
    runner: Runner,
    callbacks: keras.callbacks.CallbackList,
    progress: Progress,
    save_freq: Literal["epoch"] | int,
    between_steps: Callable[[], None],
    reads: bool,
) -> dict[str, Any]:
    """Trains on the rest of an epoch, and returns the metrics of the whole epoch."""
    batches = progress.watched(runner.data)
    taken, unsaved = progress.step, 0
    if taken == 0:
        runner.model.reset_metrics()
    elif sum(1 for _ in itertools.islice(batches, taken)) < taken:
        raise ValueError(
            f"The checkpoint is of step {taken} of an epoch, but `data` has fewer batches. Train "
            "on the data that it was made with, or choose another `backup_dir`."
        )
    for number in _executions("train", runner, callbacks, batches, reads, taken):
        unsaved += number
        if isinstance(save_freq, int) and unsaved >= save_freq:
            progress.save()
            unsaved = 0
        between_steps()
        if runner.model.stop_training:
            break
    return _metrics(runner)


def _test(
    runner: Runner,
    callbacks: keras.callbacks.CallbackList,
    reads: bool = False,
    between_steps: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Runs through the data once and returns the metrics."""
    callbacks.on_test_begin()
    runner.model.reset_metrics()
    for _ in _executions("test", runner, callbacks, iter(runner.data), reads):
        between_steps()
    logs = _metrics(runner)
    callbacks.on_test_end(logs)
    return logs


def _executions(
    mode: Literal["train", "test"],
    runner: Runner,
    callbacks: keras.callbacks.CallbackList,
    batches: Iterator[Any],
    reads: bool,
    taken: int = 0,
) -> Iterator[int]:
    """Takes a step with each batch; yields the number of steps of each execution.

    Batches are not drawn inside a step: at the end of the data a part of the step would still run.

    Args:
        mode: Whether the steps are of training or of evaluation.
        runner: Takes the steps.
        callbacks: Those to call before and after each execution.
        batches: The batches.
        reads: Whether a callback reads the metrics so far after each execution.
        taken: The number of steps of the epoch that were taken before.
    """
    step = getattr(runner, mode)
    begin, end = (getattr(callbacks, f"on_{mode}_batch_{when}") for when in ("begin", "end"))
    while drawn := list(itertools.islice(batches, runner.model.steps_per_execution)):
        begin(taken)
        for batch in drawn:
            step(batch)
        taken += len(drawn)
        end(taken - 1, _metrics(runner) if reads else {})
        yield len(drawn)


@contextlib.contextmanager
def _saved_when_interrupted(runner: Runner, progress: Progress) -> Iterator[None]:
    """Saves at Ctrl-C, if this process can save without the others."""
    try:
        yield
    except KeyboardInterrupt:
        if runner.can_save_alone:
            progress.save()
        raise


@contextlib.contextmanager
def _clear_error_of_loss(epoch: int, backup_dir: str | os.PathLike[str] | None) -> Iterator[None]:
    """Replaces TensorFlow's error for a lost process with one that has a remedy."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        hope = (
            f"training goes on from the checkpoints in {backup_dir}"
            if backup_dir
            else "with backup_dir=... training would resume from a checkpoint"
        )
        raise RuntimeError(
            f"A process of the cluster was lost in epoch {epoch + 1}; see its output for the "
            f"cause. Start all of them again: {hope}."
        ) from error


def _metrics(runner: Runner) -> dict[str, Any]:
    """The metrics as callbacks get them: scalars as floats, all others as arrays."""
    values = {name: np.asarray(value) for name, value in runner.metrics().items()}
    return {name: value if value.ndim else float(value) for name, value in values.items()}
