"""Runs steps under `ParameterServerStrategy`: a coordinator, its workers and their servers."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.sparse_gradients import Gradients, with_rows_once
from kerasrec._src.training import replica, uneven_replicas
from kerasrec._src.training.batches import Batches, part_of
from kerasrec._src.training.runner import Runner
from kerasrec._src.training.strategies import without_advice


class Coordinated(Runner):
    """Runs a model's steps on the workers of a cluster, from its coordinator.

    The coordinator reads whole batches and sends each worker its part. The workers leave gradients
    and predictions on the servers; then the coordinator takes the step with all of them. Thus a
    step is the same with any number of workers. A part that runs twice, because its worker was
    lost, counts once, except for variables that a layer changes as it runs, as `BatchNormalization`
    does.
    """

    can_save_alone = True

    def __init__(self, model: keras.Model, batches: Batches):
        super().__init__(model, batches)
        self.data = batches.whole
        self._coordinator = _coordinator_of(self._strategy)
        self._num_workers = _num_workers()
        self._part_spec = keras.tree.map_structure(
            lambda spec: tf.TensorSpec([None, *spec.shape[1:]], spec.dtype), batches.spec
        )
        self.test = self._in_parts(self._leave_predictions, self._note)

    def metrics(self) -> dict[str, Any]:
        return self.model.get_metrics_result()

    def training(self, use: Callable[[Gradients], None]) -> Callable[[Any], None]:
        def collect(parts: Sequence[Any]) -> None:
            shares = _shares(parts)
            gradients = zip(*(gradients for gradients, _ in parts), strict=True)
            use(with_rows_once(_mean(gradient, shares) for gradient in gradients))
            self._note(parts)
            self.step.assign_add(1)

        return self._in_parts(self._leave_gradients, collect)

    def _in_parts(
        self, leave: Callable[..., Any], collect: Callable[..., Any]
    ) -> Callable[[Any], None]:
        """A function that takes a step with a batch."""
        left = _LeftOnServers(self._num_workers)
        signature = [tf.TensorSpec([], tf.int32), self._part_spec, tf.TensorSpec([], tf.float32)]
        on_part = self._replicated(
            lambda number, data, counts: left.leave(number, leave(data, counts)), signature
        )
        # The coordinator does this, so that no step is taken twice when a worker is lost.
        together = self._replicated(lambda: collect(left.collect()), [])

        def step(batch: Any) -> None:
            for number, (data, counts) in enumerate(self._parts(batch)):
                arguments = (tf.constant(number), data, tf.constant(counts))
                self._coordinator.schedule(on_part, arguments)
            self._coordinator.join()
            together()

        return step

    def _parts(self, batch: Any) -> list[tuple[Any, float]]:
        """A part of a batch for each worker, and its weight.

        A worker without examples gets one row, of weight 0.
        """
        parts = [part_of(batch, number, self._num_workers) for number in range(self._num_workers)]
        no_part = tf.nest.map_structure(lambda rows: rows[:1], batch)
        return [(part, 1.0) if len(tf.nest.flatten(part)[0]) else (no_part, 0.0) for part in parts]

    def _leave_gradients(self, data: Any, counts: tf.Tensor) -> Any:
        """The gradients of `_forward`'s loss, and its values to leave."""
        weights = self.model.trainable_weights
        with tf.GradientTape() as tape:
            loss, left = self._forward(data, counts, training=True)
            loss = self.model.optimizer.scale_loss(loss)
        return with_rows_once(tape.gradient(loss, weights)), left

    def _leave_predictions(self, data: Any, counts: tf.Tensor) -> Any:
        """The values that `_forward` leaves, without gradients."""
        return [], self._forward(data, counts, training=False)[1]

    def _forward(self, data: Any, counts: tf.Tensor, training: bool) -> tuple[tf.Tensor, Any]:
        """A part's loss; and to leave: this loss, the size of its mean, and the predictions."""
        model = self.model
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = replica.predicted(model, x, training)
        loss = replica.loss_of(model, x, y, y_pred, sample_weight, training)
        divisor = uneven_replicas.divisor(model, x, y, y_pred) * counts
        rows = tf.cast(counts, tf.int32) * tf.shape(keras.tree.flatten(x)[0])[0]
        batch = [x, y, y_pred] if sample_weight is None else [x, y, y_pred, sample_weight]
        batch = tf.nest.map_structure(lambda values: values[:rows], batch)
        return loss, (tf.cast(loss, tf.float32), divisor, batch)

    def _note(self, parts: Sequence[Any]) -> None:
        """Updates loss and metrics with a whole batch."""
        losses, _, batches = zip(*(left for _, left in parts), strict=True)
        loss = _mean(losses, _shares(parts))
        batch = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *batches)
        number = uneven_replicas.num_examples(batch[0])
        replica.track(self.model, loss, number, number)
        self.model.compute_metrics(*batch)

    def _replicated(
        self, function: Callable[..., Any], signature: Sequence[Any]
    ) -> Callable[..., Any]:
        def on_replicas(*args: Any) -> Any:
            with without_advice():
                return self._strategy.run(function, args)

        return tf.function(on_replicas, signature, autograph=False)


