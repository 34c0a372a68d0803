"""The work of one replica on its part of a batch, weighted as in `uneven_replicas.py`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.sparse_gradients import Gradients, adding_rows_up, with_a_row, with_rows_once
from kerasrec._src.training.accumulation import Accumulation, optimizers_in
from kerasrec._src.training.input_range import checked_inputs
from kerasrec._src.training.keras_losses import check_ranks
from kerasrec._src.training.strategies import without_advice
from kerasrec._src.training.uneven_replicas import (
    Part,
    before,
    check_losses,
    measured,
    mend,
    num_replicas,
)


def create_variables(model: keras.Model, spec: Any) -> None:
    """Creates the variables that Keras would create in the first step, where replicas cannot.

    Args:
        model: A model that was compiled in the scope of its strategy.
        spec: The spec of the batches that it will get, as in `tf.data.Dataset.element_spec`.
    """
    symbols = keras.tree.map_structure(lambda leaf: keras.KerasTensor(leaf.shape, leaf.dtype), spec)
    y_pred = _zeros(model(keras.utils.unpack_x_y_sample_weight(symbols)[0]))
    model.optimizer.build(model.trainable_weights)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(_zeros(spec))
    check_losses(model, y, y_pred)
    check_ranks(model, y, y_pred)
    model.compute_loss(x, y, y_pred, sample_weight)
    with without_advice():
        model.distribute_strategy.run(model.compute_metrics, (x, y, y_pred, sample_weight))
    model.reset_metrics()


def train_step(model: keras.Model, data: Any, use: Callable[[Gradients], None]) -> None:
    """Updates the metrics with a batch, together with all other replicas.

    Args:
        model: A compiled model, with all its variables.
        data: This replica's part of the batch.
        use: A function that is called with this replica's addends of the gradients.
    """
    with adding_rows_up():
        with tf.GradientTape() as tape:
            loss, part, note = _forward(model, data, training=True)
            scaled = model.optimizer.scale_loss(loss)
        gradients = with_rows_once(tape.gradient(scaled, model.trainable_weights))
    if num_replicas() > 1:
        # Without examples, gradients may not be finite.
        gradients = _where(part.examples > 0, gradients)
    use(gradients)
    note()


def test_step(model: keras.Model, data: Any) -> None:
    """Updates loss and metrics with a batch, together with all other replicas."""
    _, _, note = _forward(model, data, training=False)
    note()


def _forward(
    model: keras.Model, data: Any, training: bool
) -> tuple[tf.Tensor, Part, Callable[[], None]]:
    """This replica's addend of the loss, the size of its part, and an update of the metrics."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    values = before(model)
    y_pred = predicted(model, x, training)
    loss = loss_of(model, x, y, y_pred, sample_weight, training)
    # Replicas wait for each other when parts are measured; then the model has another's losses.
    rest = tf.add_n(model.losses) if model.losses and num_replicas() > 1 else 0.0
    part = measured(model, x, y, y_pred)
    loss *= tf.cast(part.share, loss.dtype)
    loss += tf.cast((part.share_of_rest - part.share) * rest / num_replicas(), loss.dtype)

    def note() -> None:
        mend(values, part)
        track(model, loss, part.examples, part.batch_examples)
        model.compute_metrics(x, y, y_pred, sample_weight)

    return loss, part, note


def move(model: keras.Model, gradients: Gradients, accumulation: Accumulation | None) -> None:
    """Takes a step of gradient descent, together with all other replicas.

    Args:
        model: The model with the weights.
        gradients: This replica's addends of the gradients of the whole batch.
        accumulation: The accumulation that added up the gradients, if any.
    """
    weights = model.trainable_weights
    if accumulation:
        gradients = accumulation.mean(gradients)
    if num_replicas() > 1:
        # Keras adds up the replicas' gradients after the optimizer has clipped them, and for sparse
        # gradients it only concatenates the rows.
        looks = _looks_at_gradients(model.optimizer)
        gradients = _met(
            gradients,
            lambda gradient: (
                isinstance(gradient, tf.IndexedSlices) or (looks and gradient is not None)
            ),
        )
    if accumulation:
        accumulation.apply(gradients, weights)
    elif weights:
        model.optimizer.apply_gradients(zip(gradients, weights, strict=True))


