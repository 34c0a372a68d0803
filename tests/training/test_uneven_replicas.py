"""Batches that replicas share unevenly, against one device: Keras expects even ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import Model, fit
from tests.parameters import few_of
from tests.training.strategies import NUM_CLASSES, NUM_WORDS
from tests.training.strategies import batches as tree_batches

pytestmark = pytest.mark.usefixtures("optimized")

NUMBERS = np.arange(1, 8, dtype=np.float32)[:, None]


def batches(*labels):
    """Batches of 3, 3 and 1; of the last, one of two replicas has nothing."""
    data = (NUMBERS, labels if len(labels) > 1 else labels[0])
    return tf.data.Dataset.from_tensor_slices(data).batch(3)


def of_two_outputs(strategy, losses):
    with strategy.scope():
        inputs = keras.Input([1])
        outputs = [
            keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name=name)(inputs)
            for name in ("y", "z")
        ]
        model = Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(1e-3), losses, metrics=[["mae"], ["mae"]])
    return model


@pytest.mark.many
def test_losses_of_outputs_are_those_of_one_device(two_replicas):
    found = []
    for strategy in tf.distribute.get_strategy(), two_replicas:
        model = of_two_outputs(strategy, ["mse", "mse"])
        data = batches(2 * NUMBERS, 3 * NUMBERS)
        first = model.evaluate(data, verbose=0)
        history = model.fit(data, validation_data=data, verbose=0, shuffle=False).history
        found.append([*first, *(history[name][0] for name in sorted(history))])
    expected, of_replicas = found
    # `loss`, then the means over batches that Keras calls `y_loss` and `z_loss`.
    np.testing.assert_allclose(expected[:3], [260, 952 / 9, 238], rtol=1e-6)
    np.testing.assert_allclose(of_replicas, expected, rtol=1e-5)


def test_sums_and_means_in_one_model_are_refused(two_replicas):
    model = of_two_outputs(two_replicas, [keras.losses.MeanSquaredError("sum"), "mse"])
    with pytest.raises(ValueError, match=r"are sums over a batch .* Give all the same `reduction`"):
        model.evaluate(batches(2 * NUMBERS, 3 * NUMBERS), verbose=0)


@pytest.mark.many
def test_statistics_of_a_replica_without_examples_stay(two_replicas):
    """One that has none in the first batch begins with the statistics of a new layer."""
    with two_replicas.scope():
        inputs = keras.Input([1])
        normalized = keras.layers.BatchNormalization(name="normalized")(inputs)
        model = Model(inputs, keras.layers.Dense(1)(normalized))
        model.compile(keras.optimizers.SGD(0.0), "mse")
    data = batches(2 * NUMBERS)
    model.fit(data.skip(2), verbose=0, shuffle=False)
    mean = two_replicas.experimental_local_results(model.get_layer("normalized").moving_mean.value)
    np.testing.assert_allclose([of.numpy().item() for of in mean], [0.07, 0.0], rtol=1e-5)
    losses = model.fit(data, epochs=2, validation_data=data, verbose=0, shuffle=False).history
    assert np.isfinite(losses["val_loss"]).all()


@pytest.mark.many
def test_without_a_step_weights_are_not_averages():
    inputs = keras.Input([1])
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile(keras.optimizers.SGD(use_ema=True), "mse")
    fit(model, batches(NUMBERS), epochs=0, verbose=0)
    assert model.get_weights()[0].item() == 1


def regression(layers, loss, strategy, batch_size=4, **compiled):
    """History and weights of a model of one input, on 9 examples: the last batch has one."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 3)).astype("float32"), rng.normal(size=(9, 2)).astype("float32")
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input([3]), *layers()])
        model.compile(keras.optimizers.SGD(0.1), loss, **compiled)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)
    return fit(model, data, epochs=2, verbose=0).history, model.get_weights()


def dense():
    return [keras.layers.Dense(2)]


@pytest.mark.slow
def test_a_replica_without_examples_changes_nothing(two_replicas):
    """Its results from no examples may be NaN."""
    _, weights = regression(
        lambda: [keras.layers.BatchNormalization(), *dense()], "mse", two_replicas
    )
    for weight in weights[:2]:  # scale and offset
        assert np.isfinite(weight).all()


@pytest.mark.many
@pytest.mark.parametrize(
    "loss", [keras.losses.MeanSquaredError("sum"), keras.losses.mean_squared_error]
)
def test_sums_and_functions_are_losses_of_the_whole_batch(two_replicas, loss):
    found = regression(dense, loss, two_replicas, metrics=[keras.metrics.R2Score(None)])
    expected = regression(
        dense, loss, tf.distribute.get_strategy(), metrics=[keras.metrics.R2Score(None)]
    )
    np.testing.assert_allclose(found[0]["loss"], expected[0]["loss"], 1e-5)
    assert np.shape(found[0]["r2_score"]) == (2, 2)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, 1e-5)


@pytest.mark.many
@pytest.mark.parametrize("reduction", few_of(["sum", "sum_over_batch_size"], many=["sum"]))
def test_regularizers_count_once_where_a_replica_has_no_examples(two_replicas, reduction):
    def regularized():
        penalty = keras.regularizers.L2(0.5)
        return [keras.layers.Dense(2, kernel_regularizer=penalty, activity_regularizer=penalty)]

    loss = keras.losses.MeanSquaredError(reduction)
    found = regression(regularized, loss, two_replicas)
    expected = regression(regularized, loss, tf.distribute.get_strategy())
    np.testing.assert_allclose(found[0]["loss"], expected[0]["loss"], 1e-5)
    np.testing.assert_allclose(found[1][0], expected[1][0], 1e-5)


@pytest.mark.many
def test_masked_losses_are_those_of_the_whole_batch(two_replicas):
    """A mean over the entries that are not masked, of which replicas have more or fewer."""

    def run(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(0)
            tokens = keras.Input([None], dtype="int32")
            x = keras.layers.Embedding(NUM_WORDS, 4, mask_zero=True)(tokens)
            model = keras.Model(tokens, keras.layers.Dense(NUM_CLASSES)(x))
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        data = tree_batches().map(lambda x, y: (x[0], tf.maximum(y, 0)))
        return fit(model, data, epochs=2, verbose=0).history["loss"]

    np.testing.assert_allclose(run(two_replicas), run(tf.distribute.get_strategy()), 1e-5)


@pytest.mark.parametrize(
    "loss, reason",
    [
        (lambda y, y_pred: keras.ops.mean((y - y_pred) ** 2), "returns a scalar"),
        (keras.losses.MeanSquaredError(None), "reduces by None"),
        (keras.losses.SparseCategoricalCrossentropy(ignore_class=0), "leaves out the class 0"),
    ],
)
def test_losses_that_parts_cannot_be_put_together_from(two_replicas, loss, reason):
    with pytest.raises(ValueError, match=reason):
        regression(dense, loss, two_replicas)


@pytest.mark.many
def test_two_outputs_on_two_replicas(two_replicas):
    def run(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(0)
            x = keras.Input([3])
            outputs = [keras.layers.Dense(2, name=name)(x) for name in "ab"]
            model = keras.Model(x, outputs)
            model.compile("sgd", ["mse", "mae"], loss_weights=[1.0, 0.5])
        rng = np.random.default_rng(0)
        arrays = (rng.normal(size=[9, 3]), tuple(rng.normal(size=[2, 9, 2])))
        data = tf.data.Dataset.from_tensor_slices(arrays).batch(4)
        return fit(model, data, epochs=2, verbose=0).history["loss"]

    np.testing.assert_allclose(run(two_replicas), run(tf.distribute.get_strategy()), 1e-5)
