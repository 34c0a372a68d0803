"""Cells of a user's own that take any number of children."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import Recursive, RecursiveCell
from tests.layers import reference
from tests.layers.helpers import features, random_children
from tests.parameters import few_of


@keras.saving.register_keras_serializable("tests")
class GatedMaxCell(RecursiveCell):
    """h = x W + max over k of gate(h_k) * h_k (at least 0), n = 1 + sum over k of n_k."""

    def __init__(self, units, read_inner_inputs=True, **kwargs):
        super().__init__(read_inner_inputs=read_inner_inputs, **{**kwargs, "arity": None})
        self.units = units
        self.state_size = [units, 1]
        self.dense = keras.layers.Dense(units, dtype=self.dtype_policy)
        self.gate = keras.layers.Dense(units, activation="sigmoid", dtype=self.dtype_policy)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.gate.build((None, self.units))
        self.built = True

    def call(self, inputs, states):
        hidden, count = states
        kept = kerasrec.map_fn(lambda child: self.gate(child) * child, hidden)
        total = tf.maximum(tf.reduce_max(kept, axis=1), 0.0)
        if inputs is not None:
            total = total + self.dense(inputs)
        return total, [total, 1.0 + tf.reduce_sum(count, axis=1)]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class LeafMaxCell(GatedMaxCell):
    """The same, but a leaf's h is tanh(x W)."""

    def call_leaf(self, inputs):
        hidden = tf.tanh(self.dense(inputs))
        return hidden, [hidden, tf.ones_like(inputs[:, :1])]


def expected(layer, x, children):
    """h of all nodes and h and n of the roots, in NumPy."""
    weights = [weight.numpy() for weight in layer.weights[:4]]
    shapes = [weight.shape for weight in weights]
    assert shapes == [(4, 3), (3,), (3, 3), (3,)]
    kernel, bias, gate_kernel, gate_bias = weights

    def node(inputs, below):
        below = [states for states in below if states is not None]
        own = np.zeros((1, 3)) if inputs is None else inputs @ kernel + bias
        if not below and isinstance(layer.cell, LeafMaxCell):
            return [np.tanh(own), np.ones((1, 1))]
        kept = [h / (1 + np.exp(-(h @ gate_kernel + gate_bias))) for h, _ in below]
        count = np.ones((1, 1)) + sum(n for _, n in below)
        return [own + np.max([np.zeros((1, 3)), *kept], axis=0), count]

    read_inner_inputs = layer.cell.read_inner_inputs
    found = [
        reference.recursion(node, row[:, None], tree, read_inner_inputs)
        for row, tree in zip(x, children, strict=True)
    ]
    sequence = np.zeros((*children.shape[:2], 3))
    for row, tree in enumerate(found):
        for number, states in tree.items():
            sequence[row, number] = states[0][0]
    return [sequence, *(np.concatenate([tree[0][i] for tree in found]) for i in range(2))]


def built(cell_class, children, **options):
    """A layer of 3 units with random weights."""
    cell = cell_class(3, dtype="float64", **options)
    layer = Recursive(cell, return_sequences=True, return_state=True, dtype="float64")
    layer.build((None, None, 4), children.shape)
    random = np.random.default_rng(1)
    for weight in layer.trainable_weights:
        weight.assign(random.normal(size=weight.shape))
    return layer


@pytest.fixture(scope="module")
def layer():
    """A layer of the cell without separate leaves, traced once for all tests."""
    return built(GatedMaxCell, np.zeros((1, 1, 5)))


