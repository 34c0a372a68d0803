"""The checkpoints of one training run, in a separate directory.

`tf.train.Checkpoint` writes them. `tf.train.CheckpointManager` would choose among them only by the
file `checkpoint`: if that is missing or damaged, training starts over without an error. It neither
goes back from a damaged checkpoint to the one before, nor removes the remains of a save that was
cut short. `keras.callbacks.BackupAndRestore` overwrites its file in place, and begins the epoch
again; in another order, if the data are shuffled.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import warnings
from collections import defaultdict
from typing import Any

import tensorflow as tf

from kerasrec._src.training.lock import locked
from kerasrec._src.training.strategies import is_chief, of_all_workers

# The number that is kept: if the newest is damaged, training resumes from the one before.
NUM_KEPT = 2
NAME = "ckpt"
# TensorFlow writes data and index to a folder, moves the data out of it, writes the index, removes
# the folder, and finally replaces this text file, which names the newest checkpoint.
NEWEST = "checkpoint"
FILE = re.compile(rf"{NAME}-(\d+)(_temp|\.index|\.data-\d+-of-\d+)")
# Every error that TensorFlow raises when it reads damaged files.
UNREADABLE = (tf.errors.OpError, IndexError, ValueError, RuntimeError, MemoryError)


class Checkpoints(contextlib.AbstractContextManager["Checkpoints"]):
    """Writes checkpoints to a directory, keeps the last two, and finds the newest that is whole.

    The newest checkpoint has the highest number; TensorFlow's checksums of index and data show
    whether it is whole. The file `checkpoint` is not needed for this. Inside the context the chief
    keeps the directory locked, and removes the remains of a save that was cut short.

    Args:
        directory: The directory, which is made if it does not exist; None for no checkpoints.
        strategy: The model's strategy.

    Attributes:
        directory: The directory; None for no checkpoints.
        newest: The newest checkpoint that can be read; None if there is none.
    """

    def __init__(self, directory: str | os.PathLike[str] | None, strategy: tf.distribute.Strategy):
        self.directory = None if directory is None else os.fspath(directory)
        self.newest: str | None = None
        self._strategy = strategy
        self._until_the_end = contextlib.ExitStack()
        self._last_number = 0
        self._kept: list[int] = []

    def __enter__(self) -> Checkpoints:
        """Locks the directory and looks for the newest checkpoint.

        Raises:
            ValueError: If the directory has checkpoints, but none can be read.
            OSError: If `directory` is not a directory, or cannot be written.
            RuntimeError: If another program trains with the directory, or another worker cannot use
                it.
        """
        if self.directory is None:
            return self
        with contextlib.ExitStack() as until_the_end:
            with _together(self._strategy, self.directory):
                self._written = self._place_to_write(until_the_end)
                interrupted = self._choose()
            # Only after all workers have chosen.
            self._remove(interrupted, self.directory)
            self._until_the_end = until_the_end.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._until_the_end.close()

    def save(self, checkpoint: tf.train.Checkpoint) -> None:
        """Writes a checkpoint, and removes all except this one and the one before.

        Raises:
            OSError: If the checkpoint cannot be written; the one before stays unchanged.
        """
        # Numbers go on from the largest that exists, even if that checkpoint is damaged.
        checkpoint.save_counter.assign(self._last_number)
        try:
            self.newest = checkpoint.save(os.path.join(self._written, NAME))
        except (tf.errors.UnavailableError, tf.errors.AbortedError):
            raise  # a process of the cluster is lost
        except (tf.errors.OpError, OSError) as error:
            with contextlib.suppress(tf.errors.OpError, OSError):
                self._remove([self._last_number + 1], self._written)
            last = _name(self._kept[-1]) if self._kept else None
            left = f"{last}, which was saved before, is unchanged" if last else "There is none yet"
            raise OSError(
                f"A checkpoint could not be written to '{self.directory}': {_first_line(error)}. "
                f"{left}. Check whether the disk is full, and start the program again."
            ) from error
        self._last_number += 1
        self._kept = [*self._kept, self._last_number][-NUM_KEPT:]
        self._remove(_files(self._written).keys() - set(self._kept), self._written)

    def _place_to_write(self, until_the_end: contextlib.ExitStack) -> str:
        """The directory, locked; a temporary one for workers that keep no files."""
        assert self.directory is not None
        if not is_chief(self._strategy):
            return until_the_end.enter_context(tempfile.TemporaryDirectory())
        try:
            tf.io.gfile.makedirs(self.directory)
            if "://" not in self.directory:  # Only a path of the operating system has locks.
                until_the_end.enter_context(locked(self.directory))
        except (tf.errors.OpError, OSError) as error:
            raise OSError(
                f"`backup_dir` is '{self.directory}', to which checkpoints cannot be written: "
                f"{_first_line(error)}. Pass a directory that this program can write to."
            ) from error
        return self.directory

    def _choose(self) -> list[int]:
        """Finds the newest checkpoint; returns the numbers of those that were never whole.

        Raises:
            ValueError: If there are checkpoints, but none can be read.
        """
        assert self.directory is not None
        files = _files(self.directory)
        self._last_number = max(files, default=0)
        damages, interrupted = [], []
        for number in sorted(files, reverse=True):
            damage = _damage(self.directory, number, files[number])
            if damage is None:
                self._kept = [number]
                self.newest = os.path.join(self.directory, _name(number))
                break
            if f"{_name(number)}_temp" in files[number]:
                interrupted.append(number)
            else:
                damages.append(damage)
        damages += _damage_of_newest(self.directory, files)
        if damages and self.newest is None:
            raise ValueError(
                f"`backup_dir` is '{self.directory}', in which no checkpoint can be read: "
                f"{'; '.join(damages)}. Training does not start over by itself: restore these "
                "files from a copy, or choose another `backup_dir`, or empty this one to start "
                "over."
            )
        if damages:
            warnings.warn(
                f"In '{self.directory}' {'; '.join(damages)}. Training goes on from "
                f"{_name(self._kept[0])}, the newest checkpoint that can be read.",
                RuntimeWarning,
                stacklevel=2,
            )
        return [*interrupted, *self._kept]

    def _remove(self, numbers: Any, directory: str) -> None:
        """Removes checkpoints that are not kept, and temporary files that a save has left."""
        if not is_chief(self._strategy) and directory == self.directory:
            return
        files = _files(directory)
        for number in set(numbers) & files.keys():
            # The folder goes last: it marks the other files as those of a save that was cut short.
            for name in sorted(files[number], key=lambda name: name.endswith("_temp")):
                path = os.path.join(directory, name)
                if name.endswith("_temp"):
                    tf.io.gfile.rmtree(path)
                elif number not in self._kept:
                    tf.io.gfile.remove(path)
        for name in tf.io.gfile.listdir(directory):
            if name.startswith(f"{NEWEST}.tmp"):
                tf.io.gfile.remove(os.path.join(directory, name))


def _name(number: int) -> str:
    return f"{NAME}-{number}"


def _files(directory: str) -> dict[int, list[str]]:
    """The files and folders of each checkpoint, by its number."""
    files = defaultdict(list)
    with contextlib.suppress(tf.errors.NotFoundError):
        for name in tf.io.gfile.listdir(directory):
            match = FILE.fullmatch(name.rstrip("/"))
            if match:
                files[int(match[1])].append(name.rstrip("/"))
    return dict(files)


def _damage(directory: str, number: int, files: list[str]) -> str | None:
    """The damage to a checkpoint; None if all of it can be read."""
    index = f"{_name(number)}.index"
    if index not in files:
        return f"the file {index} is missing"
    try:
        reader = tf.train.load_checkpoint(os.path.join(directory, _name(number)))
        keys = list(reader.get_variable_to_shape_map())
    except UNREADABLE as error:
        return f"the file {index} is damaged ({_first_line(error)})"
    for key in keys:
        try:
            reader.get_tensor(key)
        except UNREADABLE as error:
            missing = re.search(rf"{_name(number)}\.data-\d+-of-\d+", str(error))
            if missing and missing[0] not in files:
                return f"the file {missing[0]} is missing"
            shards = sorted(name for name in files if ".data-" in name)
            shard = re.search(r"shard (\d+)", str(error))
            if shard and int(shard[1]) < len(shards):
                shards = [shards[int(shard[1])]]
            return f"the file {' or '.join(shards)} is damaged ({_first_line(error)})"
    return None


def _damage_of_newest(directory: str, files: dict[int, list[str]]) -> list[str]:
    """The damage to the file that names the newest checkpoint, given the files that exist."""
    try:
        with tf.io.gfile.GFile(os.path.join(directory, NEWEST), "rb") as file:
            named = re.match(rb'model_checkpoint_path: "(?:[^"]*/)?ckpt-(\d+)"\n', file.read())
    except tf.errors.NotFoundError:
        is_expected = any(f"{_name(number)}_temp" not in names for number, names in files.items())
        return [f"the file {NEWEST} is missing"] if is_expected else []
    if not named:
        return [f"the file {NEWEST} is damaged"]
    if int(named[1]) > max(files, default=0):
        return [f"the files of {_name(int(named[1]))} are missing, which {NEWEST} names"]
    return []


def _first_line(error: BaseException) -> str:
    """The first line of an error, without the op that TensorFlow puts before it."""
    text = str(getattr(error, "message", error) or error).strip()
    return re.sub(r"^\{\{.*?\}\} ", "", text).splitlines()[0] if text else type(error).__name__


@contextlib.contextmanager
def _together(strategy: tf.distribute.Strategy, directory: str) -> Any:
    """Raises an error in all workers if one has raised one, since the others would wait for it."""
    failed = True
    try:
        yield
        failed = False
    finally:
        answers = of_all_workers(strategy, int(failed))
        if not failed and [1] in answers:
            raise RuntimeError(
                f"Worker {answers.index([1])} cannot use `backup_dir` '{directory}'; see its error."
            )
