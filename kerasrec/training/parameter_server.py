"""Running steps under `ParameterServerStrategy`: a coordinator, its workers and their servers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from kerasrec.training import replica


class Coordinated:
    """Runs a model's steps on the workers of a cluster, from its coordinator.

    The coordinator reads the data and hands each worker its part of a batch. The workers leave
    their gradients on the servers, each part's in a place of its own; then one of them takes the
    step with the sum. So a step is the same on any number of workers, and a part that runs twice,
    since its worker was lost, counts once.

    Args:
        model: compiled, made in the scope of a `ParameterServerStrategy`.
    """

    def __init__(self, model: keras.Model):
        self._model = model
        strategy = model.distribute_strategy
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._num_workers = _num_workers()
        with strategy.scope():
            model.optimizer.build(model.trainable_weights)
            self._gradients = [self._places(weight.shape) for weight in model.trainable_weights]
            self._losses, self._divisors, self._examples = (self._places([]) for _ in range(3))
        self._leave = self._on_worker(self._leave_gradients)
        self._step = self._on_worker(self._take_step)
        self._test = self._on_worker(lambda batch: replica.test_step(model, batch))

    def distributed(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """The dataset itself: the coordinator reads it."""
        return dataset

    def train(self, iterator: Iterator) -> tuple[int, dict[str, float]]:
        """Takes `steps_per_execution` steps, or those that an iterator has left.

        Returns:
            How many were taken, and the metrics so far.
        """
        taken = 0
        for batch in itertools.islice(iterator, self._model.steps_per_execution):
            parts = self._parts(batch)
            for number, part in enumerate(parts):
                self._coordinator.schedule(self._leave, (tf.constant(number), part))
            self._coordinator.join()
            self._coordinator.schedule(self._step, (tf.constant(len(parts)),))
            self._coordinator.join()
            taken += 1
        return taken, self._logs()

    def test(self, iterator: Iterator) -> tuple[int, dict[str, float]]:
        """The same for evaluation; each worker takes whole batches."""
        taken = 0
        for batch in itertools.islice(iterator, self._model.steps_per_execution):
            self._coordinator.schedule(self._test, (batch,))
            taken += 1
        self._coordinator.join()
        return taken, self._logs()

    def _logs(self) -> dict[str, float]:
        return {name: float(value) for name, value in self._model.get_metrics_result().items()}

    def _parts(self, batch: Any) -> list[Any]:
        """A batch in as many parts as there are workers, or examples."""
        size = len(keras.tree.flatten(batch)[0])
        parts = min(size, self._num_workers)
        ends = [size * number // parts for number in range(parts + 1)]
        return [
            keras.tree.map_structure(lambda of, start=start, end=end: of[start:end], batch)
            for start, end in itertools.pairwise(ends)
        ]

    def _places(self, shape: Any) -> tf.Variable:
        return tf.Variable(tf.zeros([self._num_workers, *shape]), trainable=False)

    def _leave_gradients(self, number: tf.Tensor, data: Any) -> None:
        """Leaves the gradients of a part of a batch, times what its loss was divided by."""
        model = self._model
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        divisor = replica.divisor(model, x, y)
        with tf.GradientTape() as tape:
            y_pred = replica.predicted(model, x, training=True)
            loss = model.compute_loss(x, y, y_pred, sample_weight, training=True)
            loss = tf.cast(loss, tf.float32) * divisor
            scaled = model.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_weights)
        left = [*gradients, loss, divisor, replica.num_examples(x)]
        places = [*self._gradients, self._losses, self._divisors, self._examples]
        for place, value in zip(places, left, strict=True):
            value = tf.zeros(place.shape[1:]) if value is None else tf.convert_to_tensor(value)
            place.scatter_update(tf.IndexedSlices(tf.cast(value, tf.float32)[tf.newaxis], number[tf.newaxis]))
        model.compute_metrics(x, y, y_pred, sample_weight)

    def _take_step(self, num_parts: tf.Tensor) -> None:
        """A step of gradient descent with what the parts have left."""

        def total(places: tf.Variable) -> tf.Tensor:
            return tf.reduce_sum(places[:num_parts], 0)

        divisor = total(self._divisors)
        weights = self._model.trainable_weights
        gradients = [total(places) / divisor for places in self._gradients]
        self._model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        replica.tracker(self._model).update_state(
            total(self._losses) / divisor, total(self._examples)
        )

    def _on_worker(self, function: Callable) -> Callable:
        strategy = self._model.distribute_strategy
        return tf.function(
            lambda *args: strategy.run(function, args), reduce_retracing=True, autograph=False
        )


def _num_workers() -> int:
    """How many workers the cluster has that this process is the coordinator of."""
    tasks = (device.name.partition("/device")[0] for device in tf.config.list_logical_devices())
    return len({task for task in tasks if "/job:worker" in task})
