"""Gradients of the user's own, by `tf.custom_gradient`, that mix tokens are refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of

X = np.array([[3.0, 4.0], [-1.0, 0.5]], np.float32)


def gradient_of(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = function(x)
    return tape.gradient(result, x)


MIXING = {
    "the norm of all": lambda x, d: tf.clip_by_norm(d, 1.0),
    "the global norm": lambda x, d: tf.clip_by_global_norm([d], 1.0)[0][0],
    "a sum": lambda x, d: d + tf.reduce_sum(d),
    "the other way round": lambda x, d: tf.reverse(d, [0]),
    "how many there are": lambda x, d: d / tf.cast(tf.shape(d)[0], tf.float32),
    "a choice": lambda x, d: tf.cond(tf.reduce_sum(d) > 2, lambda: d, lambda: -d),
    "the largest argument": lambda x, d: d * tf.reduce_max(x),
}
APART = {
    "the norm of each": lambda x, d: tf.clip_by_norm(d, 1.0, axes=[1]),
    "each number": lambda x, d: tf.clip_by_value(d, -1.0, 1.0),
    "as it is": lambda x, d: d,
    "arguments": lambda x, d: d * tf.reduce_sum(x * x, 1, keepdims=True),
    "shares": lambda x, d: d / (1.0 + tf.reduce_sum(tf.abs(d), axis=1, keepdims=True)),
    "a function": lambda x, d: tf.function(lambda y: tf.tanh(y) * x)(d),
    "a tape": lambda x, d: d * gradient_of(lambda y: tf.gather(y, [1, 0], axis=1) ** 2, x),
}


def with_gradient(function):
    """A function of an argument and a cotangent as the gradient of a body."""

    @tf.custom_gradient
    def own(x):
        return tf.identity(x), lambda d: function(x, d)

    @kerasrec.recursive
    def power(n, x):
        return kerasrec.cond(n < 1, lambda: x, lambda: power(n - 1, own(3.0 * x)))

    return power


def eager_gradient(function, x):
    """Of the sum of squares of `power(1, x)`, by hand."""
    y = 3.0 * x
    return 3.0 * function(tf.constant(y), tf.constant(2.0 * y)).numpy()


@pytest.mark.parametrize("name", few_of(MIXING, "the norm of all"))
def test_those_that_mix_tokens_are_refused(name):
    alone = np.concatenate([eager_gradient(MIXING[name], x[None]) for x in X])
    assert not np.allclose(eager_gradient(MIXING[name], X), alone, atol=1e-3)
    with pytest.raises(
        kerasrec.TraceError, match=r"test_own_gradients.py.* not one value per token"
    ):
        with_gradient(MIXING[name])([1, 1], X)


@pytest.mark.parametrize("name", few_of(APART, "the norm of each"))
def test_others_are_right(name):
    x = tf.Variable(X)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(with_gradient(APART[name])([1, 1], x) ** 2)
    expected = np.concatenate([eager_gradient(APART[name], x[None]) for x in X])
    np.testing.assert_allclose(tape.gradient(loss, x), expected, rtol=1e-5)


@pytest.mark.many
@pytest.mark.parametrize("repeated", [tf.recompute_grad, keras.remat])
def test_what_is_computed_again_is_right(repeated):
    function = repeated(lambda y: tf.tanh(y) * tf.gather(y, [1, 0], axis=1))

    @kerasrec.recursive
    def power(n, x):
        return kerasrec.cond(n < 1, lambda: x, lambda: power(n - 1, function(x)))

    x = tf.Variable(X)
    with tf.GradientTape(persistent=True) as tape:
        result, expected = power([1, 1], x), tf.tanh(x) * tf.gather(x, [1, 0], axis=1)
    np.testing.assert_allclose(tape.gradient(result, x), tape.gradient(expected, x), rtol=1e-5)


def test_activations_with_a_gradient_of_their_own_are_right():
    dense = keras.layers.Dense(2, activation="silu")
    dense.build([None, 2])

    @kerasrec.recursive
    def layers(n, x):
        return kerasrec.cond(n < 1, lambda: x, lambda: layers(n - 1, dense(x)))

    x = tf.Variable(X)
    with tf.GradientTape(persistent=True) as tape:
        result, expected = layers([2, 2], x), dense(dense(x))
    np.testing.assert_allclose(tape.gradient(result, x), tape.gradient(expected, x), rtol=1e-5)
