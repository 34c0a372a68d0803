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


def train_step(model: keras.Model, data: Any) -> None:
    """A step of gradient descent, together with all other replicas; updates the metrics."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = predicted(model, x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight, training=True)
        loss *= tf.cast(share(model, x, y), loss.dtype)
        scaled = model.optimizer.scale_loss(loss)
    weights = model.trainable_weights
    model.optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
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


def _num_replicas() -> int:
    return tf.distribute.get_strategy().num_replicas_in_sync


def _over_replicas(value: tf.Tensor) -> tf.Tensor:
    return tf.distribute.get_replica_context().all_reduce("sum", value)
