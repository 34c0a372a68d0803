"""A Keras layer at the nodes of padded and of ragged trees."""

import keras
import numpy as np
import tensorflow as tf

from kerasrec.layers import NodeWise


def test_values_are_those_of_the_layer():
    dense = keras.layers.Dense(3, activation="relu")
    layer = NodeWise(dense)
    values = tf.constant(np.random.default_rng(0).normal(size=(5, 2)), tf.float32)
    ragged = tf.RaggedTensor.from_row_lengths(values, [1, 4])
    found = layer(ragged)
    kernel, bias = dense.get_weights()
    np.testing.assert_allclose(found.flat_values, np.maximum(values @ kernel + bias, 0), atol=1e-6)
    assert found.shape == (2, None, 3)
    np.testing.assert_allclose(layer(ragged.to_tensor())[1], found[1], atol=1e-6)


def test_dropout_is_on_in_training():
    layer = NodeWise(keras.layers.Dropout(0.5, seed=1))
    ragged = tf.RaggedTensor.from_row_lengths(tf.ones([50, 2]), [20, 30])
    assert (layer(ragged).flat_values.numpy() == 1).all()
    assert (layer(ragged, training=True).flat_values.numpy() == 0).any()


def test_symbolic_and_saved(tmp_path):
    inputs = keras.Input([None, 2], ragged=True)
    outputs = NodeWise(keras.layers.Dense(3))(inputs)
    assert outputs.ragged
    assert outputs.shape == (None, None, 3)
    model = keras.Model(inputs, outputs)
    ragged = tf.RaggedTensor.from_row_lengths(tf.ones([5, 2]), [1, 4])
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(ragged).flat_values, model(ragged).flat_values)
    padded = NodeWise(keras.layers.Dense(3))(keras.Input([None, 2]))
    assert not padded.ragged
