"""ChildSumTreeLSTM against the paper's equations: values, gradients, dropout, Keras' manners."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import ChildSumTreeLSTM, Recursive, RecursiveCell, TreeLSTM
from tests.layers import reference
from tests.layers.helpers import each_read_inner_inputs, features, is_node, random_children
from tests.parameters import few_of


def built(num_features=4, **options):
    """A layer of 3 units with random weights, biases among them."""
    layer = ChildSumTreeLSTM(3, **options)
    layer.build((None, None, num_features), (None, None, None))
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=weight.shape, scale=0.5) for weight in layer.weights])
    return layer


@pytest.fixture(scope="module")
def layers():
    """Layers in float64 that return everything, by `read_inner_inputs`; traced once."""
    options = {"return_sequences": True, "return_state": True, "dtype": "float64"}
    return {choice: built(read_inner_inputs=choice, **options) for choice in (False, True)}


def equations(functions, layer, weights):
    return reference.child_sum_tree_lstm(functions, layer.cell.units, weights)


def expected(layer, x, children, by_state=None):
    """First states of all nodes and states of the roots, in NumPy; `by_state`: dropout factors."""
    node = equations(
        reference.NUMPY, layer, [weight.astype(float) for weight in layer.get_weights()]
    )
    sequence = np.zeros((*children.shape[:2], 3))
    roots = []
    for row, (tree_x, tree) in enumerate(zip(x, children, strict=True)):

        def edge(child, states, row=row):
            factor = 1.0 if by_state is None else by_state[row, child]
            return [states[0] * factor, states[1]]

        found = reference.recursion(node, tree_x[:, None], tree, layer.cell.read_inner_inputs, edge)
        for number, states in found.items():
            sequence[row, number] = states[0][0]
        roots.append([state[0] for state in found[0]])
    return sequence, [np.stack(states) for states in zip(*roots, strict=True)]


@pytest.mark.many
@pytest.mark.parametrize("read_inner_inputs", few_of([False, True], True))
def test_values(read_inner_inputs, layers):
    """Of trees whose nodes have none to `arity` children, in any slots; one trace serves all."""
    layer = layers[read_inner_inputs]
    for arity in (1, 3, 6):
        children = random_children(12, 15, arity, seed=arity)
        x = features(children)
        sequence, roots = expected(layer, x, children)
        for found, wanted in zip(layer(x, children), [sequence, *roots], strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert layer.num_traces == 1


@pytest.mark.slow
def test_how_children_are_written_does_not_matter(layers):
    """Their order, their slots, further slots, the order of trees; and one trace serves all."""
    random = np.random.default_rng(0)
    children = random_children(8, 15, 6, seed=2)
    x = features(children)
    layer = layers[True]

    def states(x, children):
        return layer(x, children)[0].numpy()

    wanted = states(x, children)
    others = [
        random.permuted(children, axis=2),
        np.sort(children, axis=2),
        np.pad(children, ((0, 0), (0, 0), (2, 3)), constant_values=-1),
    ]
    for other in others:
        np.testing.assert_allclose(states(x, other), wanted, atol=1e-12)
    order = random.permutation(8)
    np.testing.assert_allclose(states(x[order], children[order]), wanted[order], atol=1e-12)
    np.testing.assert_allclose(states(x[:1], children[:1]), wanted[:1], atol=1e-12)
    assert layer.num_traces == 1


@pytest.mark.many
def test_very_high_and_very_wide_trees(layers):
    chain = np.full((200, 1), -1, np.int32)
    chain[:-1, 0] = np.arange(1, 200)
    star = np.full((200, 199), -1, np.int32)
    star[0] = np.arange(1, 200)
    layer = layers[True]
    for tree in (chain, star):
        x = features(tree[None])
        wanted, _ = expected(layer, x, tree[None])
        np.testing.assert_allclose(layer(x, tree[None])[0], wanted, atol=2e-5)


@pytest.mark.many
def test_trees_of_one_node_with_no_slot_for_children(layers):
    children = np.zeros((4, 1, 0), np.int32)
    x = features(children)
    _, root, _ = layers[True](x, children)
    np.testing.assert_allclose(root, expected(layers[True], x, children)[1][0], atol=2e-6)


@pytest.mark.parametrize("read_inner_inputs", few_of([True, False]))
def test_gradients_equal_those_of_eager_recursion(read_inner_inputs, layers):
    """Padding, whose inputs are NaN, has no part in them."""
    children = random_children(6, 12, 6, seed=5)
    x = features(children)
    x[~is_node(children)] = np.nan
    x = tf.constant(x)
    layer = layers[read_inner_inputs]
    coefficients = np.random.default_rng(0).normal(size=(*children.shape[:2], 3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(coefficients * layer(x, children)[0])
    gradients = tape.gradient(loss, [x, *layer.trainable_variables])
    sources = [x, *(tf.constant(weight) for weight in layer.get_weights())]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        node = equations(reference.TENSORFLOW, layer, sources[1:])
        loss = 0.0
        for row, tree in enumerate(children):
            inputs = tf.unstack(sources[0][row][:, None])
            for number, states in reference.recursion(
                node, inputs, tree, read_inner_inputs
            ).items():
                loss += tf.reduce_sum(coefficients[row, number] * states[0])
    for one, two in zip(gradients, tape.gradient(loss, sources), strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(two), atol=1e-12)


@pytest.mark.slow
@each_read_inner_inputs
def test_gradients_equal_finite_differences(read_inner_inputs, layers):
    children = random_children(5, 12, 6, seed=6)
    x = tf.Variable(features(children))
    layer = layers[read_inner_inputs]
    variables = [x, *(weight.value for weight in layer.weights)]

    def loss():
        return sum(tf.reduce_sum(state + state**2) for state in layer(x.value(), children)[1:])

    with tf.GradientTape() as tape:
        total = loss()
    gradients = tape.gradient(total, variables)
    random = np.random.default_rng(0)
    for variable, gradient in zip(variables, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient).numpy()
        value = variable.numpy()
        for _ in range(3):
            place = tuple(random.integers(size) for size in value.shape)
            nudge = np.zeros_like(value)
            nudge[place] = 1e-5
            variable.assign(value + nudge)
            above = loss()
            variable.assign(value - nudge)
            difference = float(above - loss()) / 2e-5
            variable.assign(value)
            assert gradient[place] == pytest.approx(difference, rel=1e-6, abs=1e-8)


class Sum(RecursiveCell):
    """x + the sum of the children."""

    def build(self, input_shape):
        self.state_size = input_shape[-1]
        self.built = True

    def call(self, inputs, states):
        total = inputs + tf.reduce_sum(states[0], axis=1)
        return total, [total]


@pytest.mark.slow
def test_recurrent_dropout_of_each_child():
    """The factors are read off a linear layer of the same seed, a node at a time."""
    children = random_children(6, 9, 4, seed=3)
    rates = {"recurrent_dropout": 0.4, "seed": 5}
    linear = Recursive(Sum(arity=None, read_inner_inputs=True, **rates), return_sequences=True)
    seed = None
    by_state = np.ones((*children.shape[:2], 3))
    for child in range(1, 9):
        x = np.zeros((6, 9, 3))
        x[:, child] = 1.0
        if seed is not None:
            linear.seed_generator.state.assign(seed)
        else:
            seed = keras.ops.convert_to_numpy(linear.seed_generator.state)
        found = linear(x, children, training=True).numpy()
        for tree, parent, _ in np.argwhere(children == child):
            by_state[tree, child] = found[tree, parent]
    factors = by_state[is_node(children)]
    assert 0.1 < np.mean(factors == 0) < 0.6
    layer = built(return_sequences=True, **rates)
    x = features(children)
    wanted, _ = expected(layer, x, children, by_state)
    np.testing.assert_allclose(layer(x, children, training=True), wanted, atol=2e-5)
    assert np.abs(expected(layer, x, children)[0] - wanted).max() > 0.01


def softmax(value):
    """Of a whole gate, not of several that are joined."""
    return np.exp(value) / np.exp(value).sum(-1, keepdims=True)


GATES = {"relu": lambda value: np.maximum(value, 0), "softmax": softmax}


@pytest.mark.parametrize("read_inner_inputs", few_of([True, False], many=[]))
@pytest.mark.parametrize("name", few_of(GATES, "relu"))
def test_activations_and_no_bias(name, read_inner_inputs):
    """Of a root with two leaves, step by step."""
    children = np.array([[[2, -1, 1], [-1] * 3, [-1] * 3]], np.int32)
    x = features(children)
    layer = built(
        use_bias=False,
        activation="linear",
        recurrent_activation=name,
        read_inner_inputs=read_inner_inputs,
    )
    kernel, recurrent_kernel = layer.get_weights()
    gate = GATES[name]
    i, o, u = np.split(x[0, 1:] @ kernel[:, :9], 3, axis=1)
    c = gate(i) * u
    h = gate(o) * c
    root = x[0, 0] @ kernel if read_inner_inputs else np.zeros(12)
    i, o, u, _ = np.split(h.sum(axis=0) @ recurrent_kernel + root, 4)
    f = gate(h @ recurrent_kernel[:, 9:] + root[9:])
    wanted = gate(o) * (gate(i) * u + (f * c).sum(axis=0))
    np.testing.assert_allclose(layer(x, children)[0], wanted, atol=2e-6)


def word_model():
    """A model of words and children of any arity."""
    inputs = keras.Input([None], dtype="int32"), keras.Input([None, None], dtype="int32")
    x = keras.layers.Embedding(10, 4)(inputs[0])
    layer = ChildSumTreeLSTM(3, dropout=0.1, recurrent_dropout=0.1)
    return keras.Model(inputs, keras.layers.Dense(2)(layer(x, inputs[1]))), layer


def words(children):
    return np.random.default_rng(0).integers(0, 10, children.shape[:2])


@pytest.mark.slow
def test_fit_traces_once_whatever_the_arity():
    batches = []
    for arity in (2, 5, 3):
        children = random_children(4, 3 * arity, arity, seed=arity)
        batches.append(((words(children), children), words(children)[:, :1] % 2))
    model, layer = word_model()
    assert model.layers[-2].compute_output_shape((None, 7, 4), (None, 7, None)) == (None, 3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss)
    signature = (
        (tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None, None], tf.int32)),
        tf.TensorSpec([None, 1], tf.int32),
    )
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    history = model.fit(data, epochs=8, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]
    assert layer.num_traces == 1


def test_configuration():
    layer = ChildSumTreeLSTM(3, read_inner_inputs=False, unit_forget_bias=False, dropout=0.1)
    again = ChildSumTreeLSTM.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert not again.cell.read_inner_inputs
    assert again.cell.arity is None


def test_an_arity_where_none_is_taken_and_none_where_one_is_needed():
    with pytest.raises(ValueError, match="any number of children: leave `arity` out, received 2"):
        ChildSumTreeLSTM(3, arity=2)
    with pytest.raises(ValueError, match=r"received None.*there is ChildSumTreeLSTM"):
        TreeLSTM(3, arity=None)


def test_children_of_a_wrong_rank():
    with pytest.raises(ValueError, match=r"\[batch, nodes, arity\] with any arity.*\(2, 5\)"):
        built()(np.zeros((2, 5, 4)), np.zeros((2, 5), np.int32))


@pytest.mark.slow
def test_children_that_are_no_tree(layers):
    children = np.full((2, 4, 3), -1, np.int32)
    children[0, 0] = [3, 1, 2]
    children[1, 0] = [3, 1, -1]
    children[1, 1, 2] = 3
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)two parents.*\[\[1 3\]\]"):
        layers[True](features(children), children)
