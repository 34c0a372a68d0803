"""Training by `model.fit` and by the user's own loops, on one device and on two."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec import cond, recursive
from kerasrec.layers import TreeRNN
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


class Halved(keras.layers.Layer):
    """Calls a recursive function."""

    def call(self, x):
        half = recursive(lambda x: cond(x[:, 0] < 1, lambda: x, lambda: half(x / 2)))
        return half(x)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape)


@pytest.mark.parametrize("predicts", [False, True])
@pytest.mark.parametrize("layer", ["tree", "function"])
def test_the_first_step_of_fit_is_traced_once(layer, predicts):
    traced = []

    class Noted(keras.layers.Layer):
        def call(self, x):
            traced.append(self.name)
            return x

    if layer == "tree":
        inputs = [keras.Input([None, 3]), keras.Input([None, 2], dtype="int32")]
        states = TreeRNN(4)(*inputs)
        x = np.ones([2, 3, 3]), np.array([[[1, 2], [-1, -1], [-1, -1]]] * 2)
    else:
        inputs, x = keras.Input([3]), np.ones([2, 3])
        states = Halved()(keras.layers.Dense(4)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1, name="head")(Noted()(states)))
    model.compile(keras.optimizers.Adam(name="moments"), "mse")
    if predicts:
        model.predict(x, verbose=0)
    assert not model.optimizer.built
    traced.clear()
    model.fit(x, np.ones([2, 1]), verbose=0)
    assert len(traced) == 1
    weights = model.trainable_weights
    assert len(model.optimizer.variables) == 2 + 2 * len(weights)
    assert {variable.path.split("/")[0] for variable in model.optimizer.variables} == {"moments"}


def test_a_step_of_ones_own_builds_its_optimizer():
    class Model(keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            weights = self.get_layer("head").trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"loss": loss}

    inputs = [keras.Input([None, 3]), keras.Input([None, 2], dtype="int32")]
    model = Model(inputs, keras.layers.Dense(1, name="head")(TreeRNN(4)(*inputs)))
    model.compile("adam")
    x = np.ones([2, 3, 3]), np.array([[[1, 2], [-1, -1], [-1, -1]]] * 2)
    model.fit(x, np.ones([2, 1]), verbose=0)
    assert len(model.optimizer.variables) == 2 + 2 * 2
