"""Recursive functions inside of what XLA compiles as a whole, beside plain Python."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.compiled.ops import has_rows, obstacles
from tests.engine.helpers import assert_same, run_plain, run_within_xla
from tests.programs import each


@pytest.fixture
def takeable(program):
    """A program that XLA takes; found out here, since it traces what is collected."""
    graph = program.function.extended_graph(*program.inputs)
    outputs = graph.bodies[graph.entry].outputs
    found = obstacles(graph)
    found += ["entries of rows"] * has_rows(graph)
    found += ["a table without a size" for node in graph.collects if node.size is None]
    found += ["a bool has no gradient"] * (outputs[0].types[0].dtype == tf.bool)
    if found:
        pytest.skip(found[0])
    return program


@each(few=[], many=["ackermann"])
def test_every_program(takeable):
    calls = takeable.function.run_trace(*takeable.inputs).num_calls
    assert_same(run_within_xla(takeable, calls), run_plain(takeable))


def by_xla(function):
    return tf.function(function, jit_compile=True, autograph=False)


def scaled_fib(**options):
    @kerasrec.recursive(**options)
    def fib(n, w):
        return kerasrec.cond(
            n < 2, lambda: w * tf.cast(n, w.dtype), lambda: fib(n - 1, 3.0 * w) + fib(n - 2, w)
        )

    return fib


def with_gradient(function, n, w):
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = function(n, w)
    return y, tape.gradient(y, w)


@pytest.mark.slow
def test_the_tape_may_be_inside_and_the_function_called_before():
    fib, n, w = scaled_fib(xla_calls=15), tf.constant([5, 1, 3]), tf.constant([1.0, -2.0, 0.5])
    outside = with_gradient(fib, n, w)
    inside = by_xla(lambda n, w: with_gradient(fib, n, w))(n, w)
    again = with_gradient(fib, n, w)
    for one, two, three in zip(outside, inside, again, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)
        np.testing.assert_array_equal(one, three)


@pytest.mark.slow
def test_more_calls_than_there_is_room_for_are_not_a_number():
    fib, n, w = scaled_fib(xla_calls=14), tf.constant([5]), tf.constant([1.0])
    for found in by_xla(lambda n, w: with_gradient(fib, n, w))(n, w):
        assert np.isnan(found)
    count = kerasrec.recursive(xla_calls=3)(
        lambda n: kerasrec.cond(n < 1, lambda: 0, lambda: count(n - 1) + 1)
    )
    np.testing.assert_array_equal(by_xla(count)([2]), [2])
    np.testing.assert_array_equal(by_xla(count)([3]), [np.iinfo(np.int32).max])


@pytest.mark.slow
def test_what_raises_an_error_elsewhere_is_not_a_number():
    table = tf.constant([1.0, 2.0, 3.0])

    @kerasrec.recursive(xla_calls=9)
    def last(n):
        return kerasrec.cond(n < 1, lambda: tf.gather(table, n + 3), lambda: last(n - 1))

    assert np.isnan(by_xla(last)([2])).all()

    @kerasrec.recursive(xla_calls=9, max_depth=4)
    def down(n):
        return kerasrec.cond(n < 1, lambda: 1.0, lambda: down(n - 1))

    np.testing.assert_array_equal(by_xla(down)([3]), [1.0])
    assert np.isnan(by_xla(down)([4])).all()


@pytest.mark.many
def test_a_table_says_how_many_calls_there_may_be():
    @kerasrec.recursive
    def total(node):
        return tf.gather(values, node) + kerasrec.cond(
            tf.gather(left, node) < 0,
            lambda: 0.0,
            lambda: total(tf.gather(left, node)) + total(tf.gather(right, node)),
        )

    def run(given_values, given_left, given_right):
        nonlocal values, left, right
        values, left, right = given_values, given_left, given_right
        return total(tf.constant([0]))

    values = left = right = None
    nodes = tf.constant([1.0, 2.0, 4.0, 8.0, 16.0])
    found = by_xla(run)(nodes, tf.constant([1, -1, 3, -1, -1]), tf.constant([2, -1, 4, -1, -1]))
    np.testing.assert_array_equal(found, [31.0])


@pytest.mark.many
@pytest.mark.parametrize(
    ("options", "result", "sentence"),
    [
        ({}, lambda n: n, r"needs to know how many calls .* @kerasrec.recursive\(xla_calls=...\)"),
        ({"xla_calls": 5}, lambda n: n > 0, "it returns a truth value"),
        (
            {"xla_calls": 5, "parallel_tokens": 2},
            lambda n: n,
            "parallel_tokens is a bound on waves",
        ),
    ],
)
def test_what_cannot_be_compiled_says_so(options, result, sentence):
    @kerasrec.recursive(**options)
    def down(n):
        return kerasrec.cond(n < 1, lambda: result(n), lambda: down(n - 1))

    with pytest.raises(kerasrec.TraceError, match=f"down is called inside of .*{sentence}"):
        by_xla(down)([3])
    down([3])


def test_a_table_without_an_index_cannot_be_compiled():
    @kerasrec.recursive(xla_calls=5)
    def down(n):
        kerasrec.collect("seen", n)
        return kerasrec.cond(n < 1, lambda: n, lambda: down(n - 1))

    with pytest.raises(kerasrec.TraceError, match="a table without an index"):
        by_xla(down)([3])


def test_a_table_of_truth_values_cannot_be_compiled():
    @kerasrec.recursive(xla_calls=5)
    def down(n):
        kerasrec.collect("positive", n > 0, n, 5)
        return kerasrec.cond(n < 1, lambda: n, lambda: down(n - 1))

    with pytest.raises(kerasrec.TraceError, match="it collects truth values"):
        by_xla(down)([3])


@pytest.mark.many
def test_a_function_that_makes_no_calls_needs_no_number_of_calls():
    square = kerasrec.recursive(lambda x: x * x)
    found = tf.function(square, jit_compile=True)(tf.constant([2.0, 3.0]))
    np.testing.assert_allclose(found, [4.0, 9.0])


def test_room_for_no_calls_is_refused():
    with pytest.raises(kerasrec.TraceError, match="xla_calls is 0"):
        kerasrec.recursive(xla_calls=0)(lambda n: n)


@pytest.mark.slow
def test_a_second_derivative_is_an_error_and_not_missing():
    fib, n, w = scaled_fib(xla_calls=15), tf.constant([5, 3]), tf.constant([1.0, -2.0])

    def twice(n, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            _, gradient = with_gradient(lambda n, w: fib(n, w) ** 2, n, w)
        return tape.gradient(gradient, w)

    def forward(n, w):
        with tf.autodiff.ForwardAccumulator(w, tf.ones_like(w)) as accumulator:
            y = fib(n, w)
        return accumulator.jvp(y)

    for differentiated in (twice, forward):
        assert np.isfinite(differentiated(n, w)).all()
        with pytest.raises(kerasrec.TraceError, match="fib is differentiated twice inside of"):
            by_xla(differentiated)(n, w)
