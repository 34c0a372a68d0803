"""Batches that replicas share unevenly, against one device, for what Keras takes for even."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import Model, fit

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
