"""Training by `model.fit` and by loops of the user's own, alone and on two devices."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.helpers import any_layer, treebank_batch


def sentiment_model(layer_class, **options):
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
    x = keras.layers.Embedding(500, 6, mask_zero=True)(inputs[0])
    hidden = layer_class(8, **options)(x, inputs[1])
    return keras.Model(inputs, keras.layers.Dense(5)(hidden))


def loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)


@any_layer
@pytest.mark.slow
def test_fit_with_automatic_compilation(layer_class):
    tokens, children, labels = treebank_batch(20)
    model = sentiment_model(layer_class, return_sequences=True)
    model.compile(keras.optimizers.Adam(0.05), loss(), jit_compile="auto")
    assert not model.jit_compile
    history = model.fit((tokens, children), labels, batch_size=5, epochs=4, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]


@pytest.mark.slow
@any_layer
def test_user_loop_equals_fit(layer_class):
    tokens, children, labels = treebank_batch(12)
    data = tf.data.Dataset.from_tensor_slices(((tokens, children), labels[:, 0])).batch(5)
    fitted = sentiment_model(layer_class)
    model = keras.models.clone_model(fitted)
    model.set_weights(fitted.get_weights())
    fitted.compile(keras.optimizers.SGD(0.5), loss())
    fitted.fit(data, epochs=2, shuffle=False, verbose=0)
    optimizer = keras.optimizers.SGD(0.5)
    compute_loss = loss()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None, 2], tf.int32),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def step(tokens, children, labels):
        with tf.GradientTape() as tape:
            value = compute_loss(labels, model((tokens, children), training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(2):
        for (some_tokens, some_children), some_labels in data:
            step(some_tokens, some_children, some_labels)
    for one, two in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.slow
@any_layer
def test_fit_on_two_devices_equals_fit_on_one(two_replicas, layer_class):
    """In the last batch one device has a tree, and the other none."""
    tokens, children, labels = treebank_batch(9)

    def fit():
        keras.utils.set_random_seed(0)
        model = sentiment_model(layer_class)
        # A sum, since a mean over devices with different numbers of trees is another loss.
        reduction = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
        model.compile(keras.optimizers.SGD(0.05), reduction)
        data = tf.data.Dataset.from_tensor_slices(((tokens, children), labels[:, 0])).batch(8)
        model.fit(data, shuffle=False, verbose=0)
        traces = model.layers[-2].num_traces
        model.fit(data, epochs=2, shuffle=False, verbose=0)
        assert model.layers[-2].num_traces == traces
        return model

    assert two_replicas.num_replicas_in_sync == 2
    with two_replicas.scope():
        on_two = fit()
    on_one = fit()
    for one, two in zip(on_two.get_weights(), on_one.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
    predictions = on_two.predict((tokens, children), verbose=0)
    np.testing.assert_allclose(
        predictions, on_one.predict((tokens, children), verbose=0), atol=1e-5
    )


@pytest.mark.slow
@any_layer
def test_run_eagerly(layer_class):
    tokens, children, labels = treebank_batch(4)
    model = sentiment_model(layer_class)
    model.compile("sgd", loss(), run_eagerly=True)
    before = model.get_weights()
    model.fit((tokens, children), labels[:, 0], verbose=0)
    assert all(np.any(one != two) for one, two in zip(before, model.get_weights(), strict=True))
