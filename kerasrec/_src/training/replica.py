"""The work of one replica on its part of a batch.

Keras' losses are means over a batch. One replica's part may be smaller than another's, so the mean
of the replicas' means is not the mean over the batch. Here every part is weighted by its size, and
the loss is that of the whole batch, on any number of replicas.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.private import mask_of
from kerasrec._src.sparse_gradients import Gradients, adding_rows_up, with_a_row, with_rows_once
from kerasrec._src.training.accumulation import Accumulation, optimizers_in
from kerasrec._src.training.input_range import checked_inputs
from kerasrec._src.training.label_ranks import check_ranks
from kerasrec._src.training.strategies import is_served, splits_batches
from kerasrec._src.training.uneven_parts import before, mend


def create_variables(model: keras.Model, spec: Any) -> None:
    """Creates what Keras would create in the first step, where replicas cannot create it.

    Args:
        model: A model that was compiled in the scope of its strategy.
        spec: The spec of the batches that it will get, as in `tf.data.Dataset.element_spec`.
    """
    symbols = keras.tree.map_structure(lambda of: keras.KerasTensor(of.shape, of.dtype), spec)
    y_pred = _zeros(model(keras.utils.unpack_x_y_sample_weight(symbols)[0]))
    model.optimizer.build(model.trainable_weights)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(_zeros(spec))
    check_losses(model, y, y_pred)
    model.compute_loss(x, y, y_pred, sample_weight)
    model.distribute_strategy.run(model.compute_metrics, (x, y, y_pred, sample_weight))
    model.reset_metrics()


def check_losses(model: keras.Model, y: Any, y_pred: Any) -> None:
    """Raises a ValueError if replicas cannot tell what the model's losses are means over."""
    strategy = model.distribute_strategy
    if not splits_batches(strategy):
        return
    losses = keras.tree.flatten(model.loss)
    if len(losses) > 1 and (is_served(strategy) or any(hasattr(of, "divisor") for of in losses)):
        raise ValueError(
            "With several losses, a part of a batch would have a different weight in each. That is "
            "not supported under ParameterServerStrategy, nor if one of them is a mean over trees "
            f"or tree nodes. Compile the model with one loss. Received: {model.loss!r}."
        )
    if len({getattr(loss, "reduction", None) == "sum" for loss in losses}) > 1:
        raise ValueError(
            "Some of the losses are sums over a batch and others are means, so a part of a batch "
            f"would have a different weight in each. Give all the same `reduction`. Received: "
            f"{model.loss!r}."
        )
    for loss in losses:
        if getattr(loss, "ignore_class", None) is not None:
            raise ValueError(
                f"{loss!r} leaves out the class {loss.ignore_class}, so the weight of a part of a "
                "batch depends on what is left of it, which other replicas do not know. Give these "
                "examples the sample weight 0 instead, or use kerasrec.training.TreeCrossentropy."
            )
        reduction = getattr(loss, "reduction", "sum_over_batch_size")
        known = {"sum_over_batch_size", "mean"} | (set() if is_served(strategy) else {"sum"})
        of_one = len(losses) == 1 and callable(loss) and not isinstance(loss, keras.losses.Loss)
        if reduction not in known or (of_one and len(loss(y, y_pred).shape) == 0):
            what = f"reduces by {reduction!r}" if reduction not in known else "returns a scalar"
            raise ValueError(
                f"The loss {loss!r} {what}, so the loss of a batch cannot be computed from its "
                f"parts. It must return a value for each example, or be a keras.losses.Loss that "
                f"reduces by {' or '.join(sorted(known))}."
            )


