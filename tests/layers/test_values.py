"""The values of tree layers, against the papers' equations in numpy."""

import dataclasses
import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import RNTN, Bidirectional, TopDownTreeLSTM, TreeGRU, TreeLSTM, TreeRNN
from tests.layers import reference
from tests.layers.helpers import (
    LAYERS,
    any_layer,
    built,
    expected,
    features,
    is_node,
    loaded_from_file,
    random_children,
    treebank_batch,
)
from tests.parameters import few_of

pytestmark = pytest.mark.usefixtures("optimized")

NUMPY = keras.ops.convert_to_numpy


def assert_close(actual, wanted, tolerance=2e-6):
    np.testing.assert_allclose(NUMPY(actual), wanted, atol=tolerance, rtol=tolerance)


@pytest.fixture(scope="module")
def layers():
    """Layers in float32 that return the outputs of all nodes, each traced once for all tests."""

    @functools.cache
    def make(layer_class, read_inner_inputs, arity):
        children = np.zeros((1, 1, arity))
        return built(
            layer_class, children, read_inner_inputs=read_inner_inputs, return_sequences=True
        )

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer_class", "read_inner_inputs", "arity"),
    few_of(
        itertools.product(LAYERS, [False, True], [1, 2, 3]),
        (TreeLSTM, False, 2),
        many=[
            (RNTN, False, 3),
            (TreeGRU, True, 2),
        ],
    ),
)
def test_trees_with_missing_children(layer_class, read_inner_inputs, arity, layers):
    """Without `read_inner_inputs`, those of inner nodes, which are NaN, are not read."""
    children = random_children(12, 9, arity, seed=arity)
    x = features(children)
    if not read_inner_inputs:
        x[(children >= 0).any(axis=-1)] = np.nan
    layer = layers(layer_class, read_inner_inputs, arity)
    assert_close(layer(x, children), expected(layer, x, children).sequence)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer_class", "return_sequences", "return_state"),
    few_of(
        itertools.product(LAYERS, [False, True], [False, True]),
        many=[(TreeLSTM, False, True)],
    ),
)
def test_what_is_returned(layer_class, return_sequences, return_state):
    """Of trees, and of a batch without any."""
    children = random_children(5, 7, 2)
    x = features(children)
    options = {"return_sequences": return_sequences, "return_state": return_state}
    layer = built(layer_class, children, **options)
    wanted = expected(layer, x, children)
    output = wanted.sequence if return_sequences else wanted.root_states[0]
    outputs = [output, *(wanted.root_states if return_state else [])]
    for num_trees in (5, 0):
        actual = layer(x[:num_trees], children[:num_trees])
        assert isinstance(actual, list) == return_state
        for one, other in zip(actual if return_state else [actual], outputs, strict=True):
            assert_close(one, other[:num_trees])


@any_layer
@pytest.mark.parametrize("arity", few_of([1, 2], many=[1]))
def test_chain_of_depth_200(layer_class, arity):
    children = np.full((1, 201, arity), -1, np.int32)
    children[0, :-1, -1] = np.arange(1, 201)
    x = features(children)
    layer = built(layer_class, children, read_inner_inputs=True, return_sequences=True)
    assert_close(layer(x, children), expected(layer, x, children).sequence)


@pytest.mark.slow
@any_layer
def test_children_of_other_integer_types(layer_class, layers):
    children = random_children(4, 5, 2)
    layer = layers(layer_class, False, 2)
    wanted = NUMPY(layer(features(children), children))
    for dtype in ("int64", "int8"):
        assert_close(layer(features(children), children.astype(dtype)), wanted)


@pytest.mark.many
@any_layer
def test_mask_reaches_the_loss_of_a_model(layer_class):
    children = random_children(6, 9, 2, seed=3)
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    layer = built(layer_class, children, return_sequences=True)
    model = keras.Model(inputs, layer(*inputs))
    model.compile(loss="mse")
    x, nodes = features(children), is_node(children)
    labels = np.random.default_rng(0).normal(size=(6, 9, 3))
    errors = np.square(expected(layer, x, children).sequence - labels).mean(axis=-1)
    loss = model.evaluate((x, children), labels, batch_size=6, verbose=0)
    assert loss == pytest.approx(errors[nodes].mean(), rel=1e-5)


WITH_ALL_STATES = {
    "TreeLSTM": lambda: TreeLSTM(3, return_sequences=True),
    "with states": lambda: TreeLSTM(3, return_sequences=True, return_state=True),
    "TopDownTreeLSTM": lambda: TopDownTreeLSTM(3),
    "Bidirectional": lambda: Bidirectional(TreeRNN(3)),
    "list": lambda: Bidirectional(TreeRNN(3), merge_mode=None),
}


@pytest.mark.parametrize("name", WITH_ALL_STATES)
def test_symbolic_outputs_have_a_mask(name):
    children = random_children(3, 5, 2)
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    for output in keras.tree.flatten(WITH_ALL_STATES[name]()(*inputs)):
        mask = getattr(output, "_keras_mask", None)
        assert (mask is None) == (len(output.shape) == 2)
        if mask is not None:
            found = keras.Model(inputs[1], mask)(children)
            np.testing.assert_array_equal(found, is_node(children))


