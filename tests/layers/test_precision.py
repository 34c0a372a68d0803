"""Half precision: of arithmetic on float32 weights, and of weights too."""

import keras
import pytest
import tensorflow as tf

from kerasrec.layers import Recursive
from tests.layers.helpers import (
    any_layer,
    features,
    random_children,
    treebank_batch,
)
from tests.layers.own_cell import GatedCell

each_policy = pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)]
)


@pytest.fixture
def global_policy(policy):
    keras.config.set_dtype_policy(policy)
    yield policy
    keras.config.set_dtype_policy("float32")


@any_layer
@each_policy
@pytest.mark.slow
def test_fit_under_a_global_policy(layer_class, global_policy):
    tokens, children, labels = treebank_batch(20)
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
    layer = layer_class(8, return_sequences=True, dropout=0.1, recurrent_dropout=0.1)
    hidden = layer(keras.layers.Embedding(500, 6)(inputs[0]), inputs[1])
    assert hidden.dtype == layer.compute_dtype
    assert layer.compute_dtype == layer.cell.compute_dtype == global_policy.removeprefix("mixed_")
    model = keras.Model(inputs, keras.layers.Dense(5, dtype="float32")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile(keras.optimizers.Adam(0.05), loss)
    fitted = model.fit((tokens, children), labels, batch_size=5, epochs=4, verbose=0)
    assert fitted.history["loss"][-1] < 0.8 * fitted.history["loss"][0]
    assert all(weight.dtype == "float32" for weight in layer.weights)
    assert "bf16" in str(layer.tagged_graph()) or "f16" in str(layer.tagged_graph())


@pytest.mark.slow
@each_policy
def test_cell_with_layers_of_its_own(global_policy):
    children = random_children(4, 5, 2)
    layer = Recursive(GatedCell(3))
    x = tf.constant(features(children), "float32")
    with tf.GradientTape() as tape:
        output = layer(x, children)
        loss = tf.reduce_sum(tf.cast(output, "float32"))
    assert output.dtype == layer.compute_dtype != "float32"
    assert all(gradient.dtype == "float32" for gradient in tape.gradient(loss, layer.weights[:6]))


@pytest.mark.many
@any_layer
@each_policy
def test_graph_before_the_first_call(layer_class, policy):
    layer = layer_class(3, dtype=policy)
    layer.build((None, None, 4), (None, None, 2))
    assert "MatMul" in str(layer.tagged_graph())
    children = random_children(4, 5, 2)
    assert layer(features(children), children).dtype == layer.compute_dtype
