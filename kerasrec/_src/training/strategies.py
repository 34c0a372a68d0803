"""The facts that training needs about a strategy of `tf.distribute`."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_DEFAULT = tf.distribute.get_strategy()
# What TensorFlow logs of replicas that run in a process other than usual.
_ADVICE = ("eagerly has significant overhead", "without using `ClusterCoordinator.schedule`")


def is_served(strategy: tf.distribute.Strategy) -> bool:
    """Whether a coordinator takes the steps, and directs workers and servers."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def is_of_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether several processes run the same program and step together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process, of those that run the same program, writes files and shows progress."""
    return strategy.extended.should_checkpoint


def is_default(strategy: tf.distribute.Strategy) -> bool:
    """Whether a strategy is the one outside of every scope."""
    return isinstance(strategy, type(_DEFAULT))


def splits_batches(strategy: tf.distribute.Strategy) -> bool:
    """Whether a batch is computed in parts: on several replicas, or by workers."""
    return is_served(strategy) or strategy.num_replicas_in_sync > 1


@contextlib.contextmanager
def without_advice() -> Iterator[None]:
    """A context in which `strategy.run` may be called eagerly, or in a coordinator, without advice.

    TensorFlow would log a warning for each such call, though some have to be made there: those that
    create variables, and the step of a coordinator.
    """
    logger = tf.get_logger()

    def is_kept(record: logging.LogRecord) -> bool:
        return not any(text in record.getMessage() for text in _ADVICE)

    logger.addFilter(is_kept)
    try:
        yield
    finally:
        logger.removeFilter(is_kept)


def replicas_here(strategy: tf.distribute.Strategy) -> tf.distribute.InputContext:
    """The replicas of a strategy that belong to this process."""

    @tf.function(autograph=False)
    def numbers() -> Any:
        context = tf.distribute.get_replica_context
        return strategy.run(lambda: tf.identity(context().replica_id_in_sync_group))

    here = [int(number) for number in strategy.experimental_local_results(numbers())]
    return tf.distribute.InputContext(
        strategy.num_replicas_in_sync // len(here),
        min(here) // len(here),
        strategy.num_replicas_in_sync,
    )


def of_all_workers(strategy: tf.distribute.Strategy, *numbers: int) -> list[list[int]]:
    """This process's numbers; if workers step together, those of every replica.

    All workers must ask together.
    """
    if not is_of_workers(strategy):
        return [list(numbers)]
    return asking_all_workers(strategy, len(numbers))(list(numbers))


# TensorFlow warns of replicas that run outside of a function, and of one that is often traced.
@functools.lru_cache(maxsize=8)
def asking_all_workers(
    strategy: tf.distribute.Strategy, size: int
) -> Callable[[list[int]], list[list[int]]]:
    """Like `of_all_workers`, compiled once, for rows of `size` integers."""
    number = strategy.num_replicas_in_sync

    @tf.function(input_signature=[tf.TensorSpec([size], tf.int64)], autograph=False)
    def rows(own: tf.Tensor) -> tf.Tensor:
        def on_replica() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            place = tf.one_hot(context.replica_id_in_sync_group, number, dtype=tf.int64)
            return context.all_reduce("sum", place[:, None] * own)

        return strategy.run(on_replica)

    return lambda own: strategy.experimental_local_results(rows(own))[0].numpy().tolist()
