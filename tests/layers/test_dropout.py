"""Dropout of inputs and of children's states."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import Recursive, RecursiveCell, TreeLSTM, TreeRNN, TreeRNNCell
from tests.layers import reference
from tests.layers.helpers import (
    LAYERS,
    any_layer,
    built,
    expected,
    features,
    is_node,
    random_children,
)
from tests.parameters import few_of

RATES = {"dropout": 0.3, "recurrent_dropout": 0.4, "seed": 5}


def trained(layer, x, children):
    return keras.ops.convert_to_numpy(layer(x, children, training=True))


@pytest.fixture(scope="module")
def linear():
    """A layer of h = x + bias at leaves and children @ recurrent_kernel + x + bias elsewhere."""
    layer = TreeRNN(3, arity=2, read_inner_inputs=True, activation="linear", **RATES)
    layer.return_sequences = True
    layer.build((None, None, 3), (None, None, 2))
    return layer


@pytest.fixture
def factors(linear):
    """The factors of dropout for inputs and first states, read off a linear layer.

    Returns:
        A function of `children`: factors of inputs `[trees, nodes, 3]`; and of states on the way to
        the parent, the same.
    """
    seed = keras.ops.convert_to_numpy(linear.seed_generator.state)

    def answer(x, children, bias, slot):
        recurrent_kernel = np.zeros((6, 3))
        if slot is not None:
            recurrent_kernel[3 * slot : 3 * slot + 3] = np.eye(3)
        linear.set_weights([np.eye(3), recurrent_kernel, np.full(3, bias)])
        linear.seed_generator.state.assign(seed)
        return trained(linear, x, children)

    def of(children):
        inputs = answer(np.ones((*children.shape[:2], 3)), children, 0.0, None)
        states = np.full_like(inputs, np.nan)
        for slot in range(2):
            found = answer(np.zeros((*children.shape[:2], 3)), children, 1.0, slot)
            for tree, node in np.argwhere(children[:, :, slot] >= 0):
                child = children[tree, node, slot]
                states[tree, child] = (found[tree, node] - 1) / found[tree, child]
        return inputs, states

    yield of
    linear.seed_generator.state.assign(seed)


@pytest.mark.many
@any_layer
def test_values_and_gradients_equal_eager_recursion_with_the_same_factors(layer_class, factors):
    children = random_children(3, 9, 2, seed=3, sizes=[9, 1, 6])
    x = features(children, 3)
    by_input, by_state = factors(children)
    assert 0 < np.mean(by_input[is_node(children)] == 0) < 0.6
    assert 0 < np.mean(by_state == 0) < 0.6

    layer = built(
        layer_class,
        children,
        3,
        read_inner_inputs=True,
        return_sequences=True,
        dtype="float32",
        **RATES,
    )
    weights = tf.constant(np.random.default_rng(0).normal(size=x.shape), "float32")
    sources = [tf.constant(x, "float32"), *(tf.constant(item) for item in layer.get_weights())]
    with tf.GradientTape() as tape:
        tape.watch(sources[0])
        found = layer(sources[0], children, training=True)
        loss = tf.reduce_sum(weights * found)
    gradients = tape.gradient(loss, [sources[0], *layer.trainable_variables])

    with tf.GradientTape() as tape:
        tape.watch(sources)
        node = LAYERS[layer_class].equations(reference.TENSORFLOW, 3, sources[1:])
        loss = 0.0
        for row, tree in enumerate(children):
            inputs = tf.unstack((sources[0] * by_input)[row][:, None])

            def dropped(child, states, row=row):
                return [states[0] * by_state[row, child], *states[1:]]

            for number, states in reference.recursion(node, inputs, tree, True, dropped).items():
                np.testing.assert_allclose(found[row, number], states[0][0], atol=1e-5)
                loss += tf.reduce_sum(weights[row, number] * states[0])
    for one, two in zip(gradients, tape.gradient(loss, sources), strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), two, atol=2e-5)


@pytest.mark.parametrize(
    ("layer_class", "name"),
    few_of(
        itertools.product(LAYERS, ["dropout", "recurrent_dropout"]),
        many=[],
    ),
)
def test_only_in_training_and_by_seed(layer_class, name):
    children = random_children(6, 9, 2, seed=3)
    x = features(children)
    options = {"return_sequences": True, "dtype": "float64", "seed": 5, name: 0.5}
    layer = built(layer_class, children, **options)
    plain = expected(layer, x, children).sequence
    np.testing.assert_allclose(layer(x, children), plain, atol=1e-6)
    first = trained(layer, x, children)
    assert np.abs(first - plain).max() > 0.01
    second = trained(layer, x, children)
    assert np.abs(first - second).max() > 0.01
    again = layer_class.from_config(layer.get_config())
    again.build(x.shape, children.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(trained(again, x, children), first, atol=1e-6)
    # Dropout of vectors is not a part of the recursion.
    assert layer.num_traces == (1 if name == "dropout" else 2)


@pytest.mark.many
def test_share_and_scale(factors):
    """A number is kept with the chance it should be, and its expectation stays."""
    children = random_children(64, 31, 2, sizes=[31] * 64)
    for factor, rate in zip(factors(children), (0.3, 0.4), strict=True):
        factor = factor[~np.isnan(factor)]
        assert factor.size > 5000
        assert np.mean(factor == 0) == pytest.approx(rate, abs=0.025)
        assert factor.mean() == pytest.approx(1, abs=0.04)
        np.testing.assert_allclose(factor[factor != 0], 1 / (1 - rate), rtol=1e-4)


@any_layer
@pytest.mark.slow
def test_fit_with_dropout(layer_class):
    children = random_children(8, 5, 2)
    x = features(children)
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    layer = layer_class(8, dropout=0.2, recurrent_dropout=0.2, seed=1)
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(*inputs)))
    model.compile(keras.optimizers.Adam(0.02), "mse")
    labels = x.sum(axis=(1, 2))[:, None]
    history = model.fit((x, children), labels, epochs=30, batch_size=8, verbose=0).history["loss"]
    assert history[-1] < history[0]
    once, twice = (model((x, children), training=True) for _ in range(2))
    assert np.abs(once - twice).max() > 1e-4
    predictions = model.predict((x, children), verbose=0)
    np.testing.assert_allclose(predictions, model((x, children)), atol=1e-5)
    assert layer.num_traces == 2


@pytest.mark.slow
def test_second_state_is_not_dropped():
    """Of a chain of two, with all of h dropped, c still arrives."""
    children = np.array([[[1, -1], [-1, -1]]], np.int32)
    layer = built(TreeLSTM, children, recurrent_dropout=0.999999, return_state=True)
    x = features(children)
    _, _, dropped = layer(x, children, training=True)
    kernel, recurrent_kernel, bias = layer.get_weights()
    layer.set_weights([kernel, 0 * recurrent_kernel, bias])
    _, _, without = layer(x, children)
    np.testing.assert_allclose(dropped, without, atol=1e-6)


@any_layer
def test_without_dropout_one_trace_serves_training_and_inference(layer_class):
    children = random_children(4, 5, 2)
    layer = built(layer_class, children)
    x = features(children)
    np.testing.assert_array_equal(trained(layer, x, children), layer(x, children))
    assert layer.num_traces == 1


dropped = keras.layers.Dropout(0.5, seed=1)


class OfOnesOwn(TreeRNNCell):
    """A cell with a layer that asks Keras whether it is training."""

    def call(self, inputs, states):
        hidden, _ = super().call(inputs, states)
        hidden = dropped(hidden)
        return hidden, [hidden]


@pytest.mark.parametrize(
    "layer",
    [
        lambda: Recursive(OfOnesOwn(3, arity=2)),
        pytest.param(lambda: TreeRNN(3, arity=2, activation=dropped), marks=pytest.mark.slow),
        pytest.param(
            lambda: TreeLSTM(3, arity=2, recurrent_activation=lambda x: dropped(x)),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["cell", "activation", "recurrent activation"],
)
def test_a_layer_inside_of_a_cell_knows_whether_it_is_training(layer):
    layer, children = layer(), random_children(4, 7, 2)
    x = features(children)
    once, twice = layer(x, children), layer(x, children)
    np.testing.assert_array_equal(once, twice)
    assert np.abs(trained(layer, x, children) - once).max() > 1e-3


@pytest.mark.slow
def test_an_embedding_of_layers_knows_whether_it_is_training():
    children = random_children(4, 7, 2)
    embedding = keras.Sequential([keras.layers.Embedding(9, 4), keras.layers.Dropout(0.5, seed=1)])
    layer = TreeRNN(3, arity=2, embedding=embedding)
    words = np.where((children < 0).all(-1) & is_node(children), 3, 0)
    once, twice = layer(words, children), layer(words, children)
    np.testing.assert_array_equal(once, twice)
    assert np.abs(trained(layer, words, children) - once).max() > 1e-3


class Dropping(RecursiveCell):
    """A node is the sum of its children, of which it drops units."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.state_size = 64
        self.drop = keras.layers.Dropout(0.5, seed=1)

    def call_leaf(self, inputs):
        return inputs, [inputs]

    def call(self, inputs, states, training):
        state = self.drop(states[0][0] + states[1][0], training=training)
        return state, [state]


