"""Gradients of ops that broadcast or reduce, against those of TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of

SHARED = tf.constant([0.3, -0.7, 0.9], tf.float64)
BODIES = {
    "a number times a matrix": lambda x, y, z: x * z[:, None, None],
    "a row divided by": lambda x, y, z: x / y[:, None, :],
    "a column less a row": lambda x, y, z: x[:, :, :1] - y[:, None, :] * z[:, None, None],
    "of one and of three": lambda x, y, z: x[:, :1, :1] * x * x[:, :1],
    "what all share": lambda x, y, z: (x * SHARED) ** 2 * y[:, None, :] ** SHARED,
    "sum": lambda x, y, z: y * tf.reduce_sum(x * x, 1) ** 2,
    "sums of two axes": lambda x, y, z: tf.reduce_sum(tf.exp(x), [1, -1], keepdims=True) * x,
    "mean": lambda x, y, z: x - tf.reduce_mean(x, axis=-1, keepdims=True) ** 2,
    "means of means": lambda x, y, z: z * tf.reduce_mean(tf.reduce_mean(x * x, 2) ** 2, 1),
    "softmax by hand": lambda x, y, z: tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, keepdims=True),
}


def tokens(number):
    random = np.random.default_rng(number)
    return [tf.constant(random.uniform(0.5, 1.5, [number, *dims])) for dims in ([4, 3], [3], [])]


def derivatives(function, given):
    """Gradients, and those of the sum of their squares."""
    with tf.GradientTape() as outer:
        outer.watch(given)
        with tf.GradientTape() as inner:
            inner.watch(given)
            result = function(*given) ** 2
        first = inner.gradient(result, given, unconnected_gradients="zero")
        size = tf.add_n([tf.reduce_sum(item * item) for item in first])
    return [*first, *outer.gradient(size, given, unconnected_gradients="zero")]


@pytest.mark.parametrize(
    "name", few_of(BODIES, "sum", many=["a row divided by", "sums of two axes"])
)
def test_derivatives_are_those_of_tensorflow(name):
    body = BODIES[name]
    function = kerasrec.recursive(lambda x, y, z: body(x, y, z))
    for number in (2, 1):
        given = tokens(number)
        found, expected = derivatives(function, given), derivatives(body, given)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    assert [item.shape[0] for item in derivatives(function, tokens(0))] == [0] * 6


@pytest.mark.parametrize("name", few_of(BODIES, "mean", "what all share"))
def test_no_shapes_are_compared(name):
    function = kerasrec.recursive(lambda x, y, z: BODIES[name](x, y, z))
    graph = function.extended_graph(*tokens(2))
    body = graph.bodies[graph.entry]
    ops = {node.op for node in body.sweeps[1].nodes}
    assert "Mul" in ops
    assert ops.isdisjoint({"BroadcastGradientArgs", "DynamicStitch"})
