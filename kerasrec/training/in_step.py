"""Running steps under the strategies whose replicas take every step together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from kerasrec.training import replica


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
            self._create_variables(spec)
        self.train = self._on_replicas(replica.train_step)
        self.test = self._on_replicas(replica.test_step)
        self._metrics = self._compiled(model.get_metrics_result)

    def distributed(self, dataset: tf.data.Dataset) -> Any:
        """The dataset's batches, split among the replicas."""
        return self._strategy.experimental_distribute_dataset(dataset)

    def _create_variables(self, spec: Any) -> None:
        """Creates what Keras would create in the first step, where replicas cannot."""
        model = self._model
        model.optimizer.build(model.trainable_weights)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(_zeros(spec))
        y_pred = _zeros(model.compute_output_spec(x))
        self._strategy.run(model.compute_metrics, (x, y, y_pred, sample_weight))
        model.reset_metrics()

    def metrics(self) -> dict[str, Any]:
        """Loss and metrics so far."""
        return self._metrics()

    def _on_replicas(self, step: Callable) -> Callable[[Any], None]:
        """A function that takes a step with a batch."""

        def on_replica(data):
            step(self._model, data)

        if self._model.jit_compile and not self._model.run_eagerly:
            on_replica = tf.function(on_replica, jit_compile=True, reduce_retracing=True)
        return self._compiled(lambda batch: self._strategy.run(on_replica, args=(batch,)))

    def _compiled(self, function: Callable) -> Callable:
        if self._model.run_eagerly:
            return function
        return tf.function(function, reduce_retracing=True, autograph=False)


def _zeros(spec: Any) -> Any:
    """Tensors of zeros for specs; 1 stands for sizes that are not known."""
    return keras.tree.map_structure(
        lambda of: tf.zeros([size or 1 for size in of.shape], of.dtype), spec
    )
