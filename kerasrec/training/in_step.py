"""Running steps under the strategies whose replicas take every step together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from kerasrec.training import replica
from kerasrec.training.batches import Batches
from kerasrec.training.strategies import is_of_workers


class InStep:
    """Runs a model's steps on all replicas at once: one device, Mirrored, MultiWorkerMirrored.

    Args:
        model: compiled, made in the scope of its strategy.
        spec: of the batches that it is given, as `tf.data.Dataset.element_spec`.
    """

    def __init__(self, model: keras.Model, spec: Any):
        self._model = model
        self._strategy = model.distribute_strategy
        with self._strategy.scope():
            replica.create_variables(model, spec)
        # Counted with the step itself: what is interrupted has either both or none.
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.train = self._on_replicas(replica.train_step, self.step)
        self.test = self._on_replicas(replica.test_step)
        self._metrics = self._compiled(model.get_metrics_result)

    def distributed(self, batches: Batches) -> Any:
        """The batches, split among the replicas."""
        return batches.distributed(self._strategy)

    def metrics(self) -> dict[str, Any]:
        """Loss and metrics so far."""
        return self._metrics()

    @property
    def can_save_alone(self) -> bool:
        """Whether a checkpoint after any step is whole, without what other processes do."""
        return not (self._model.run_eagerly or is_of_workers(self._strategy))

    def _on_replicas(
        self, step: Callable, counter: tf.Variable | None = None
    ) -> Callable[[Any], None]:
        """A function that takes a step with a batch."""

        def on_replica(data):
            step(self._model, data)

        if self._model.jit_compile and not self._model.run_eagerly:
            on_replica = tf.function(on_replica, jit_compile=True, reduce_retracing=True)

        def on_all(batch):
            self._strategy.run(on_replica, args=(batch,))
            if counter is not None:
                counter.assign_add(1)

        return self._compiled(on_all)

    def _compiled(self, function: Callable) -> Callable:
        if self._model.run_eagerly:
            return function
        return tf.function(function, reduce_retracing=True, autograph=False)