def train_step(model: keras.Model, data: Any, use: Callable[[Gradients], None]) -> None:
    """Updates the metrics with a batch, together with all other replicas.

    Args:
        model: A compiled model, with all its variables.
        data: This replica's part of the batch.
        use: A function that is called with this replica's addends of the gradients.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    found = before(model)
    with adding_rows_up():
        with tf.GradientTape() as tape:
            y_pred = predicted(model, x, training=True)
            loss = loss_of(model, x, y, y_pred, sample_weight, training=True)
            own, whole = counted(model, x, y, y_pred)
            of_batch = share(model, own, whole)
            loss *= tf.cast(of_batch, loss.dtype)
            scaled = model.optimizer.scale_loss(loss)
        gradients = with_rows_once(tape.gradient(scaled, model.trainable_weights))
    has_examples = own["examples"] > 0
    mend(found, of_batch, has_examples)
    if _num_replicas() > 1:
        # Without examples, gradients may not be finite.
        gradients = _where(has_examples, gradients)
    use(gradients)
    track(model, loss, own["examples"], whole["examples"])
    model.compute_metrics(x, y, y_pred, sample_weight)


def move(model: keras.Model, gradients: Gradients, accumulation: Accumulation | None) -> None:
    """Takes a step of gradient descent, together with all other replicas.

    Args:
        model: The model whose weights move.
        gradients: This replica's addends of the gradients of the whole batch.
        accumulation: The accumulation that added up the gradients, if any.
    """
    weights = model.trainable_weights
    if accumulation:
        gradients = accumulation.mean(gradients)
    if _num_replicas() > 1:
        # Keras adds up the replicas' gradients after the optimizer has clipped them, and for sparse
        # gradients it only concatenates the rows.
        looks = _looks_at_gradients(model.optimizer)
        gradients = _met(
            gradients, lambda of: isinstance(of, tf.IndexedSlices) or (looks and of is not None)
        )
    if accumulation:
        accumulation.apply(gradients, weights)
    elif weights:
        model.optimizer.apply_gradients(zip(gradients, weights, strict=True))


def test_step(model: keras.Model, data: Any) -> None:
    """Updates loss and metrics with a batch, together with all other replicas."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    found = before(model)
    y_pred = predicted(model, x, training=False)
    loss = loss_of(model, x, y, y_pred, sample_weight, training=False)
    own, whole = counted(model, x, y, y_pred)
    of_batch = share(model, own, whole)
    loss *= tf.cast(of_batch, loss.dtype)
    mend(found, of_batch, own["examples"] > 0)
    track(model, loss, own["examples"], whole["examples"])
    model.compute_metrics(x, y, y_pred, sample_weight)


def predicted(model: keras.Model, x: Any, training: bool) -> Any:
    """Returns the model's outputs, after a check that integers fit into its inputs' dtypes."""
    x = checked_inputs(model, x)
    knows_training = "training" in inspect.signature(model.call).parameters
    return model(x, training=training) if knows_training else model(x)


def loss_of(
    model: keras.Model, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool
) -> tf.Tensor:
    """Returns the model's loss; its `compute_loss` may lack the argument `training`.

    Raises:
        ValueError: If there is a label for each tree and a row of outputs, as for `check_ranks`.
    """
    check_ranks(model, y, y_pred)
    knows_training = "training" in inspect.signature(model.compute_loss).parameters
    options = {"training": training} if knows_training else {}
    return model.compute_loss(x, y, y_pred, sample_weight, **options)


