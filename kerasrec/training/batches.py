"""The batches of an epoch, and each replica's part of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf

from kerasrec.training.strategies import is_of_workers, of_all_workers, replicas_here

# Reads the parts of the replicas of one process; the context says which these are.
Reader: TypeAlias = Callable[[tf.distribute.InputContext], tf.data.Dataset]


class Batches:
    """What a user passes as data.

    Args:
        name: of the argument, for errors.
        data: batches for all replicas together, as a dataset; or a function that reads parts of
            them.

    Raises:
        ValueError: if the data is neither, or has no end.
    """

    def __init__(self, name: str, data: tf.data.Dataset | Reader):
        self.name = name
        self.reader = data if callable(data) else None
        self.whole = data(tf.distribute.InputContext()) if callable(data) else data
        if not isinstance(self.whole, tf.data.Dataset):
            raise ValueError(
                f"`{name}` must be a tf.data.Dataset of batches, or a function of a "
                f"tf.distribute.InputContext that returns one; received {data!r}."
            )
        if self.whole.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError(
                f"`{name}` has no end, so an epoch would have none. Pass what one epoch is to "
                f"have, such as {name}.take(steps); each epoch takes it from its beginning."
            )

    @property
    def spec(self) -> Any:
        """The specs of a batch."""
        return self.whole.element_spec

    @property
    def number(self) -> int | None:
        """How many there are; None if that is not known."""
        number = int(self.whole.cardinality())
        return number if number >= 0 else None

    def parts(self, strategy: tf.distribute.Strategy) -> Parts:
        """The parts of each batch for the replicas of a strategy that are of this process."""
        return Parts(self, strategy)


class Parts:
    """Parts of batches: of each batch a tuple of what the replicas of this process get.

    Every replica gets one, which may have no examples.

    Not of `tf.distribute`, whose iterator asks all workers before each batch whether one has
    another: here all have as many.

    Raises:
        ValueError: in the first batch of an epoch, if workers that all read whole batches have
            drawn different ones.
    """

    def __init__(self, batches: Batches, strategy: tf.distribute.Strategy):
        self._name = batches.name
        self._strategy = strategy
        context = replicas_here(strategy)
        self._number = context.num_replicas_in_sync // context.num_input_pipelines
        self._is_checked = is_of_workers(strategy) and batches.reader is None
        if batches.reader:
            self._dataset = batches.reader(context)
        elif context.num_replicas_in_sync == 1:
            self._dataset = batches.whole
        else:
            self._dataset = _split(batches.whole, context)

    @property
    def spec(self) -> tuple:
        """The specs of the parts of a batch."""
        spec = self._dataset.element_spec
        return (spec[0] if self._is_checked else spec,) * self._number

    def __iter__(self) -> Iterator[tuple]:
        drawn = iter(self._dataset)
        for index in itertools.count():
            parts = tuple(itertools.islice(drawn, self._number))
            if not parts:
                return
            if self._is_checked:
                parts, fingerprints = zip(*parts, strict=True)
                if index == 0:
                    self._check(of_all_workers(self._strategy, fingerprints[0]))
            yield parts

    def _check(self, fingerprints: list) -> None:
        if any(of != fingerprints[0] for of in fingerprints):
            raise ValueError(
                f"Workers draw different batches of `{self._name}`, so that some examples would "
                "come several times in an epoch and others never. Read the same files in all of "
                "them, and shuffle with a seed."
            )


def _split(whole: tf.data.Dataset, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """The parts of batches that are of a process: of each batch one replica's after another's.

    On several workers a fingerprint of the whole batch comes with each.
    """
    number = context.num_replicas_in_sync
    here = number // context.num_input_pipelines
    first = context.input_pipeline_id * here

    def split(index: tf.Tensor, batch: Any) -> tf.data.Dataset:
        parts = [part_of(batch, replica, number) for replica in range(first, first + here)]
        if context.num_input_pipelines > 1:
            fingerprint = tf.cond(
                index == 0, lambda: _fingerprint(batch), lambda: tf.zeros([1], tf.int64)
            )
            parts = [(part, fingerprint) for part in parts]
        return functools.reduce(
            tf.data.Dataset.concatenate, map(tf.data.Dataset.from_tensors, parts)
        )

    return whole.enumerate().flat_map(split).prefetch(tf.data.AUTOTUNE)


def _fingerprint(batch: Any) -> tf.Tensor:
    """A number that other batches do not have, int64 `[1]`."""
    tensors = tf.nest.flatten(batch, expand_composites=True)
    text = tf.strings.join([tf.io.serialize_tensor(tensor) for tensor in tensors])
    return tf.strings.to_hash_bucket_fast(text[tf.newaxis], 2**62)


def part_of(batch: Any, part: int, number: int) -> Any:
    """Every so manyth row of a batch, so that parts are alike if rows beside each other are.

    As they are in batches of trees, which come in order of size.
    """
    return tf.nest.map_structure(lambda of: of[part::number], batch)