@pytest.mark.parametrize("read_inner_inputs", few_of([False, True], many=[]))
def test_a_cell_with_leaves_of_its_own(read_inner_inputs):
    children = random_children(8, 12, 5, seed=3)
    x = features(children)
    layer = built(LeafMaxCell, children, read_inner_inputs=read_inner_inputs)
    for found, wanted in zip(layer(x, children), expected(layer, x, children), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.slow
def test_leaves_are_nodes_with_empty_rows_by_default(layer):
    children = random_children(8, 12, 5, seed=4)
    x = features(children)
    for found, wanted in zip(layer(x, children), expected(layer, x, children), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert layer(x, children)[2][:, 0].numpy().tolist() == [
        1 + np.sum(tree >= 0) for tree in children
    ]


@pytest.mark.slow
def test_gradients_equal_finite_differences(layer):
    children = random_children(4, 9, 4, seed=5)
    x = features(children)
    coefficients = np.random.default_rng(0).normal(size=(4, 9, 3))

    def loss():
        return tf.reduce_sum(coefficients * layer(x, children)[0])

    with tf.GradientTape() as tape:
        total = loss()
    weights = [weight.value for weight in layer.trainable_weights]
    for weight, gradient in zip(weights, tape.gradient(total, weights), strict=True):
        nudge = np.random.default_rng(0).normal(size=weight.shape) * 1e-6
        value = weight.numpy()
        weight.assign(value + nudge)
        above = loss()
        weight.assign(value - nudge)
        difference = float(above - loss()) / 2
        weight.assign(value)
        assert np.sum(gradient * nudge) == pytest.approx(difference, rel=1e-6)


class WithoutBuild(GatedMaxCell):
    """The same cell, which leaves it to its layers to build themselves."""

    build = keras.layers.Layer.build


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not have a `build..` method")
def test_layers_in_a_cell_are_built_before_the_first_call():
    layer = Recursive(WithoutBuild(3))
    layer.build((None, None, 4), (None, None, None))
    assert [weight.shape for weight in layer.trainable_weights] == [(4, 3), (3,), (3, 3), (3,)]
    assert "CALL_0" in str(layer.tagged_graph())


@pytest.mark.slow
def test_saved_and_loaded(tmp_path, layer):
    inputs = keras.Input([None, 4]), keras.Input([None, None], dtype="int32")
    model = keras.Model(inputs, layer(*inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    children = random_children(4, 9, 4, seed=5)
    x = features(children)
    for found, wanted in zip(loaded((x, children)), model((x, children)), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


class Unreduced(GatedMaxCell):
    """A cell that returns its children's rows."""

    def call(self, inputs, states):
        return states[0], list(states)


@pytest.mark.many
def test_a_cell_that_returns_rows():
    children = random_children(4, 9, 4)
    with pytest.raises(kerasrec.SignatureError, match=r"is a tf.RaggedTensor.*reduce it"):
        Recursive(Unreduced(3))(features(children), children)


class WeightedCell(RecursiveCell):
    """Children are added up with a softmax of their first numbers, which are in rows."""

    state_size = 4

    def __init__(self, in_map_fn, **kwargs):
        super().__init__(arity=None, read_inner_inputs=True, **kwargs)
        self.in_map_fn = in_map_fn

    def build(self, input_shape):
        pass

    def call(self, inputs, states):
        (rows,) = states
        weights = tf.nn.softmax(kerasrec.map_fn(lambda child: child[:, 0], rows), axis=1)
        weighted = (
            kerasrec.map_fn(lambda pair: pair[0] * pair[1][:, None], (rows, weights))
            if self.in_map_fn
            else rows * weights[..., None]
        )
        hidden = tf.tanh(inputs + tf.reduce_sum(weighted, axis=1))
        return hidden, [hidden]


@pytest.mark.slow
def test_a_product_of_rows_that_xla_does_not_compile():
    children = random_children(2, 5, 3)
    x = features(children)
    match = r"where rows begin \(as `h .*map_fn\(lambda pair"
    with pytest.raises(kerasrec.TraceError, match=match):
        Recursive(WeightedCell(False), engine="compiled")(x, children)
    found = Recursive(WeightedCell(True), engine="compiled")(x, children)
    np.testing.assert_allclose(found, Recursive(WeightedCell(False))(x, children), atol=1e-6)
