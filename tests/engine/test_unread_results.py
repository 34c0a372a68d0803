"""A result that nobody reads has no part in a gradient, however infinite its derivative is.

Plain recursion has no cotangent for it. A cotangent of zero would be another thing: zero times
infinity is NaN.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.interpreter import interpret
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
    """For one token: half of half ..., and a sum that grows next to it."""
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


@pytest.mark.slow
@pytest.mark.parametrize("engine", few_of(ENGINES, "waves", many=[]))
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logarithm", "quotient"])
def test_of_the_root_by_other_ops(name):
    f = recursion(SINGULAR[name], engine="waves")
    expected = plain_gradient(SINGULAR[name], [0])
    np.testing.assert_allclose(gradient(lambda x: f(N, x), [0]), expected, rtol=1e-6)


@pytest.mark.slow
def test_of_one_token():
    f = recursion(SINGULAR["power"])
    x = tf.constant(0.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        a, _ = f(2, x)
    assert np.isfinite(tape.gradient(a, x))


@pytest.mark.slow
@pytest.mark.parametrize("engine", few_of(ENGINES, many=["waves"]))
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
    assert [item is None for item in graph.bodies[name].sweeps[1].parameters] == [False]


@pytest.mark.slow
def test_of_a_table_and_of_the_result_beside_it():
    weight = tf.Variable(2.0)

    @kerasrec.recursive
    def f(n, x):
        kerasrec.collect("roots", tf.pow(weight * x, 0.5), index=n, size=3)
        return kerasrec.cond(n < 1, lambda: x, lambda: 0.5 * f(n - 1, x))

    x = tf.constant([0.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, collected = f.with_collected([2], x)
    np.testing.assert_allclose(tape.gradient(y, x), [0.25])
    assert np.isinf(tape.gradient(collected["roots"], x)).all()
    assert tape.gradient(y, weight) == 0


# One call reads a result of a function that another call drops. Each program is written once, for
# kerasrec and for plain recursion.

WEIGHT = tf.Variable(2.0)
CHILDREN = [[1, 2], [3], [], []]
CHILD_ROWS = tf.ragged.constant(CHILDREN, dtype=tf.int32)


def one_of_two(recursive, cond):
    @recursive
    def f(n, x):
        def deeper():
            a, _ = f(n - 1, x)
            return 2.0 * a, a

        return cond(n < 1, lambda: (x, WEIGHT * tf.pow(x, 0.5)), deeper)

    return f


def mutual(recursive, cond):
    """`g` drops a result of `f`, and one call of `g` drops one of `g`'s; branches in branches."""

    @recursive
    def g(n, x):
        def deeper():
            a, _, c = f(n - 1, x)
            return a, c

        return cond(n < 1, lambda: (x * x, tf.math.log(x)), deeper)

    @recursive
    def f(n, x):
        def deeper():
            p, q = g(n - 1, x)
            r, _ = g(n - 1, 2.0 * x)
            return p + r, q * 1.5, cond(n > 1, lambda: tf.sqrt(x) * p, lambda: r + x)

        return cond(n < 1, lambda: (3.0 * x, WEIGHT * tf.math.log(x), tf.pow(x, 0.5)), deeper)

    return f


def nested(recursive, cond):
    """A function inside a function, which closes over the token's values."""

    @recursive
    def f(n, x):
        @recursive
        def g(m, y):
            def deeper():
                a, b = g(m - 1, y)
                return a + x, b * WEIGHT

            return cond(m < 1, lambda: (y * x, tf.math.log(y) * WEIGHT), deeper)

        a, b = g(n, x + 1.0)
        c, _ = g(n, x)
        return cond(n < 2, lambda: (a, b), lambda: (a + c, b + f(n - 1, x)[0]))

    return f


def argument(recursive, cond):
    """An argument that only a dropped result depends on is computed in the caller."""

    @recursive
    def g(n, x, y):
        return cond(n < 1, lambda: (x * x, 3.0 * y), lambda: g(n - 1, x, y))

    @recursive
    def f(n, x):
        a, _ = g(n, x, tf.pow(x, 0.5))
        b, c = g(n, x, x)
        return a + b, c

    return f


def loop(recursive, cond):
    """An op whose gradient runs it again, and a product with a weight that tokens share."""

    @recursive
    def f(n, x):
        def roots():
            _, root = tf.while_loop(
                lambda i, _: i < 2, lambda i, value: (i + 1, tf.sqrt(value)), (0, x)
            )
            row = tf.stack([root, tf.math.log(x + 1.0)], -1)
            return tf.reduce_sum(row @ tf.fill([2, 2], tf.convert_to_tensor(WEIGHT)), -1)

        return cond(n < 1, lambda: (x, roots()), lambda: (2.0 * f(n - 1, x)[0], f(n - 1, x)[0]))

    return f


def passed(recursive, cond):
    """An op whose gradient runs it again makes an argument of the call that drops a result."""

    @recursive
    def f(n, x):
        def deeper():
            _, value = tf.while_loop(
                lambda i, _: i < 2, lambda i, value: (i + 1, WEIGHT * tf.sin(value)), (0, x)
            )
            for _ in range(5):  # Puts much between the argument and the branch.
                value = tf.sin(value)
            return 3.0 * x, f(n - 1, value)[1]

        return cond(n < 1, lambda: (tf.pow(x, 0.5), x * x), deeper)

    return f


PROGRAMS = {item.__name__: item for item in (one_of_two, mutual, nested, argument, loop, passed)}


def plain_cond(predicate, true_fn, false_fn):
    return true_fn() if np.all(predicate) else false_fn()