def predicted(model: keras.Model, x: Any, training: bool) -> Any:
    """Returns the model's outputs, after a check that integers fit into its inputs' dtypes."""
    return model(checked_inputs(model, x), **_option(model.call, training))


def loss_of(
    model: keras.Model, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool
) -> tf.Tensor:
    """Returns the model's loss.

    Raises:
        ValueError: If there is a label for each tree and a row of outputs, as for `check_ranks`.
    """
    check_ranks(model, y, y_pred)
    return model.compute_loss(x, y, y_pred, sample_weight, **_option(model.compute_loss, training))


def _option(method: Callable[..., Any], training: bool) -> dict[str, bool]:
    """The argument `training`, which a user's own method may lack."""
    return {"training": training} if "training" in inspect.signature(method).parameters else {}


def track(model: keras.Model, loss: tf.Tensor, own: tf.Tensor, whole: tf.Tensor) -> None:
    """Counts the loss of a batch, weighted by its number of examples.

    Args:
        model: The model with the metric.
        loss: This replica's addend of the loss.
        own: The number of examples of the replica.
        whole: The number of examples of the batch.
    """
    loss = tf.cast(loss, tf.float32)
    tracker(model).update_state(tf.math.divide_no_nan(loss * whole, own), own)


def tracker(model: keras.Model) -> keras.metrics.Mean:
    """Returns the metric of the mean loss."""
    return next(metric for metric in model.metrics if metric.name == "loss")


def _looks_at_gradients(optimizer: Any) -> bool:
    """Whether an optimizer, or one inside it, clips gradients or checks if they are finite."""
    return any(
        isinstance(inner, keras.optimizers.LossScaleOptimizer)
        or {inner.clipnorm, inner.clipvalue, inner.global_clipnorm} != {None}
        for inner in optimizers_in(optimizer)
    )


def _met(gradients: Gradients, meets: Callable[[Any], bool]) -> Gradients:
    """Gradients, some of them added up: the first replica has the whole sum, the others zeros.

    Entries that are not finite stay on all replicas, since each worker decides by its own gradients
    whether to take the step.

    Args:
        gradients: This replica's share of each gradient.
        meets: Whether a gradient is to be added up here; Keras adds up the others.
    """
    meeting = [with_a_row(gradient) for gradient in gradients if meets(gradient)]
    if not meeting:
        return gradients
    context = tf.distribute.get_replica_context()
    is_first = tf.equal(context.replica_id_in_sync_group, 0)

    def kept(whole: Any) -> Any:
        if not isinstance(whole, tf.IndexedSlices):
            return tf.where(is_first | ~tf.math.is_finite(whole), whole, tf.zeros_like(whole))
        of_row = range(1, whole.values.shape.rank)
        keeps = is_first | tf.reduce_any(~tf.math.is_finite(whole.values), of_row)
        values, indices = (tf.boolean_mask(of, keeps) for of in (whole.values, whole.indices))
        return tf.IndexedSlices(values, indices, whole.dense_shape)

    whole = map(kept, with_rows_once(context.all_reduce("sum", meeting)))
    return [next(whole) if meets(gradient) else gradient for gradient in gradients]


def _where(condition: tf.Tensor, gradients: Gradients) -> Gradients:
    """Gradients if a condition holds, otherwise zeros; None stays None."""

    def chosen(gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            values = chosen(gradient.values)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return tf.where(condition, gradient, tf.zeros_like(gradient))

    return [gradient if gradient is None else chosen(gradient) for gradient in gradients]


def _zeros(spec: Any) -> Any:
    """Tensors of zeros for specs; 1 stands for sizes that are not known."""

    def of(leaf: Any) -> tf.Tensor:
        zeros = tf.zeros([size or 1 for size in leaf.shape], leaf.dtype)
        zeros.scored_by = getattr(leaf, "scored_by", None)  # See `StructuredLoss`.
        return zeros

    return keras.tree.map_structure(of, spec)