@pytest.mark.parametrize("engine", few_of(["waves", "compiled"], "waves", many=[]))
def test_each_node_drops_units_of_its_own(engine):
    """With the same seed at each depth, a chain of nodes would drop the same units."""
    depth = 4
    children = np.full([1, 2 * depth + 1, 2], -1)
    for node in range(0, 2 * depth, 2):  # An inner node and its leaf, from the root down.
        children[0, node] = [node + 1, node + 2]
    layer = Recursive(Dropping(), return_sequences=True, engine=engine)
    states = trained(layer, np.ones([1, 2 * depth + 1, 64]), children)[0, : 2 * depth : 2]
    kept = states != 0.0
    assert np.all((np.mean(kept, 1) > 0.25) & (np.mean(kept, 1) < 0.75))
    assert len(np.unique(kept, axis=0)) == depth


@pytest.mark.slow
def test_all_engines_drop_the_same_units():
    children = random_children(3, 9, 2, seed=1)
    x = np.random.default_rng(1).normal(size=[3, 9, 64]).astype("float32")
    waves, compiled = (
        trained(Recursive(Dropping(), return_sequences=True, engine=engine), x, children)
        for engine in ("waves", "compiled")
    )
    np.testing.assert_allclose(waves, compiled, rtol=1e-5)
    assert np.any(waves == 0.0)
