"""A result that nobody reads has no part in a gradient, however infinite its derivative is.

Plain recursion has no cotangent for it. A cotangent of zero would be another thing: zero times
infinity is NaN.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of

ENGINES = {
    "waves": {"engine": "waves"},
    "scalar": {"engine": "scalar"},
    "parallel_tokens": {"engine": "waves", "parallel_tokens": 2},
    "recompute": {"engine": "waves", "recompute": True},
}
X = [0.0, 4.0, 0.0]
N = [2, 0, 1]

SINGULAR = {
    "power": lambda x: tf.pow(x, 0.5),
    "logarithm": lambda x: tf.math.log(x),
    "quotient": lambda x: (x - x) / (x - x),
}


def plain(singular, n, x):
    """For one token: half of half ..., and what grows beside it."""
    if n < 1:
        return x, singular(x)
    a, b = plain(singular, n - 1, x)
    return 0.5 * a * a + x, b + singular(x)


def recursion(singular, **options):
    @kerasrec.recursive(**options)
    def f(n, x):
        def deeper():
            a, b = f(n - 1, x)
            return 0.5 * a * a + x, b + singular(x)

        return kerasrec.cond(n < 1, lambda: (x, singular(x)), deeper)

    return f


def gradient(function, read):
    """Of the sum of the results that are read."""
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        results = function(x)
        loss = tf.add_n([tf.reduce_sum(results[place]) for place in read])
    return tape.gradient(loss, x).numpy()


def plain_gradient(singular, read):
    def run(x):
        rows = [plain(singular, n, x[place]) for place, n in enumerate(N)]
        return [tf.stack(column) for column in zip(*rows, strict=True)]

    return gradient(run, read)


@pytest.mark.parametrize("engine", few_of(ENGINES, "waves", "scalar"))
def test_of_the_root(engine):
    options = ENGINES[engine]
    singular = SINGULAR["power"]
    f = recursion(singular, **options)
    for read in ([0], [1], [0, 1]):
        expected = plain_gradient(singular, read)
        assert np.isfinite(expected).all() == (read == [0])
        np.testing.assert_allclose(gradient(lambda x: f(N, x), read), expected, rtol=1e-6)
        inside = tf.function(lambda x, read=read: gradient_in_graph(f, x, read), autograph=False)
        np.testing.assert_allclose(inside(tf.constant(X)), expected, rtol=1e-6)


def gradient_in_graph(f, x, read):
    results = f(N, x)
    return tf.gradients([results[place] for place in read], x)[0]


@pytest.mark.parametrize("name", ["logarithm", "quotient"])
def test_of_the_root_by_other_ops(name):
    f = recursion(SINGULAR[name], engine="waves")
    expected = plain_gradient(SINGULAR[name], [0])
    np.testing.assert_allclose(gradient(lambda x: f(N, x), [0]), expected, rtol=1e-6)


def test_of_one_token():
    f = recursion(SINGULAR["power"])
    x = tf.constant(0.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        a, _ = f(2, x)
    assert np.isfinite(tape.gradient(a, x))


@pytest.mark.parametrize("engine", few_of(ENGINES, "waves", "scalar"))
def test_of_calls_inside(engine):
    """The caller reads one result of two, and its own gradient has no part for the other."""
    options = ENGINES[engine]
    f = recursion(SINGULAR["power"], **options)

    @kerasrec.recursive(**options)
    def g(n, x):
        return kerasrec.cond(n < 1, lambda: 3.0 * x, lambda: f(n, x)[0] + g(n - 1, x))

    def plain_g(n, x):
        return 3.0 * x if n < 1 else plain(SINGULAR["power"], n, x)[0] + plain_g(n - 1, x)

    def run(x):
        return [tf.stack([plain_g(n, x[place]) for place, n in enumerate(N)])]

    expected = gradient(run, [0])
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(gradient(lambda x: [g(N, x)], [0]), expected, rtol=1e-6)
    graph = g.extended_graph(N, X)
    name = next(name for name in graph.bodies if name != graph.entry)
    assert [item is None for item in graph.bodies[name].sweeps[1].parameters] == [False, True]


def test_of_a_table_and_of_the_result_beside_it():
    weight = tf.Variable(2.0)

    @kerasrec.recursive
    def f(n, x):
        kerasrec.collect("roots", tf.pow(weight * x, 0.5), index=n, size=3)
        return kerasrec.cond(n < 1, lambda: x, lambda: 0.5 * f(n - 1, x))

    x = tf.constant([0.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, tables = f.with_tables([2], x)
    np.testing.assert_allclose(tape.gradient(y, x), [0.25])
    assert np.isinf(tape.gradient(tables["roots"], x)).all()
    assert tape.gradient(y, weight) == 0
