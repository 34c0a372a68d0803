"""What training asks of a strategy of `tf.distribute`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def is_served(strategy: tf.distribute.Strategy) -> bool:
    """Whether a coordinator takes the steps, and workers and servers do what it says."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def is_of_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether several processes run the same program and step together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process, of those that run the same program, writes files and shows progress."""
    return strategy.extended.should_checkpoint


def splits_batches(strategy: tf.distribute.Strategy) -> bool:
    """Whether a batch is computed in parts: on several replicas, or by workers."""
    return is_served(strategy) or strategy.num_replicas_in_sync > 1


def of_all_workers(strategy: tf.distribute.Strategy, value: Any) -> list:
    """A value of each worker or replica, which all must ask for together.

    Args:
        strategy: for which `is_of_workers`.
        value: a tensor of one row, or such of each replica.
    """
    return strategy.gather(value, 0).numpy().tolist()
