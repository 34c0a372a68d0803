"""Which of several workers' callbacks write files, and which read metrics."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf

from kerasrec._src.training.strategies import is_chief, of_all_workers


def of_this_worker(
    callbacks: Sequence[keras.callbacks.Callback] | keras.callbacks.Callback | None,
    strategy: tf.distribute.Strategy,
    goes_on: bool,
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks that a worker is to call.

    The chief's callbacks write files. Other workers save models at the same time, because all
    workers must take part in reading distributed variables, but to a temporary directory. They
    write no logs.

    Args:
        callbacks: The user's callbacks, the same in every worker.
        strategy: The model's strategy.
        goes_on: Whether training goes on from a checkpoint, so that logs also go on.

    Raises:
        ValueError: If a callback restores training, which `fit` does itself.
    """
    callbacks = list(keras.tree.flatten(callbacks or []))
    if any(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in callbacks):
        raise ValueError(
            "kerasrec.training.fit saves and restores checkpoints itself: pass backup_dir=... "
            "instead of the callback BackupAndRestore."
        )
    if is_chief(strategy):
        return [_appending(callback) if goes_on else callback for callback in callbacks]
    logs = keras.callbacks.CSVLogger, keras.callbacks.TensorBoard
    kept = [callback for callback in callbacks if not isinstance(callback, logs)]
    return [
        _aside(callback) if isinstance(callback, keras.callbacks.ModelCheckpoint) else callback
        for callback in kept
    ]


def want_metrics(
    callbacks: Sequence[keras.callbacks.Callback], strategy: tf.distribute.Strategy, *methods: str
) -> bool:
    """Whether a callback, of any worker, may look at the metrics of each batch.

    To read them, all workers must exchange theirs, so either all do or none.

    Args:
        callbacks: The callbacks of this worker.
        strategy: The model's strategy.
        methods: The methods by which a callback would get the metrics.
    """
    wanted = any(
        getattr(getattr(callback, method), "__func__", None)
        is not getattr(keras.callbacks.Callback, method)
        for callback in callbacks
        for method in methods
    )
    return any(map(any, of_all_workers(strategy, int(wanted))))


def _appending(callback: keras.callbacks.Callback) -> keras.callbacks.Callback:
    """The same callback, which appends to its log instead of overwriting it."""
    if isinstance(callback, keras.callbacks.CSVLogger):
        callback = copy.copy(callback)
        callback.append = True
    return callback


def _aside(callback: keras.callbacks.ModelCheckpoint) -> keras.callbacks.ModelCheckpoint:
    """The same callback, which writes to a temporary directory."""
    callback = copy.copy(callback)
    callback.directory = tempfile.TemporaryDirectory()  # lives as long as the callback
    callback.filepath = str(Path(callback.directory.name) / Path(callback.filepath).name)
    return callback