def counted(
    model: keras.Model, x: Any, y: Any, y_pred: Any
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Counts of a replica and of the whole batch: examples, and what the loss is a mean over.

    With any number of outputs, the loss of a single replica is that of the batch; there, the second
    count is of examples, too.
    """
    examples = num_examples(x)
    of_loss = divisor(model, x, y, y_pred) if _num_replicas() > 1 else examples
    own = {"examples": examples, "divisor": of_loss}
    whole = tf.distribute.get_replica_context().all_reduce("sum", list(own.values()))
    return own, dict(zip(own, whole, strict=True))


def share(model: keras.Model, own: dict[str, tf.Tensor], whole: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns the factor of a replica's loss that makes the sum over replicas the batch's loss.

    If the loss is not a sum, Keras has divided it by the number of replicas, as if all held as
    much.
    """
    if all(getattr(of, "reduction", None) == "sum" for of in keras.tree.flatten(model.loss)):
        return tf.ones([])
    return part_of_whole(own["divisor"] * _num_replicas(), whole["divisor"], 1.0)


def part_of_whole(own: tf.Tensor, whole: tf.Tensor, otherwise: float) -> tf.Tensor:
    """The quotient, or another value without labels: then the loss is that of regularizers."""
    return tf.where(whole > 0, tf.math.divide_no_nan(own, whole), otherwise)


def divisor(model: keras.Model, x: Any, y: Any, y_pred: Any) -> tf.Tensor:
    """The size of the mean that is the loss: what the loss says, unmasked entries, or examples.

    It is float32.
    """
    for loss in keras.tree.flatten(model.loss):
        if hasattr(loss, "divisor"):
            return loss.divisor(keras.tree.flatten(y)[0])
    masks = [mask_of(of) for of in keras.tree.flatten(y_pred)]
    if all(mask is None for mask in masks):
        return num_examples(x)
    if len(masks) > 1 and _num_replicas() > 1:
        raise ValueError(
            "Some of the model's outputs have a mask, so that the parts of a batch weigh "
            "differently in the loss of each. Compile the model with one output and loss."
        )
    return tf.reduce_sum(tf.cast(masks[0], tf.float32)) if len(masks) == 1 else num_examples(x)


def num_examples(x: Any) -> tf.Tensor:
    """The number of examples of a replica, float32."""
    return tf.cast(tf.shape(keras.tree.flatten(x)[0])[0], tf.float32)


def track(model: keras.Model, loss: tf.Tensor, own: tf.Tensor, whole: tf.Tensor) -> None:
    """Counts the loss of a batch, weighted by its number of examples.

    Args:
        model: The model whose metric counts it.
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
        isinstance(of, keras.optimizers.LossScaleOptimizer)
        or any(limit is not None for limit in (of.clipnorm, of.clipvalue, of.global_clipnorm))
        for of in optimizers_in(optimizer)
    )


def _met(gradients: Gradients, meets: Callable[[Any], bool]) -> Gradients:
    """Gradients, some of them added up: the first replica has the whole sum, the others zeros.

    Entries that are not finite stay on all replicas, since each worker decides by its own gradients
    whether to take the step.

    Args:
        gradients: This replica's share of each gradient.
        meets: Whether a gradient is to be added up here; Keras adds up the others.
    """
    meeting = [with_a_row(of) for of in gradients if meets(of)]
    if not meeting:
        return gradients
    context = tf.distribute.get_replica_context()
    is_first = tf.equal(context.replica_id_in_sync_group, 0)

    def kept(whole: Any) -> Any:
        if not isinstance(whole, tf.IndexedSlices):
            return tf.where(is_first | ~tf.math.is_finite(whole), whole, tf.zeros_like(whole))
        of_row = range(1, whole.values.shape.rank)
        keeps = is_first | tf.reduce_any(~tf.math.is_finite(whole.values), of_row)
        rows = [tf.boolean_mask(of, keeps) for of in (whole.values, whole.indices)]
        return tf.IndexedSlices(*rows, whole.dense_shape)

    whole = map(kept, with_rows_once(context.all_reduce("sum", meeting)))
    return [next(whole) if meets(of) else of for of in gradients]


def _where(condition: tf.Tensor, gradients: Gradients) -> Gradients:
    """Gradients if a condition holds, otherwise zeros; None stays None."""

    def chosen(gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            values = chosen(gradient.values)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return tf.where(condition, gradient, tf.zeros_like(gradient))

    return [of if of is None else chosen(of) for of in gradients]


def _num_replicas() -> int:
    return tf.distribute.get_strategy().num_replicas_in_sync


def _zeros(spec: Any) -> Any:
    """Tensors of zeros for specs; 1 stands for sizes that are not known."""
    return keras.tree.map_structure(
        lambda of: tf.zeros([size or 1 for size in of.shape], of.dtype), spec
    )
