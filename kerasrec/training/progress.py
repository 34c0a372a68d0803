"""How far training is, kept on disk, so that a restart goes on as if nothing had happened."""

from __future__ import annotations

import io
import itertools
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf


class Progress:
    """Epoch, step, and all that the rest of the training depends on.

    That is: the model's weights and random states, the optimizer's variables, the metrics so far
    and what callbacks remember. A checkpoint is a file of TensorFlow's, which takes its place only
    when all of it is written.

    Args:
        model: compiled, with all its variables.
        callbacks: whose state belongs to it: attributes that have changed since training began,
            and are numbers, strings, lists or dicts of these, or lists of arrays.
        step: the variable that counts the steps of an epoch, as a part of each.
        epoch: the number of the first epoch.
        directory: of the checkpoints; None for none.
    """

    def __init__(
        self,
        model: keras.Model,
        callbacks: Sequence[keras.callbacks.Callback],
        step: tf.Variable,
        epoch: int,
        directory: str | os.PathLike | None,
    ):
        self.epoch = epoch
        self._model = model
        self._step = step
        self._directory = None if directory is None else Path(directory)
        self._callbacks = _by_class(callbacks)
        self._at_first = {key: _attributes(of) for key, of in self._callbacks.items()}
        if directory is None:
            return
        variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
        values = {id(variable): variable.value for variable in variables}
        checkpoint = tf.train.Checkpoint(
            variables=list(values.values()), step=step, memory=_Memory(self)
        )
        # All workers must take part in reading what is spread over them, and one writes it.
        self._aside = tempfile.TemporaryDirectory()
        is_chief = model.distribute_strategy.extended.should_checkpoint
        self._manager = tf.train.CheckpointManager(
            checkpoint, directory if is_chief else self._aside.name, max_to_keep=1
        )

    @property
    def step(self) -> int:
        """How many steps of the epoch were taken."""
        return int(self._step.numpy())

    def restore(self) -> None:
        """Goes back to the newest checkpoint, if there is one.

        Raises:
            ValueError: if it is of another model or optimizer, or not the same for all workers.
        """
        if self._directory is None:
            return
        newest = tf.train.latest_checkpoint(self._directory)
        if newest:
            try:
                self._manager.checkpoint.restore(newest).assert_consumed()
            except (AssertionError, ValueError) as error:
                raise ValueError(
                    f"The checkpoint {newest} is of another model or optimizer than this one. "
                    "Choose another `backup_dir`, or remove what is in it."
                ) from error
        self._check_workers_agree()

    def _check_workers_agree(self) -> None:
        strategy = self._model.distribute_strategy
        if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return
        own = tf.constant([[self.epoch, self.step]])
        places = strategy.gather(strategy.run(lambda: own), 0).numpy().tolist()
        if any(place != places[0] for place in places):
            raise ValueError(
                f"Workers go on from different places, [epoch, step] {places}: each has found what "
                f"is in a {self._directory} of its own. `backup_dir` must be on a disk that all "
                "share."
            )

    def save(self) -> None:
        """Writes a checkpoint."""
        if self._directory:
            self._manager.save()

    def end_epoch(self) -> None:
        """Begins the next epoch."""
        self.epoch += 1
        self._step.assign(0)
        self.save()

    def remembered(self) -> dict[str, np.ndarray]:
        """What is no variable, as arrays by name."""
        attributes = {
            key: {
                name: value
                for name, value in _attributes(callback).items()
                if value != self._at_first[key].get(name)
            }
            for key, callback in self._callbacks.items()
        }
        arrays = {
            f"{key}/{name}/{place}": value
            for key, callback in self._callbacks.items()
            for name, values in _array_lists(callback)
            for place, value in enumerate(values)
        }
        numbers = {
            "attributes": json.dumps(attributes),
            "epoch": self.epoch,
            "stopped": self._model.stop_training,
        }
        return {**{name: np.array(value) for name, value in numbers.items()}, **arrays}

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Takes up what `remembered` gave."""
        self.epoch = int(memory.pop("epoch"))
        self._model.stop_training = bool(memory.pop("stopped"))
        for key, attributes in json.loads(str(memory.pop("attributes"))).items():
            for name, value in attributes.items():
                if key in self._callbacks:
                    setattr(self._callbacks[key], name, json.loads(value))
        lists: dict[tuple[str, str], list[np.ndarray]] = {}
        for place, value in memory.items():
            key, name, _ = place.split("/")
            lists.setdefault((key, name), []).append(value)
        for (key, name), values in lists.items():
            if key in self._callbacks:
                setattr(self._callbacks[key], name, values)


class _Memory(tf.train.experimental.PythonState):
    """What is no variable, in a checkpoint."""

    def __init__(self, progress: Progress):
        self._progress = progress

    def serialize(self) -> bytes:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **self._progress.remembered())
        return buffer.getvalue()

    def deserialize(self, string_value: bytes) -> None:
        with np.load(io.BytesIO(string_value), allow_pickle=False) as arrays:
            self._progress.remember(dict(arrays))


def _by_class(
    callbacks: Sequence[keras.callbacks.Callback],
) -> dict[str, keras.callbacks.Callback]:
    """Callbacks by the name of their class, and their number in it."""
    numbers: dict[str, Iterator[int]] = defaultdict(itertools.count)
    names = [type(callback).__name__ for callback in callbacks]
    return {
        f"{name} {next(numbers[name])}": callback
        for name, callback in zip(names, callbacks, strict=True)
    }


def _attributes(callback: keras.callbacks.Callback) -> dict[str, str]:
    """The attributes of a callback that JSON can hold, as JSON."""
    found = {}
    for name, value in vars(callback).items():
        try:
            found[name] = json.dumps(value, default=_number)
        except (TypeError, ValueError):
            continue
    return found


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError


def _array_lists(callback: keras.callbacks.Callback) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The attributes of a callback that are lists of arrays, such as the best weights."""
    for name, value in vars(callback).items():
        if isinstance(value, list) and value and all(isinstance(of, np.ndarray) for of in value):
            yield name, value