def plain_rows(function, n, x):
    """The results of plain recursion over tokens of one row."""
    rows = [function(n[place], x[place : place + 1]) for place in range(len(n))]
    return [tf.concat(column, 0) for column in zip(*rows, strict=True)]


def gradients(function, n, x):
    """Of the sum of all results, with different factors, in `x` and in the weight."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.add_n(
            [(place + 1.0) * tf.reduce_sum(item) for place, item in enumerate(function(n, x))]
        )
    return tape.gradient(loss, [x, WEIGHT], unconnected_gradients="zero")


def assert_as_plain(function, plain_function, n, x):
    expected = gradients(partial(plain_rows, plain_function), n, x)
    for found, wanted in zip(gradients(function, n, x), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("engine", few_of(ENGINES, many=["waves"]))
def test_of_a_call_that_drops_what_another_reads(engine):
    f = one_of_two(kerasrec.recursive(**ENGINES[engine]), kerasrec.cond)
    plain_f = one_of_two(lambda function: function, plain_cond)
    expected = assert_as_plain(f, plain_f, [1, 2, 0], [0.0, 0.0, 4.0])
    assert np.isfinite(expected[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(PROGRAMS, many=["mutual"]))
def test_of_functions_that_call_each_other(name):
    f = PROGRAMS[name](kerasrec.recursive(engine="waves"), kerasrec.cond)
    plain_f = PROGRAMS[name](lambda function: function, plain_cond)
    expected = assert_as_plain(f, plain_f, [1, 2, 0, 3], [0.0, 0.0, 4.0, 1.0])
    assert np.isfinite(expected[0]).any()
    graph = f.extended_graph([1], [0.0])
    run = interpret(graph, [np.int32([1]), np.float32([0.0])], *cotangents_of(graph))
    np.testing.assert_allclose(run.gradients[1], expected[0][:1], rtol=1e-6)


def cotangents_of(graph):
    """Those of `gradients`, for one token."""
    return (
        [np.float32([place + 1.0]) for place, _ in enumerate(graph.bodies[graph.entry].outputs)],
    )


@pytest.mark.slow
def test_of_rows_and_a_table():
    """A table in a function has its gradient whether or not the call's results are read."""

    @kerasrec.recursive(returns=(tf.TensorSpec([]), tf.TensorSpec([])))
    def f(node, x):
        children = tf.gather(CHILD_ROWS, node)
        below, _ = f(children, x - 1.0)
        roots = kerasrec.map_fn(lambda value: tf.sqrt(0.0 * value + x) * WEIGHT, below)
        kerasrec.collect("seen", WEIGHT * x * x, index=node, size=4)
        return x + tf.reduce_sum(below, 1), tf.pow(x, 0.5) + tf.reduce_sum(roots, 1)

    def plain_f(node, x):
        below = [plain_f(child, x - 1.0) for child in CHILDREN[node]]
        roots = [tf.sqrt(0.0 * value + x) * WEIGHT for value, *_ in below]
        seen = [WEIGHT * x * x, *(item[2] for item in below)]
        return (
            tf.add_n([x, *(item[0] for item in below)]),
            tf.add_n([tf.pow(x, 0.5), *roots]),
            tf.add_n(seen),
        )

    def with_table(n, x):
        results, collected = f.with_collected(n, x)
        return [*results, collected["seen"]]

    expected = assert_as_plain(with_table, plain_f, [0, 1, 2, 3], [1.0, 1.0, 2.0, 4.0])
    assert np.isfinite(expected[0]).all()


@pytest.mark.many
def test_only_results_that_differ_between_calls_are_carried():
    for make, name, carried in (
        (recursion(SINGULAR["power"]), "f", []),
        (one_of_two(kerasrec.recursive, kerasrec.cond), "f", ["reads_output_1"]),
    ):
        tagged, extended = make.tagged_graph(N, X), make.extended_graph(N, X)
        names = [node.name for node in extended.bodies[name].parameters]
        assert names == ["n", "x", *carried]
        assert (extended.bodies[name].sweeps[0] is tagged.bodies[name].sweeps[0]) == (not carried)


@pytest.mark.slow
def test_of_the_root_beside_a_result_that_depends_on_all():
    """Ops that all results depend on ask for nothing; what is read is known all the same."""

    @kerasrec.recursive
    def f(x):
        y = x * x + x
        return y, tf.pow(y, 0.5)

    x = tf.constant([0.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _ = f(x)
    np.testing.assert_allclose(tape.gradient(y, x), [1.0])


@pytest.mark.parametrize("engine", few_of(["waves", "scalar"], many=[]))
def test_second_derivative(engine):
    """Of only the first result, and of both where a call inside drops the second."""

    def second(function, read):
        x = tf.constant([0.0, 0.0, 0.5])
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                results = function([1, 2, 2], x)
                loss = tf.add_n([tf.reduce_sum(results[place]) for place in read])
            square = tf.square(inner.gradient(loss, x))
        return outer.gradient(square, x)

    def make(recursive, cond):
        @recursive
        def f(n, x):
            def deeper():
                a, _ = f(n - 1, x)
                return a * a + x, a

            return cond(n < 1, lambda: (x * x, tf.pow(x, 0.5)), deeper)

        @recursive
        def g(n, x):
            def deeper():
                return g(n - 1, x)[0] * x, tf.pow(x, 0.5)

            return cond(n < 1, lambda: (x * x * x, tf.pow(x, 0.5)), deeper)

        return f, g

    functions = make(kerasrec.recursive(engine=engine), kerasrec.cond)
    plain_functions = make(lambda function: function, plain_cond)
    for function, plain_function, read in zip(
        functions, plain_functions, ([0, 1], [0]), strict=True
    ):
        expected = second(partial(plain_rows, plain_function), read)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(second(function, read), expected, rtol=1e-5)
