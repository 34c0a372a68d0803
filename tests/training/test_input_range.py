"""Numbers that do not fit into the dtype of a model's input."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import Model, Sequential, evaluate, fit


def words_model(functional_class, dtype="int32"):
    tokens = keras.Input([None], dtype=dtype, name="tokens")
    places = keras.Input([None], name="places")
    embedded = keras.layers.Embedding(9, 1)(tokens)[..., 0]
    model = functional_class([tokens, places], embedded + places)
    model.compile("sgd", "mse")
    return model


@pytest.mark.many
def test_integers_are_not_cut_to_the_dtype_of_an_input():
    """As Keras cuts them."""
    tokens, places = np.array([[5, 1], [2, 2**32 + 5]]), np.zeros([2, 2], "float32")
    keras_model, model = words_model(keras.Model), words_model(Model)
    cut = keras_model.predict([tokens, places], verbose=0)
    assert cut[1, 1] == cut[0, 0]
    data = tf.data.Dataset.from_tensors(((tokens, places), places))
    error = r"input tokens must be int32(.|\n)*4294967301(.|\n)*1,? 1"
    for use in (
        lambda: model([tokens, places]),
        lambda: model({"tokens": tokens, "places": places}),
        lambda: model.predict([tokens, places], verbose=0),
        lambda: model.fit(data, verbose=0),
        lambda: fit(keras_model, data, verbose=0),
        lambda: evaluate(keras_model, data),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=error):
            use()
    tokens[1, 1] = 5
    model.set_weights(keras_model.get_weights())
    found = model.predict([tokens, places], verbose=0)
    np.testing.assert_array_equal(found, keras_model.predict([tokens, places], verbose=0))
    np.testing.assert_array_equal(model([tokens.astype("float32"), places]), found)
    with pytest.raises(tf.errors.InvalidArgumentError, match="input tokens must be integers"):
        model([tokens + np.array([0, 0.5]), places])
    assert model([tokens.astype("uint8"), places]).shape == [2, 2]
    assert words_model(Model, "int64")([tokens, places]).shape == [2, 2]


@pytest.mark.slow
def test_a_sequential_cuts_no_integers_either():
    layers = [keras.Input([2], dtype="int32", name="tokens"), keras.layers.Embedding(9, 1)]
    model = Sequential(layers)
    tokens = np.array([[5, 1], [2, 2**32 + 5]])
    for use in (model, lambda x: model.predict(x, verbose=0)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="tokens must be int32"):
            use(tokens)
        np.testing.assert_array_equal(use(tokens[:1]), keras.Sequential(layers)(tokens[:1]))
