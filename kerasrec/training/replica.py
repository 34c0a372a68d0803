"""What one replica does with its part of a batch.

Keras' losses are means over a batch. A replica's part of it may be smaller than another's, so that
the mean of the replicas' means is not the mean over the batch. Here every part counts by what it
holds, and the loss is that of the whole batch, on any number of replicas.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras
import tensorflow as tf


def create_variables(model: keras.Model, spec: Any) -> None:
    """Creates what Keras would create in the first step, where replicas cannot.

    Args:
        model: compiled, in the scope of its strategy.
        spec: of the batches that it will be given, as `tf.data.Dataset.element_spec`.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(_zeros(spec))
    if not model.built:
        model(x)
    model.optimizer.build(model.trainable_weights)
    y_pred = _zeros(model.compute_output_spec(x))
    model.distribute_strategy.run(model.compute_metrics, (x, y, y_pred, sample_weight))
    model.reset_metrics()


def train_step(model: keras.Model, data: Any) -> None:
    """A step of gradient descent, together with all other replicas; updates the metrics."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = predicted(model, x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight, training=True)
        loss *= tf.cast(share(model, x, y), loss.dtype)
        scaled = model.optimizer.scale_loss(loss)
    weights = model.trainable_weights
    gradients = tape.gradient(scaled, weights)
    if _num_replicas() > 1 and _looks_at_gradients(model.optimizer):
        gradients = _on_first_replica(gradients)
    model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
    track(model, x, loss)
    model.compute_metrics(x, y, y_pred, sample_weight)


def test_step(model: keras.Model, data: Any) -> None:
    """Updates loss and metrics with a batch, together with all other replicas."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    y_pred = predicted(model, x, training=False)
    loss = model.compute_loss(x, y, y_pred, sample_weight, training=False)
    track(model, x, loss * tf.cast(share(model, x, y), loss.dtype))
    model.compute_metrics(x, y, y_pred, sample_weight)


def predicted(model: keras.Model, x: Any, training: bool) -> Any:
    """What the model makes of its inputs."""
    knows_training = "training" in inspect.signature(model.call).parameters
    return model(x, training=training) if knows_training else model(x)


def share(model: keras.Model, x: Any, y: Any) -> tf.Tensor:
    """What to multiply a replica's loss by, so that the sum over replicas is the batch's loss.

    Keras has divided it by the number of replicas, as if all held as much.
    """
    own = divisor(model, x, y)
    return tf.math.divide_no_nan(own * _num_replicas(), _over_replicas(own))


def divisor(model: keras.Model, x: Any, y: Any) -> tf.Tensor:
    """What the model's loss is a mean over: examples, or what its loss says; float32."""
    losses = keras.tree.flatten(model.loss)
    of_trees = [loss for loss in losses if hasattr(loss, "divisor")]
    if not of_trees:
        return num_examples(x)
    if len(losses) > 1:
        raise ValueError(
            "A loss that is a mean over trees or tree nodes must be the model's only one, since "
            f"the replicas' parts of another would weigh differently. Received: {model.loss!r}."
        )
    return of_trees[0].divisor(y)


def num_examples(x: Any) -> tf.Tensor:
    """How many examples a replica has, float32."""
    return tf.cast(tf.shape(keras.tree.flatten(x)[0])[0], tf.float32)


def track(model: keras.Model, x: Any, loss: tf.Tensor) -> None:
    """Counts the loss of a batch, weighted by its number of examples."""
    own = num_examples(x)
    whole = tf.cast(loss, tf.float32) * _over_replicas(own)
    tracker(model).update_state(tf.math.divide_no_nan(whole, own), own)


def tracker(model: keras.Model) -> keras.metrics.Mean:
    """The metric that has the mean loss."""
    return next(metric for metric in model.metrics if metric.name == "loss")


def _looks_at_gradients(optimizer: Any) -> bool:
    """Whether an optimizer, or one inside of it, clips gradients or looks for infinite ones."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return True
    clips = (optimizer.clipnorm, optimizer.clipvalue, optimizer.global_clipnorm)
    inner = [
        of
        for of in keras.tree.flatten(list(vars(optimizer).values()))
        if isinstance(of, keras.optimizers.Optimizer)
    ]
    return any(of is not None for of in clips) or any(map(_looks_at_gradients, inner))


def _on_first_replica(gradients: list) -> list:
    """Gradients of the whole batch on the first replica, and zeros on the others.

    Keras adds up the replicas' gradients after it has clipped them.
    """
    context = tf.distribute.get_replica_context()
    is_first = tf.equal(context.replica_id_in_sync_group, 0)
    reduced = iter(context.all_reduce("sum", [of for of in gradients if of is not None]))

    def if_first(gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            values = if_first(gradient.values)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return tf.where(is_first, gradient, tf.zeros_like(gradient))

    return [of if of is None else if_first(next(reduced)) for of in gradients]


def _num_replicas() -> int:
    return tf.distribute.get_strategy().num_replicas_in_sync


def _over_replicas(value: tf.Tensor) -> tf.Tensor:
    return tf.distribute.get_replica_context().all_reduce("sum", value)


def _zeros(spec: Any) -> Any:
    """Tensors of zeros for specs; 1 stands for sizes that are not known."""
    return keras.tree.map_structure(
        lambda of: tf.zeros([size or 1 for size in of.shape], of.dtype), spec
    )
