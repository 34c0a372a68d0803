"""The progress of training, kept on disk, so that a restart reaches the same weights."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.training.batches import fingerprint_of
from kerasrec._src.training.checkpoints import Checkpoints
from kerasrec._src.training.memory import Memory, packed, unpacked
from kerasrec._src.training.runner import Runner
from kerasrec._src.training.strategies import (
    is_chief,
    is_of_workers,
    is_served,
    of_all_workers,
    splits_batches,
)


class Progress:
    """Epoch, step, and everything on which the rest of the training depends.

    These are the model's weights and random states, the optimizer's variables, the metrics so far,
    and the state of callbacks.

    Args:
        model: A compiled model, with all its variables.
        callbacks: The callbacks whose `Memory` is part of the progress.
        runner: The runner, with the variable that counts the steps of an epoch, and its sums of
            gradients.
        epoch: The number of the first epoch.
        checkpoints: The checkpoints to which the progress is saved.

    Attributes:
        logs: The metrics of the epoch, when all its steps are taken; None before.
    """

    def __init__(
        self,
        model: keras.Model,
        callbacks: Sequence[keras.callbacks.Callback],
        runner: Runner,
        epoch: int,
        checkpoints: Checkpoints,
    ):
        self.epoch = epoch
        self.model = model
        self.logs: dict[str, Any] | None = None
        self._step = runner.step
        self._checkpoints = checkpoints
        self._saved: tuple[int, int, bool] | None = None
        # Values from the start of training, with which a checkpoint is compared.
        self.learning_rate = _learning_rate(model)
        self.first_batch: str | None = None
        self._drew_first = False
        if checkpoints.directory is None:
            return
        self._weights = _by_path([*model.variables, *model.optimizer.variables])
        self._variables = self._weights | _by_path(model.metrics_variables)
        self._sums = runner.accumulation.sums if runner.accumulation else []
        # Variables may have infinities from the start, for instance a mask.
        self._never_finite = set(self._not_finite())
        self._has_warned = False
        self._checkpoint = tf.train.Checkpoint(
            variables=list(self._variables.values()),
            step=runner.step,
            sums=self._sums,
            memory=_NoVariables(self, Memory(callbacks)),
        )

    @property
    def step(self) -> int:
        """The number of steps of the epoch that were taken."""
        return int(self._step.numpy())

    def restore(self) -> None:
        """Goes back to the newest checkpoint, if there is one.

        Raises:
            ValueError: If the checkpoint is of another model or optimizer, or is not the same for
                all workers.
        """
        if self._checkpoints.directory is None:
            return
        newest = self._checkpoints.newest
        if newest:
            compiled = self.learning_rate
            difference = self._difference(newest)
            try:
                if not difference:
                    self._checkpoint.restore(newest).assert_consumed()
            except (AssertionError, ValueError) as error:
                difference = str(error).splitlines()[0]
            if difference:
                raise ValueError(
                    f"The checkpoint {newest} is of another model or optimizer than this one: "
                    f"{difference}. Choose another `backup_dir`, or empty it."
                )
            self._saved = self._place()
            self._compare_learning_rates(compiled)
        self._check_workers_agree()

    def begin_epoch(self, callbacks: keras.callbacks.CallbackList) -> None:
        """Tells callbacks that an epoch begins.

        If the restored epoch goes on, callbacks have begun it before. The variables that they
        changed then, such as the learning rate, have their values in the checkpoint, which is read
        again.
        """
        callbacks.on_epoch_begin(self.epoch)
        if self.step > 0 or self.logs is not None:
            variables = tf.train.Checkpoint(variables=list(self._variables.values()))
            variables.restore(self._checkpoints.newest).expect_partial()

    def watched(self, data: Iterable[Any]) -> Iterator[Any]:
        """Yields the batches; the first shows whether the data are the same as before."""
        for drawn in data:
            if not self._drew_first and self._checkpoints.directory is not None:
                self._drew_first = True
                self._compare_first(drawn)
            yield drawn

    def save(self) -> None:
        """Writes a checkpoint, unless a weight is not finite or nothing has changed.

        Raises:
            OSError: If the checkpoint cannot be written; the one before stays unchanged.
        """
        if self._checkpoints.directory is None or self._place() == self._saved:
            return
        spoilt = [path for path in self._not_finite() if path not in self._never_finite]
        if spoilt:
            self._warn_of(spoilt)
            return
        self._checkpoints.save(self._checkpoint)
        self._saved = self._place()

    def end_epoch(self) -> None:
        """Begins the next epoch."""
        self.epoch += 1
        self.logs = None
        self._step.assign(0)
        self.save()

    def _place(self) -> tuple[int, int, bool]:
        return self.epoch, self.step, self.logs is None

    def _difference(self, checkpoint: str) -> str | None:
        """How a checkpoint differs from the model and its optimizer; None if it does not."""
        saved = {}
        reader = tf.train.load_checkpoint(checkpoint)
        for key, shape in reader.get_variable_to_shape_map().items():
            if key.startswith("memory/"):
                own = type(self.model.optimizer).__name__
                made_with = unpacked(reader.get_tensor(key))["optimizer"]
                if made_with != own:
                    return f"it was made with the optimizer {made_with}, not {own}"
            match = re.match(r"variables/(\d+)/", key)
            if match:
                saved[int(match[1])] = shape
        if len(saved) != len(self._variables):
            return f"it has {len(saved)} variables, not {len(self._variables)}"
        for number, (path, variable) in enumerate(self._variables.items()):
            shape = variable.shape.as_list()
            if saved.get(number, shape) != shape:
                return f"its variable for {path} has shape {saved[number]}, not {shape}"
        return None

    def _compare_learning_rates(self, compiled: float | None) -> None:
        """Warns if the compiled learning rate is not that of the checkpoint, which is used."""
        restored = _learning_rate(self.model)
        if compiled not in (self.learning_rate, restored):
            warnings.warn(
                f"The model is compiled with a learning rate of {compiled:g}, but training goes on "
                f"with that of the checkpoint, {restored:g}. To change it during training, use "
                "keras.callbacks.LearningRateScheduler.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _compare_first(self, drawn: Any) -> None:
        """Warns if the first batch is not the one with which training began."""
        strategy = self.model.distribute_strategy
        if not is_chief(strategy):
            return
        parts = len(drawn) if splits_batches(strategy) and not is_served(strategy) else 1
        # With another number of replicas the parts differ, and cannot be compared.
        layout = f"{parts} of {1 if parts == 1 else strategy.num_replicas_in_sync}"
        if is_of_workers(strategy):
            layout += " of workers"
        own = f"{layout}: {int(np.ravel(fingerprint_of(drawn))[0])}"
        began, self.first_batch = self.first_batch, self.first_batch or own
        if began and began.startswith(f"{layout}:") and began != own:
            warnings.warn(
                "The first batch of `data` is not the one that the training of the checkpoint "
                "began with: the examples, the batch size or the order have changed. Training goes "
                "on, but it will not reach the weights of an uninterrupted run, and within an "
                "epoch examples may come twice or never. Give `shuffle` a seed, and do not change "
                "the data.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _not_finite(self) -> list[str]:
        """The names of the variables that have an entry that is not finite."""
        sums = {f"a sum of gradients, {total.name}": total for total in self._sums}
        values = {
            path: variable
            for path, variable in (self._weights | sums).items()
            if variable.dtype.is_floating
        }
        # All are read together, so that we wait for the device only once.
        finite = [
            tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(variable)))
            for variable in values.values()
        ]
        return list(itertools.compress(values, ~tf.stack([True, *finite]).numpy()[1:]))

    def _warn_of(self, spoilt: list[str]) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        newest = self._checkpoints.newest
        kept = f"{newest} stays the newest" if newest else "there is none yet"
        warnings.warn(
            f"After {self.epoch} epochs and {self.step} steps not all of {spoilt[0]} is finite"
            f"{f' (nor of {len(spoilt) - 1} other variables)' if len(spoilt) > 1 else ''}, so no "
            f"checkpoint is written: {kept}. Training goes on, and checkpoints are written again "
            "once all values are finite. keras.callbacks.TerminateOnNaN() ends training when the "
            "loss is NaN; a smaller learning rate or clipped gradients may prevent it.",
            RuntimeWarning,
            stacklevel=2,
        )

    def _check_workers_agree(self) -> None:
        places = of_all_workers(self.model.distribute_strategy, self.epoch, self.step)
        if any(place != places[0] for place in places):
            raise ValueError(
                f"Workers resume from different places, [epoch, step] {places}: each has its own "
                f"{self._checkpoints.directory}. `backup_dir` must be on a disk that all share."
            )


# The attributes of `Progress` that a checkpoint holds.
KEPT = ("epoch", "logs", "learning_rate", "first_batch")


class _NoVariables(tf.train.experimental.PythonState):
    """The part of a checkpoint that is not variables."""

    def __init__(self, progress: Progress, memory: Memory):
        self._progress = progress
        self._memory = memory

    def serialize(self) -> bytes:
        return packed(
            {
                **{name: getattr(self._progress, name) for name in KEPT},
                "stopped": self._progress.model.stop_training,
                "optimizer": type(self._progress.model.optimizer).__name__,
                "callbacks": self._memory.changed(),
            }
        )

    def deserialize(self, string_value: bytes) -> None:
        values = unpacked(string_value)
        for name in KEPT:
            setattr(self._progress, name, values[name])
        self._progress.model.stop_training = values["stopped"]
        self._memory.take_up(values["callbacks"])


def _learning_rate(model: keras.Model) -> float | None:
    """The optimizer's learning rate; None if it is a schedule, which is not a variable."""
    rate = getattr(model.optimizer, "learning_rate", None)
    return float(rate.numpy()) if isinstance(rate, keras.Variable) else None


def _by_path(variables: Sequence[keras.Variable]) -> dict[str, Any]:
    """TensorFlow's variables, each once, by the paths of Keras' variables."""
    once = {id(variable.value): variable for variable in variables}
    paths: dict[str, Any] = {}
    for variable in once.values():
        path = variable.path
        while path in paths:  # Two layers may have one name.
            path += "'"
        paths[path] = variable.value
    return paths