def test_symbolic_outputs_without_padding_have_no_mask():
    x = keras.Input([None, 4], ragged=True)
    children = keras.Input([None, 2], dtype="int32", ragged=True)
    states = TreeLSTM(3, return_sequences=True)(x, children)
    assert getattr(states, "_keras_mask", None) is None


@pytest.mark.many
def test_mask_is_still_there_after_an_attention(tmp_path):
    """MultiHeadAttention takes the other mask, which `call` sets, off what it reads."""
    children = random_children(3, 5, 2)
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    states = TreeRNN(3, return_sequences=True)(*inputs)
    attention = keras.layers.MultiHeadAttention(1, 2)(states, states)
    states = keras.layers.Add()([states, attention])
    mean = keras.layers.GlobalAveragePooling1D()(states)
    model = loaded_from_file(keras.Model(inputs, [states, mean]), tmp_path)
    of_nodes, found = model((features(children), children))
    wanted = [
        of[nodes].mean(0) for of, nodes in zip(NUMPY(of_nodes), is_node(children), strict=True)
    ]
    assert_close(found, wanted)


@pytest.mark.slow
@any_layer
def test_embedding_with_a_mask_in_front(layer_class):
    """Inner nodes have token 0, which Embedding masks; they must be computed all the same."""
    tokens, children, _ = treebank_batch(5)
    embedding = keras.layers.Embedding(300, 4, mask_zero=True)
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
    layer = built(layer_class, children, return_sequences=True)
    model = keras.Model(inputs, layer(embedding(inputs[0]), inputs[1]))
    x = NUMPY(embedding(tokens))
    wanted = expected(layer, x, children).sequence
    assert_close(model((tokens, children)), wanted)
    assert_close(layer(embedding(tokens), children), wanted)
    assert (NUMPY(layer(embedding(tokens), children)._keras_mask) == is_node(children)).all()


def test_a_node_of_the_mask_that_no_parent_names_is_not_lost():
    """Features of padding may be anything, but a mask tells which nodes are padding."""
    tokens = np.array([[0, 1, 2, 3]])
    children = np.array([[[1, 2], [-1, -1], [-1, -1], [-1, -1]]], np.int32)
    embedding = keras.layers.Embedding(5, 4, mask_zero=True)
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
    layer = TreeLSTM(3)
    model = keras.Model(inputs, layer(embedding(inputs[0]), inputs[1]))
    model((tokens * (tokens < 3), children))
    for use in (
        lambda: layer(embedding(tokens), children),
        lambda: model((tokens, children)),
        lambda: model.predict([tokens, children], verbose=0),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"mask of `x` has .*\[\[0 3\]\]"):
            use()


def test_first_values_of_weights():
    children = random_children(1, 3, 2)
    for unit_forget_bias, forget in ((True, 1.0), (False, 0.5)):
        layer = TreeLSTM(2, unit_forget_bias=unit_forget_bias, bias_initializer="zeros")
        if not unit_forget_bias:
            layer = TreeLSTM(
                2,
                unit_forget_bias=False,
                bias_initializer=keras.initializers.Constant(0.5),
            )
        layer.build((None, None, 4), children.shape)
        bias = NUMPY(layer.weights[-1])
        assert bias.tolist() == [forget * (not unit_forget_bias)] * 6 + [forget] * 2


def softmax(value):
    exponentials = np.exp(value - value.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.many
@pytest.mark.parametrize("layer_class", [TreeLSTM, TreeGRU])
def test_an_activation_of_a_whole_gate_gets_each_gate_alone(layer_class):
    children = random_children(6, 5, 2, seed=3)
    x = features(children)
    layer = built(layer_class, children, recurrent_activation="softmax")
    functions = dataclasses.replace(reference.NUMPY, sigmoid=softmax)
    assert_close(layer(x, children), expected(layer, x, children, functions).root_states[0])


@pytest.mark.parametrize("layer_class", few_of(LAYERS, many=[TreeGRU]))
def test_activations_and_no_bias(layer_class):
    children = random_children(6, 5, 2, seed=3)
    x = features(children)
    options = {"activation": "relu", "use_bias": False}
    if "recurrent_activation" in LAYERS[layer_class].options:
        options["recurrent_activation"] = "hard_sigmoid"
    layer = built(layer_class, children, **options)
    twin = built(layer_class, children)
    weights = {weight.name: NUMPY(weight) for weight in layer.weights}
    assert "bias" not in weights
    twin.set_weights([weights.get(item.name, 0 * NUMPY(item)) for item in twin.weights])
    functions = dataclasses.replace(
        reference.NUMPY,
        tanh=lambda value: np.maximum(value, 0),
        sigmoid=lambda value: np.clip(value / 6 + 0.5, 0, 1),
    )
    assert_close(layer(x, children), expected(twin, x, children, functions).root_states[0])
