"""Runs steps under the strategies whose replicas take every step together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.sparse_gradients import Gradients
from kerasrec._src.training import replica
from kerasrec._src.training.accumulation import Accumulation, accumulates
from kerasrec._src.training.batches import Batches, Parts
from kerasrec._src.training.strategies import is_of_workers


class InStep:
    """Runs a model's steps on all replicas at once: one device, Mirrored, MultiWorkerMirrored.

    Args:
        model: A compiled model that was made in the scope of its strategy.
        batches: The batches that the model will get.

    Attributes:
        data: The batches in parts, as `train` and `test` take them.
        step: The variable that counts the steps of an epoch, as a part of each step.
        accumulation: Adds up gradients; None if each step moves weights.
    """

    def __init__(self, model: keras.Model, batches: Batches):
        self._model = model
        self._strategy = model.distribute_strategy
        with self._strategy.scope():
            replica.create_variables(model, batches.spec)
            accumulation = Accumulation(model) if accumulates(model) else None
        # Counted in the step itself: an interruption comes before both or after both.
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.data = Parts(batches, self._strategy)
        self.accumulation = accumulation
        self.test = self._on_replicas(replica.test_step)
        self._move = self._training(lambda of: replica.move(model, of, accumulation))
        self._add = self._training(accumulation.add) if accumulation else self._move
        self._metrics = self._compiled(self._reduced_metrics)

    def train(self, parts: tuple[Any, ...]) -> None:
        """Takes a step with the parts of a batch."""
        if self.accumulation is None or self.accumulation.moves_weights():
            self._move(parts)
        else:
            self._add(parts)

    def metrics(self) -> dict[str, Any]:
        """Returns the loss and metrics so far."""
        return self._metrics()

    @property
    def can_save_alone(self) -> bool:
        """Whether a checkpoint after any step is whole, without the help of other processes."""
        return not (self._model.run_eagerly or is_of_workers(self._strategy))

    def _reduced_metrics(self) -> dict[str, Any]:
        """The loss and metrics of all replicas, which exchange all of them at once."""
        variables = self._model.metrics_variables
        if self._strategy.num_replicas_in_sync == 1:
            return self._model.get_metrics_result()

        def on_replica() -> list[tf.Tensor]:
            # The copies are on the replica's device, as an all-reduce requires.
            values = [tf.identity(variable.value) for variable in variables]
            return tf.distribute.get_replica_context().all_reduce("sum", values)

        sums = [
            self._strategy.experimental_local_results(of)[0]
            for of in self._strategy.run(on_replica)
        ]
        with keras.StatelessScope(list(zip(variables, sums, strict=True))):
            return self._model.get_metrics_result()

    def _training(self, use: Callable[[Gradients], None]) -> Callable[[tuple[Any, ...]], None]:
        """A function that takes a step of training; `use` is as for `replica.train_step`."""
        return self._on_replicas(functools.partial(replica.train_step, use=use), self.step)

    def _on_replicas(
        self, step: Callable[[keras.Model, Any], None], counter: tf.Variable | None = None
    ) -> Callable[[tuple[Any, ...]], None]:
        """A function that takes a step with the parts of a batch."""

        def on_replica(data: Any) -> None:
            step(self._model, data)

        # Code that XLA compiles cannot communicate with other replicas.
        is_alone = self._strategy.num_replicas_in_sync == 1
        if self._model.jit_compile and is_alone and not self._model.run_eagerly:
            on_replica = tf.function(on_replica, jit_compile=True, reduce_retracing=True)

        def on_all(*parts: Any) -> None:
            self._strategy.run(lambda: on_replica(parts[_place() % len(parts)]))
            if counter is not None:
                counter.assign_add(1)

        # Traced once: workers that trace at different times would not find each other.
        on_all = self._compiled(on_all, self.data.spec)
        return lambda parts: on_all(*parts)

    def _compiled(self, function: Callable[..., Any], signature: Any = ()) -> Callable[..., Any]:
        if self._model.run_eagerly:
            return function
        return tf.function(function, signature, autograph=False)


def _place() -> int:
    """The number of this replica."""
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    return int(tf.get_static_value(number))
