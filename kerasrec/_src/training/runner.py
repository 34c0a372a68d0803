"""Runs a model's steps: on one device, and under the strategies in which replicas step together.

`parameter_server.py` has the runner for the other strategy.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.sparse_gradients import Gradients
from kerasrec._src.training import replica
from kerasrec._src.training.accumulation import Accumulation
from kerasrec._src.training.batches import Batches, Parts
from kerasrec._src.training.strategies import is_of_workers


class Runner(abc.ABC):
    """Runs a model's steps under its strategy.

    Args:
        model: A compiled model that was made in the scope of its strategy.
        batches: The batches that the model will get.

    Attributes:
        model: The model.
        data: The batches, as `train` and `test` take them.
        test: Updates loss and metrics with a batch.
        step: The variable that counts the steps of an epoch, as a part of each step.
        accumulation: Adds up gradients; None if each step moves weights.
        can_save_alone: Whether a checkpoint after any step is whole, without the help of other
            processes.
    """

    data: Any
    test: Callable[[Any], None]
    can_save_alone: bool

    def __init__(self, model: keras.Model, batches: Batches):
        self.model = model
        self._strategy = model.distribute_strategy
        with self._strategy.scope():
            replica.create_variables(model, batches.spec)
            # Counted in the step itself: an interruption comes before both or after both.
            self.step = tf.Variable(0, trainable=False, dtype=tf.int64)
            self.accumulation = Accumulation.of(model)

    def train(self, batch: Any) -> None:
        """Takes a step with a batch."""
        if self.accumulation is None or self.accumulation.moves_weights():
            self._move(batch)
        else:
            self._add(batch)

    @abc.abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Returns the loss and metrics so far."""

    @abc.abstractmethod
    def training(self, use: Callable[[Gradients], None]) -> Callable[[Any], None]:
        """Returns a function that takes a step; `use` gets gradients of the weights."""

    @functools.cached_property
    def _move(self) -> Callable[[Any], None]:
        return self.training(
            lambda gradients: replica.move(self.model, gradients, self.accumulation)
        )

    @functools.cached_property
    def _add(self) -> Callable[[Any], None]:
        assert self.accumulation is not None
        return self.training(self.accumulation.add)


class OnReplicas(Runner):
    """Runs steps on all replicas at once: one device, Mirrored, MultiWorkerMirrored.

    `data` has the parts of each batch for the replicas of this process.
    """

    def __init__(self, model: keras.Model, batches: Batches):
        super().__init__(model, batches)
        self.data = Parts(batches, self._strategy)
        self.test = self._on_replicas(replica.test_step)
        self.can_save_alone = not (model.run_eagerly or is_of_workers(self._strategy))
        self._metrics = self._compiled(self._reduced_metrics)

    def training(self, use: Callable[[Gradients], None]) -> Callable[[Any], None]:
        return self._on_replicas(functools.partial(replica.train_step, use=use), self.step)

    def metrics(self) -> dict[str, Any]:
        return self._metrics()

    def _reduced_metrics(self) -> dict[str, Any]:
        """The loss and metrics of all replicas, which exchange all of them at once."""
        variables = self.model.metrics_variables
        if self._strategy.num_replicas_in_sync == 1:
            return self.model.get_metrics_result()

        def on_replica() -> list[tf.Tensor]:
            # The copies are on the replica's device, as an all-reduce requires.
            values = [tf.identity(variable.value) for variable in variables]
            return tf.distribute.get_replica_context().all_reduce("sum", values)

        sums = [
            self._strategy.experimental_local_results(values)[0]
            for values in self._strategy.run(on_replica)
        ]
        with keras.StatelessScope(list(zip(variables, sums, strict=True))):
            return self.model.get_metrics_result()

    def _on_replicas(
        self, step: Callable[[keras.Model, Any], None], counter: tf.Variable | None = None
    ) -> Callable[[Any], None]:
        """A function that takes a step with the parts of a batch."""

        def on_replica(data: Any) -> None:
            step(self.model, data)

        # Code that XLA compiles cannot communicate with other replicas.
        is_alone = self._strategy.num_replicas_in_sync == 1
        if self.model.jit_compile and is_alone and not self.model.run_eagerly:
            on_replica = tf.function(on_replica, jit_compile=True, reduce_retracing=True)

        def on_all(*parts: Any) -> None:
            self._strategy.run(lambda: on_replica(parts[_place() % len(parts)]))
            if counter is not None:
                counter.assign_add(1)

        # Traced once: workers that trace at different times would not find each other.
        on_all = self._compiled(on_all, self.data.spec)
        return lambda parts: on_all(*parts)

    def _compiled(self, function: Callable[..., Any], signature: Any = ()) -> Callable[..., Any]:
        if self.model.run_eagerly:
            return function
        return tf.function(function, signature, autograph=False)


def _place() -> int:
    """The number of this replica."""
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    return int(tf.get_static_value(number))
