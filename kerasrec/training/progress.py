"""How far training is, kept on disk, so that a restart goes on as if nothing had happened."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from kerasrec.training.memory import Memory
from kerasrec.training.runner import Runner
from kerasrec.training.strategies import is_chief, is_of_workers, of_all_workers


class Progress:
    """Epoch, step, and all that the rest of the training depends on.

    That is: the model's weights and random states, the optimizer's variables, the metrics so far
    and what callbacks remember. A checkpoint is a file of TensorFlow's, which takes its place only
    when all of it is written.

    Args:
        model: compiled, with all its variables.
        callbacks: whose `Memory` belongs to it.
        runner: with the variable that counts the steps of an epoch, and its sums of gradients.
        epoch: the number of the first epoch.
        directory: of the checkpoints; None for none.
    """

    def __init__(
        self,
        model: keras.Model,
        callbacks: Sequence[keras.callbacks.Callback],
        runner: Runner,
        epoch: int,
        directory: str | os.PathLike | None,
    ):
        self.epoch = epoch
        self.model = model
        self._step = runner.step
        self._directory = None if directory is None else Path(directory)
        if directory is None:
            return
        variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
        values = {id(variable): variable.value for variable in variables}
        checkpoint = tf.train.Checkpoint(
            variables=list(values.values()),
            step=runner.step,
            sums=runner.accumulation.sums if runner.accumulation else [],
            memory=_NoVariables(self, Memory(callbacks)),
        )
        # All workers must take part in reading what is spread over them, and one writes it.
        self._aside = tempfile.TemporaryDirectory()
        written = directory if is_chief(model.distribute_strategy) else self._aside.name
        self._manager = tf.train.CheckpointManager(checkpoint, written, max_to_keep=1)

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
        strategy = self.model.distribute_strategy
        if not is_of_workers(strategy):
            return
        own = tf.constant([[self.epoch, self.step]])
        places = of_all_workers(strategy, own)
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


class _NoVariables(tf.train.experimental.PythonState):
    """What is no variable, in a checkpoint."""

    def __init__(self, progress: Progress, memory: Memory):
        self._progress = progress
        self._memory = memory

    def serialize(self) -> bytes:
        buffer = io.BytesIO()
        np.savez(
            buffer,
            allow_pickle=False,
            epoch=self._progress.epoch,
            stopped=self._progress.model.stop_training,
            **self._memory.arrays(),
        )
        return buffer.getvalue()

    def deserialize(self, string_value: bytes) -> None:
        with np.load(io.BytesIO(string_value), allow_pickle=False) as file:
            arrays = dict(file)
        self._progress.epoch = int(arrays.pop("epoch"))
        self._progress.model.stop_training = bool(arrays.pop("stopped"))
        self._memory.take_up(arrays)
