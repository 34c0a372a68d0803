"""Gradients of tree layers against plain eager recursion and finite differences."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import TreeGRU, TreeLSTM
from tests.layers import reference
from tests.layers.helpers import (
    LAYERS,
    TOLERANCE,
    any_layer,
    built,
    each_read_inner_inputs,
    features,
    is_node,
    random_children,
    treebank_batch,
)
from tests.parameters import few_of

pytestmark = pytest.mark.usefixtures("optimized")

NUM_TREES = 2


def coefficients(*shape):
    return np.random.default_rng(7).normal(size=shape)


def loss_of(states, scale):
    """A loss that each number in each state, `[.., units]`, has its own part in."""
    return sum(
        tf.reduce_sum(tf.cast(coefficients(*state.shape), state.dtype) * (state + state**2)) * scale
        for state in states
    )


def layer_loss(layer, x, children):
    """The loss on all nodes, or on all states of the roots."""
    found = layer(x, children)
    return loss_of([found] if layer.return_sequences else found[1:], 0.1)


@pytest.fixture(scope="module")
def layers():
    """Layers with random weights that return all there is, each traced once for all tests."""

    @functools.cache
    def make(layer_class, read_inner_inputs, dtype):
        options = {
            "return_sequences": True,
            "return_state": True,
            "read_inner_inputs": read_inner_inputs,
        }
        return built(layer_class, treebank_batch(NUM_TREES)[1], dtype=dtype, **options)

    return make


def inputs_of_nodes(children):
    """Features of nodes, and NaN for padding, which has no part in anything."""
    x = features(children)
    x[~is_node(children)] = np.nan
    return x


@functools.cache
def eager_gradients(layer_class, read_inner_inputs):
    """Gradients of x and of all weights, by Python recursion in float64.

    Returns:
        For the loss on all nodes and for that on the root: a list of arrays.
    """
    _, children, _ = treebank_batch(NUM_TREES)
    assert not is_node(children).all()
    layer = built(layer_class, children, read_inner_inputs=read_inner_inputs, dtype="float64")
    x = inputs_of_nodes(children)
    sources = [tf.constant(x), *(tf.constant(one) for one in layer.get_weights())]
    num_nodes = children.shape[1]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        rows = tf.unstack(tf.reshape(sources[0], [-1, 1, 4]))
        node = LAYERS[layer_class].equations(reference.TENSORFLOW, 3, sources[1:])
        sequence = [tf.zeros([1, 3], tf.float64)] * len(rows)
        roots = []
        for start, tree in zip(range(0, len(rows), num_nodes), children, strict=True):
            inputs = rows[start : start + num_nodes]
            found = reference.recursion(node, inputs, tree, read_inner_inputs)
            for number, states in found.items():
                sequence[start + number] = states[0]
            roots.append(found[0])
        states = [tf.concat(state, 0) for state in zip(*roots, strict=True)]
        on_nodes = loss_of([tf.reshape(tf.concat(sequence, 0), [NUM_TREES, num_nodes, 3])], 0.1)
        on_root = loss_of(states, 0.1)
    return [
        [tf.convert_to_tensor(one).numpy() for one in tape.gradient(loss, sources)]
        for loss in (on_nodes, on_root)
    ]


@pytest.mark.many
@pytest.mark.parametrize(
    ("layer_class", "read_inner_inputs", "dtype"),
    few_of(
        itertools.product(LAYERS, [False, True], ["float32", "float64"]),
        (TreeLSTM, False, "float64"),
        many=[
            (TreeGRU, True, "float32"),
        ],
    ),
)
def test_gradients_equal_those_of_eager_recursion(layer_class, read_inner_inputs, dtype, layers):
    """Of the loss on all nodes and of that on the root."""
    _, children, _ = treebank_batch(NUM_TREES)
    layer = layers(layer_class, read_inner_inputs, dtype)
    x = tf.constant(inputs_of_nodes(children), dtype)
    sources = [x, *layer.trainable_variables]
    for on_root, wanted in enumerate(eager_gradients(layer_class, read_inner_inputs)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            found = layer(x, children)
            loss = loss_of(found[1:] if on_root else found[:1], 0.1)
        for source, gradient, one in zip(
            sources, tape.gradient(loss, sources), wanted, strict=True
        ):
            assert gradient.dtype == dtype
            error = np.abs(tf.convert_to_tensor(gradient) - one).max() / np.abs(one).max()
            assert error < TOLERANCE[dtype], getattr(source, "path", "x")


# test_every_layer.py compares along one direction.
@pytest.mark.slow
@pytest.mark.parametrize("layer_class", LAYERS)
@each_read_inner_inputs
def test_gradients_equal_finite_differences(layer_class, read_inner_inputs):
    """Of random entries of x and of each weight, in float64."""
    children = random_children(5, 9, 3, seed=5)
    options = {"return_sequences": True} if read_inner_inputs else {"return_state": True}
    layer = built(
        layer_class, children, read_inner_inputs=read_inner_inputs, dtype="float64", **options
    )
    x = tf.Variable(features(children))
    variables = [x, *(weight.value for weight in layer.weights)]
    with tf.GradientTape() as tape:
        loss = layer_loss(layer, x.value(), children)
    gradients = [tf.convert_to_tensor(one).numpy() for one in tape.gradient(loss, variables)]
    random = np.random.default_rng(0)
    step = 1e-5
    for variable, gradient in zip(variables, gradients, strict=True):
        value = variable.numpy()
        for _ in range(3):
            place = tuple(random.integers(size) for size in value.shape)
            losses = []
            for sign in (1, -1):
                moved = value.copy()
                moved[place] += sign * step
                variable.assign(moved)
                losses.append(float(layer_loss(layer, x.value(), children)))
            variable.assign(value)
            difference = (losses[0] - losses[1]) / (2 * step)
            assert gradient[place] == pytest.approx(difference, rel=1e-6, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("layer_class", LAYERS)
def test_penalty_on_a_gradient(layer_class):
    """Its gradient, a second derivative of the layer, against finite differences."""
    children = random_children(3, 5, 2, seed=5)
    layer = built(
        layer_class, children, return_sequences=True, read_inner_inputs=True, dtype="float64"
    )
    x = tf.Variable(features(children))

    def penalty():
        with tf.GradientTape() as tape:
            loss = layer_loss(layer, x.value(), children)
        return tf.reduce_sum(tf.convert_to_tensor(tape.gradient(loss, x)) ** 2)

    with tf.GradientTape(persistent=True) as tape:
        found = penalty()
    for weight in [x, *(item.value for item in layer.trainable_weights)]:
        (gradient,) = tape.gradient(found, [weight])
        value, step = weight.numpy(), 1e-5
        place = np.unravel_index(np.abs(gradient).argmax(), value.shape)
        nudge = np.zeros_like(value)
        nudge[place] = step
        weight.assign(value + nudge)
        above = penalty()
        weight.assign(value - nudge)
        below = penalty()
        weight.assign(value)
        np.testing.assert_allclose(gradient[place], (above - below) / (2 * step), rtol=1e-5)


@pytest.mark.slow
@any_layer
def test_batch_without_trees_has_zero_gradients(layer_class, layers):
    layer = layers(layer_class, False, "float64")
    children = np.zeros((0, 5, 2), np.int32)
    with tf.GradientTape() as tape:
        sequence, *states = layer(features(children), children)
        loss = loss_of([sequence, *states], 0.1)
    assert sequence.shape == (0, 5, 3)
    assert all(state.shape == (0, 3) for state in states)
    for gradient in tape.gradient(loss, layer.trainable_variables):
        assert not np.any(tf.convert_to_tensor(gradient))


@pytest.mark.slow
@any_layer
def test_tf_gradients_equal_those_of_eager_recursion(layer_class, layers):
    _, children, _ = treebank_batch(NUM_TREES)
    layer = layers(layer_class, False, "float64")
    x = tf.constant(inputs_of_nodes(children))
    weights = [weight.value for weight in layer.trainable_variables]

    @tf.function
    def gradients():
        found = tf.gradients(loss_of(layer(x, children)[:1], 0.1), [x, *weights])
        return [tf.convert_to_tensor(one) for one in found]

    wanted, _ = eager_gradients(layer_class, False)
    for mine, theirs in zip(gradients(), wanted, strict=True):
        error = np.abs(mine - theirs).max() / np.abs(theirs).max()
        assert error < TOLERANCE["float64"]
