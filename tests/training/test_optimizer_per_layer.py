"""OptimizerPerLayer against the rules of its optimizers, and its manners inside Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import TreeLSTM
from kerasrec.training import OptimizerPerLayer

TOKENS = np.array([[1], [3], [3], [0]])
TARGETS = np.array([[1.0], [-1.0], [2.0], [0.5]], "float32")


def word_model(optimizer, **options):
    """Returns a model tokens [batch, 1] -> [batch, 1], of one vector a word and one kernel."""
    tokens = keras.Input([1], dtype="int32")
    x = keras.layers.Embedding(5, 3, name="embedding")(tokens)
    x = keras.layers.Dense(1, use_bias=False, name="dense")(keras.layers.Flatten()(x))
    model = keras.Model(tokens, x)
    model.compile(optimizer, "mse", **options)
    return model


def fit(model, epochs=1, callbacks=()):
    model.fit(TOKENS, TARGETS, len(TOKENS), epochs, shuffle=False, verbose=0, callbacks=callbacks)


def rates(optimizer):
    optimizers = [optimizer.default, *optimizer.layers.values()]
    return [float(keras.ops.convert_to_numpy(each.learning_rate)) for each in optimizers]


@pytest.mark.slow
def test_words_move_by_gradient_descent_and_the_rest_by_adagrad():
    model = word_model(
        OptimizerPerLayer(keras.optimizers.Adagrad(0.05), {"embedding": keras.optimizers.SGD(0.1)})
    )
    words, kernel = (weight.astype("float64") for weight in model.get_weights())
    accumulator = np.full_like(kernel, 0.1)  # Keras' first value
    for _ in range(3):
        slope = 2 / len(TOKENS) * (words[TOKENS[:, 0]] @ kernel - TARGETS)
        words_gradient = np.zeros_like(words)
        np.add.at(words_gradient, TOKENS[:, 0], slope @ kernel.T)
        kernel_gradient = words[TOKENS[:, 0]].T @ slope
        words -= 0.1 * words_gradient
        accumulator += kernel_gradient**2
        kernel -= 0.05 * kernel_gradient / np.sqrt(accumulator + 1e-7)
        fit(model)
    np.testing.assert_allclose(model.get_weights()[0], words, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.get_weights()[1], kernel, rtol=1e-5, atol=1e-7)
    assert int(model.optimizer.iterations) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"clipnorm": 0.01},
        {"global_clipnorm": 0.01},
        {"weight_decay": 0.3},
        {"use_ema": True, "ema_momentum": 0.5},
        {"gradient_accumulation_steps": 2},
        {"learning_rate": keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_each_optimizer_does_what_it_does_alone(options):
    random = np.random.default_rng(0)
    gradients = [random.normal(size=[2, 3]).astype("float32") for _ in range(3)]

    def dense():
        layer = keras.layers.Dense(3, use_bias=False, kernel_initializer="ones")
        layer.build([None, 2])
        return layer

    def inner():
        return keras.optimizers.Adam(**{"learning_rate": 0.1, **options})

    alone, first, second = dense(), dense(), dense()
    reference = inner()
    optimizer = OptimizerPerLayer(keras.optimizers.SGD(0.1), {second.name: inner()})
    for gradient in gradients:
        reference.apply([tf.constant(gradient)], alone.trainable_variables)
        both = [*first.trainable_variables, *second.trainable_variables]
        optimizer.apply([tf.constant(10 * gradient), tf.constant(gradient)], both)
    reference.finalize_variable_values(alone.trainable_variables)
    optimizer.finalize_variable_values(both)
    assert np.array_equal(second.get_weights()[0], alone.get_weights()[0])
    assert not np.allclose(second.get_weights()[0], 1.0)
    np.testing.assert_allclose(first.get_weights()[0], 1 - sum(gradients), rtol=1e-5)


@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_clips_the_gradients_of_all_layers_together(limit):
    random = np.random.default_rng(0)
    layers = [keras.layers.Dense(3, use_bias=False, kernel_initializer="ones") for _ in "123"]
    for layer in layers:
        layer.build([None, 2])
    slow = {layers[1].name: keras.optimizers.SGD(0.1)}
    made = OptimizerPerLayer(keras.optimizers.SGD(1.0), slow, global_clipnorm=limit)
    optimizer = OptimizerPerLayer.from_config(made.get_config())
    dense = [random.normal(size=[2, 3]).astype("float32") for _ in "12"]
    rows = tf.IndexedSlices(dense[1][1:], [1], [2, 3])
    variables = [layer.kernel for layer in layers]
    optimizer.apply([tf.constant(dense[0]), rows, None], variables)
    norm = np.sqrt(np.sum(dense[0] ** 2) + np.sum(dense[1][1] ** 2))
    scale = min(1.0, limit / norm)
    for layer, step in zip(layers, [dense[0], 0.1 * dense[1] * [[0], [1]], 0.0], strict=True):
        np.testing.assert_allclose(layer.kernel, 1 - scale * step, rtol=1e-6)


@pytest.mark.slow
def test_a_loaded_model_goes_on_as_if_nothing_had_been(tmp_path):
    optimizer = OptimizerPerLayer("adam", {"embedding": keras.optimizers.SGD(0.1, momentum=0.9)})
    model = word_model(optimizer)
    fit(model, 2)
    model.optimizer.learning_rate = 0.02
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert rates(again.optimizer) == rates(model.optimizer)
    fit(model, 2)
    fit(again, 2)
    for weight, loaded in zip(model.get_weights(), again.get_weights(), strict=True):
        assert np.array_equal(weight, loaded)
    state, loaded = (m.optimizer.variables for m in (model, again))
    for variable, other in zip(state, loaded, strict=True):
        assert np.array_equal(variable, other), variable.path
    assert int(again.optimizer.iterations) == 4


@pytest.mark.many
def test_a_checkpoint_holds_all_of_the_state(tmp_path):
    def new_model():
        keras.utils.set_random_seed(1)
        return word_model(OptimizerPerLayer("adam", {"embedding": "rmsprop"}), run_eagerly=True)

    model, again = new_model(), new_model()
    fit(model, 2)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(model=again).restore(path)
    fit(model)
    fit(again)
    for weight, loaded in zip(model.get_weights(), again.get_weights(), strict=True):
        assert np.array_equal(weight, loaded)


@pytest.mark.many
def test_frozen_layers_stay():
    still = OptimizerPerLayer("adam", {"embedding": keras.optimizers.SGD(0.0)})
    model = word_model(still, run_eagerly=True)
    words, kernel = model.get_weights()
    fit(model, 2)
    assert np.array_equal(model.get_weights()[0], words)
    assert not np.array_equal(model.get_weights()[1], kernel)

    model.get_layer("embedding").trainable = False
    model.compile(OptimizerPerLayer("adam", {"dense": "sgd"}), "mse", run_eagerly=True)
    fit(model, 2)
    assert np.array_equal(model.get_weights()[0], words)


def test_callbacks_change_all_rates_by_one_factor():
    def model():
        optimizers = keras.optimizers.Adam(0.05), {"embedding": keras.optimizers.SGD(0.1)}
        return word_model(OptimizerPerLayer(*optimizers), run_eagerly=True)

    halved = model()
    fit(halved, 2, [keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)])
    assert rates(halved.optimizer) == pytest.approx([0.05 / 4, 0.1 / 4])
    plateau = model()
    callback = keras.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=1, min_delta=100.0)
    fit(plateau, 2, [callback])
    assert rates(plateau.optimizer) == pytest.approx([0.005, 0.01])
    plateau.optimizer.default.learning_rate = 0.0
    with pytest.raises(ValueError, match="is 0, so layer rates cannot be scaled"):
        plateau.optimizer.learning_rate = 0.1


@pytest.mark.parametrize("place", ["default", r"layers\['embedding'\]"])
def test_where_one_rate_is_a_schedule_none_is_changed(place):
    scheduled = keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.3, 10))
    pair = [scheduled, keras.optimizers.SGD(0.1)]
    default, embedding = pair if place == "default" else reversed(pair)
    optimizer = OptimizerPerLayer(default, {"embedding": embedding})
    before = rates(optimizer)
    with pytest.raises(ValueError, match=f"{place} is the schedule CosineDecay"):
        optimizer.learning_rate = 0.05
    assert rates(optimizer) == before


def test_a_schedule_is_no_number_for_all():
    optimizer = OptimizerPerLayer("adam", {"embedding": "sgd"})
    before = rates(optimizer)
    with pytest.raises(ValueError, match=r"set to .*ExponentialDecay.*, a schedule; expected a nu"):
        optimizer.learning_rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    assert rates(optimizer) == before


@pytest.mark.many
def test_mixed_precision_wraps_the_whole():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = word_model(OptimizerPerLayer("adam", {"embedding": keras.optimizers.SGD(0.1)}))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    before = model.get_weights()
    fit(model, 2)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert int(model.optimizer.iterations) == 2
    model.optimizer.learning_rate = 0.0005
    assert rates(model.optimizer.inner_optimizer) == pytest.approx([0.0005, 0.05])
    for weight, first in zip(model.get_weights(), before, strict=True):
        assert not np.array_equal(weight, first)


@pytest.mark.many
def test_average_of_all_weights():
    optimizer = OptimizerPerLayer(
        "adam", {"embedding": keras.optimizers.SGD(0.1)}, use_ema=True, ema_momentum=0.8
    )
    model = word_model(optimizer)
    seen = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(model.get_weights())
    )
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    fit(model, 4, callbacks=[note, swap])
    for weight, *after in zip(model.get_weights(), *seen, strict=True):
        average = after[0]
        for value in after[1:]:
            average = 0.8 * average + 0.2 * value
        np.testing.assert_allclose(weight, average, 1e-5, 1e-6)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert again.use_ema and again.ema_momentum == 0.8


@pytest.mark.slow
def test_replicas_train_as_one(two_replicas):
    def trained():
        keras.utils.set_random_seed(2)
        model = word_model(OptimizerPerLayer("adam", {"embedding": "adagrad"}))
        fit(model, 2)
        return model.get_weights()

    with two_replicas.scope():
        distributed = trained()
    for weight, expected in zip(distributed, trained(), strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-7)


def test_a_name_stands_for_all_layers_inside():
    words, children = keras.Input([None, 3]), keras.Input([None, 2], dtype="int32")
    states = TreeLSTM(4, name="tree_lstm")(words, children)
    model = keras.Model([words, children], keras.layers.Dense(1, name="head")(states))
    momentum = keras.optimizers.SGD(momentum=0.9)
    optimizer = OptimizerPerLayer("sgd", {"tree_lstm": momentum})
    optimizer.build(model.trainable_variables)
    weights = model.get_layer("tree_lstm").trainable_weights
    assert len(weights) > 1
    assert [tuple(variable.shape) for variable in momentum.variables[2:]] == [
        tuple(weight.shape) for weight in weights
    ]


def test_a_layer_without_gradients_is_warned_of():
    first, second = keras.layers.Dense(1, name="first"), keras.layers.Dense(1, name="second")
    for layer in (first, second):
        layer.build([None, 2])
    optimizer = OptimizerPerLayer(keras.optimizers.SGD(1.0), {"second": "sgd"})
    variables = [*first.trainable_variables, *second.trainable_variables]
    kernel = first.get_weights()[0]
    gradients = [tf.ones([2, 1]), tf.ones([1]), None, None]
    with pytest.warns(UserWarning, match="'second/kernel', 'second/bias'"):
        optimizer.apply(gradients, variables)
    assert np.allclose(first.get_weights()[0], kernel - 1)


@pytest.mark.parametrize(
    ("default", "layers", "reason"),
    [
        ("adam", ["embedding"], r"layers is \['embedding'\]; expected a dict from names of layers"),
        ("adam", None, "layers is None; expected a dict from names of layers"),
        ({"embedding": "sgd"}, "adam", "layers is 'adam'; .* dict .* after the default one, such"),
        (
            "adam",
            {keras.layers.Dense(1): "sgd"},
            r"layers is .*Dense.*; .* names .* \(layer\.name\)",
        ),
        (None, {"embedding": "sgd"}, "default is None; expected a Keras optimizer or"),
        ({"embedding": "sgd"}, {}, "default is {'embedding': 'sgd'}; expected a Keras optimizer"),
        ("adam", {"embedding": 0.1}, r"layers\['embedding'\] is 0\.1; .* keras\.optimizers\.SGD"),
        ("adam", {"embedding": "adamm"}, r"layers\['embedding'\] is 'adamm'; .* or 'sgd'\."),
        (keras.optimizers.SGD, {}, "default is <class .*SGD.>; expected a Keras optimizer"),
    ],
)
def test_says_what_is_no_layer_or_optimizer(default, layers, reason):
    with pytest.raises(ValueError, match=reason):
        OptimizerPerLayer(default, layers)


def test_says_what_is_wrong():
    message = (
        r"No layer with trainable weights is named 'embeddings' or 'tree'\. Those that are there: "
        r"embedding, dense\. A frozen layer needs no optimizer\."
    )
    model = word_model(
        OptimizerPerLayer("sgd", {"embeddings": "sgd", "dense": "sgd", "tree": "sgd"})
    )
    with pytest.raises(ValueError, match=message):
        fit(model)

    with keras.name_scope("outer"), keras.name_scope("inner"):
        weight = keras.Variable(0.0, name="kernel")
    optimizer = OptimizerPerLayer("sgd", {"outer": "sgd", "outer/inner": "adam"})
    with pytest.raises(ValueError, match="'outer' and 'outer/inner', and each has an optimizer"):
        optimizer.build([weight])

    shared = keras.optimizers.SGD(0.1)
    for layers in ({"a": shared}, {"a": keras.optimizers.Adam(), "b": shared}):
        with pytest.raises(ValueError, match="one optimizer object twice"):
            OptimizerPerLayer(shared, layers)
    scaled = keras.optimizers.SGD(0.1, loss_scale_factor=8.0)
    for optimizer in (scaled, keras.optimizers.LossScaleOptimizer(shared)):
        with pytest.raises(ValueError, match="scales the loss, which all layers share"):
            OptimizerPerLayer("adam", {"a": optimizer})
