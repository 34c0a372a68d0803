"""Gradients of tree layers against plain eager recursion and finite differences."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import RNTN, TreeGRU, TreeLSTM, TreeRNN
from tests.layers import reference
from tests.layers.helpers import (
    LAYERS,
    TOLERANCE,
    any_layer,
    built,
    each_layer,
    features,
    is_node,
    random_children,
    treebank_batch,
)
from tests.parameters import few_of

NUM_TREES = 8


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


@functools.cache
def eager_gradients(layer_class, inner_inputs):
    """Gradients of x and of all weights, by Python recursion in float64.

    Returns:
        For the loss on all nodes and for that on the root: a list of arrays.
    """
    _, children, _ = treebank_batch(NUM_TREES)
    layer = built(layer_class, children, inner_inputs=inner_inputs, dtype="float64")
    sources = [tf.constant(features(children)), *(tf.constant(one) for one in layer.get_weights())]
    num_nodes = children.shape[1]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        rows = tf.unstack(tf.reshape(sources[0], [-1, 1, 4]))
        node = LAYERS[layer_class].equations(reference.TENSORFLOW, 3, sources[1:])
        sequence = [tf.zeros([1, 3], tf.float64)] * len(rows)
        roots = []
        for start, tree in zip(range(0, len(rows), num_nodes), children, strict=True):
            inputs = rows[start : start + num_nodes]
            found = reference.recursion(node, inputs, tree, inner_inputs)
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


@pytest.mark.parametrize(
    ("layer_class", "inner_inputs", "dtype"),
    few_of(
        itertools.product(LAYERS, [False, True], ["float32", "float64"]),
        (TreeLSTM, False, "float64"),
        many=[
            (TreeRNN, True, "float32"),
            (RNTN, True, "float64"),
            (TreeGRU, False, "float64"),
        ],
    ),
)
def test_gradients_equal_those_of_eager_recursion(layer_class, inner_inputs, dtype):
    """Of the loss on all nodes and of that on the root."""
    _, children, _ = treebank_batch(NUM_TREES)
    options = {"inner_inputs": inner_inputs, "dtype": dtype}
    layer = built(layer_class, children, return_sequences=True, return_state=True, **options)
    x = tf.constant(features(children), dtype)
    sources = [x, *layer.trainable_variables]
    for on_root, wanted in enumerate(eager_gradients(layer_class, inner_inputs)):
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


@pytest.mark.parametrize(
    ("layer_class", "inner_inputs"),
    few_of(itertools.product(LAYERS, [False, True]), many=[(TreeLSTM, True), (TreeGRU, False)]),
)
def test_gradients_equal_finite_differences(layer_class, inner_inputs):
    """Of random entries of x and of each weight, in float64."""
    children = random_children(5, 9, 3, seed=5)
    options = {"return_sequences": True} if inner_inputs else {"return_state": True}
    layer = built(layer_class, children, inner_inputs=inner_inputs, dtype="float64", **options)
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
    layer = built(layer_class, children, return_sequences=True, inner_inputs=True, dtype="float64")
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


@each_layer
def test_padding_has_no_part_in_gradients(layer_class):
    children = random_children(6, 9, 2, seed=3)
    padding = ~is_node(children)
    layer = built(layer_class, children, inner_inputs=True, return_sequences=True)
    found = []
    for garbage in (0.0, np.nan, np.inf):
        x = features(children).astype("float32")
        x[padding] = garbage
        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = layer_loss(layer, x, children)
        gradients = tape.gradient(loss, [x, *layer.trainable_variables])
        found.append([tf.convert_to_tensor(gradient).numpy() for gradient in gradients])
        assert (found[-1][0][padding] == 0).all()
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@any_layer
def test_batch_without_trees_has_zero_gradients(layer_class):
    children = np.zeros((0, 5, 2), np.int32)
    layer = built(layer_class, children, return_sequences=True)
    with tf.GradientTape() as tape:
        loss = layer_loss(layer, features(children), children)
    for gradient in tape.gradient(loss, layer.trainable_variables):
        assert not np.any(tf.convert_to_tensor(gradient))


@pytest.mark.many
@any_layer
def test_tf_gradients_equal_those_of_the_tape(layer_class):
    _, children, _ = treebank_batch(3)
    layer = built(layer_class, children, return_sequences=True)
    x = tf.constant(features(children), "float32")

    def sources():
        return [x, *(weight.value for weight in layer.trainable_variables)]

    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = layer_loss(layer, x, children)
    wanted = tape.gradient(loss, sources())

    @tf.function
    def gradients():
        found = tf.gradients(layer_loss(layer, x, children), sources())
        return [tf.convert_to_tensor(one) for one in found]

    for one, two in zip(gradients(), wanted, strict=True):
        keras_two = keras.ops.convert_to_numpy(tf.convert_to_tensor(two))
        np.testing.assert_allclose(one, keras_two, rtol=1e-5, atol=1e-6)