class _LeftOnServers:
    """Keeps a nest of tensors for each part of a batch, in variables on the servers.

    A place has one writer at a time, and writing twice has the effect of writing once. Tensors are
    stored as strings, because parts differ in numbers of rows, and a remote variable needs a fixed
    shape.

    Args:
        number: The number of parts.
    """

    def __init__(self, number: int):
        self._number = number
        self._like: Any = None
        self._places: list[tf.Variable] = []

    def leave(self, part: tf.Tensor, values: Any) -> None:
        """Keeps the values of a part, an int32 scalar; parts may differ only in numbers of rows."""
        tensors = tf.nest.flatten(values, expand_composites=True)
        if not self._places:
            self._like = values
            with tf.init_scope():
                nothing = tf.fill([self._number], "")
                self._places = [tf.Variable(nothing, trainable=False) for _ in tensors]
        for place, tensor in zip(self._places, tensors, strict=True):
            row = tf.io.serialize_tensor(tensor)
            place.scatter_update(tf.IndexedSlices(row[tf.newaxis], part[tf.newaxis]))

    def collect(self) -> list[Any]:
        """Returns the values of all parts."""
        like = tf.nest.flatten(self._like, expand_composites=True)
        strings = [tf.unstack(place.value(), self._number) for place in self._places]
        return [
            tf.nest.pack_sequence_as(
                self._like, [_parsed(*both) for both in zip(row, like, strict=True)], True
            )
            for row in zip(*strings, strict=True)
        ]


def _parsed(string: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """A tensor with the dtype of another, and with its shape except for the number of rows."""
    shape = [None, *like.shape[1:]] if like.shape.rank else []
    return tf.ensure_shape(tf.io.parse_tensor(string, like.dtype), shape)


@functools.cache
def _coordinator_of(
    strategy: tf.distribute.ParameterServerStrategy,
) -> tf.distribute.coordinator.ClusterCoordinator:
    """A strategy's coordinator, which is never deleted.

    TensorFlow's coordinator stops its cluster when it is deleted: when Python ends, it would wait
    forever for the thread that looks for lost workers.
    """
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coordinator))
    return coordinator


def _num_workers() -> int:
    """The number of workers in the cluster that this process coordinates."""
    tasks = (device.name.partition("/device")[0] for device in tf.config.list_logical_devices())
    return len({task for task in tasks if "/job:worker" in task})


def _shares(parts: Sequence[Any]) -> list[tf.Tensor]:
    """The weight of each part in the whole batch; the weights add up to 1."""
    divisors = [divisor for _, (_, divisor, _) in parts]
    whole = tf.add_n(divisors)
    return [
        uneven_replicas.part_of_whole(divisor, whole, 1 / len(divisors)) for divisor in divisors
    ]


def _mean(gradients: Sequence[Any], shares: Sequence[tf.Tensor]) -> Any:
    """The sum of the parts' gradients times their shares; None if they have none."""
    first = gradients[0]
    if first is None:
        return None
    is_sparse = isinstance(first, tf.IndexedSlices)
    values = [gradient.values for gradient in gradients] if is_sparse else gradients
    terms = [tf.cast(share, first.dtype) * of for of, share in zip(values, shares, strict=True)]
    if not is_sparse:
        return tf.add_n(terms)
    indices = tf.concat([gradient.indices for gradient in gradients], 0)
    return tf.IndexedSlices(tf.concat(terms, 0), indices, first.dense_shape)
