"""The batches of an epoch, and each replica's part of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf

from kerasrec.training.strategies import is_of_workers, of_all_workers

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
        self._name = name
        self._reader = data if callable(data) else None
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

    def distributed(self, strategy: tf.distribute.Strategy) -> Any:
        """The batches, with a part of each for each replica of a strategy.

        Raises:
            ValueError: in the first batch of an epoch, if workers that all read whole batches have
                drawn different ones.
        """
        if self._reader:
            return strategy.distribute_datasets_from_function(self._reader)
        parts = strategy.distribute_datasets_from_function(self._parts)
        return _Agreeing(self._name, parts, strategy) if is_of_workers(strategy) else parts

    def _parts(self, context: tf.distribute.InputContext) -> tf.data.Dataset:
        """The parts of the replicas of one process: in each step, one's after another's.

        Every replica gets a part, which may have no examples. On several workers a fingerprint of
        the batch comes with it.
        """
        number = context.num_replicas_in_sync
        of_workers = context.num_input_pipelines > 1
        here = number // context.num_input_pipelines
        first = context.input_pipeline_id * here
        if number == 1:
            return self.whole

        def split(index: tf.Tensor, batch: Any) -> tf.data.Dataset:
            parts = [part_of(batch, replica, number) for replica in range(first, first + here)]
            if of_workers:
                fingerprint = tf.cond(
                    index == 0, lambda: _fingerprint(batch), lambda: tf.zeros([1], tf.int64)
                )
                parts = [(part, fingerprint) for part in parts]
            return functools.reduce(
                tf.data.Dataset.concatenate, map(tf.data.Dataset.from_tensors, parts)
            )

        return self.whole.enumerate().flat_map(split).prefetch(tf.data.AUTOTUNE)


class _Agreeing:
    """Parts of batches, and a check that all workers draw the same."""

    def __init__(self, name: str, parts: Any, strategy: tf.distribute.Strategy):
        self._name = name
        self._parts = parts
        self._strategy = strategy

    def __iter__(self) -> Iterator[Any]:
        for index, (part, fingerprint) in enumerate(self._parts):
            if index == 0:
                self._check(of_all_workers(self._strategy, fingerprint))
            yield part

    def _check(self, fingerprints: list) -> None:
        if any(of != fingerprints[0] for of in fingerprints):
            raise ValueError(
                f"Workers draw different batches of `{self._name}`, so that some examples would "
                "come several times in an epoch and others never. Read the same files in all of "
                "them, and shuffle with a seed."
            )


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
