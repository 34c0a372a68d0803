"""Recursive functions in code that XLA compiles as a whole, against plain Python."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.frames.rows_xla.ops import obstacles
from tests.engine.helpers import (
    assert_same,
    assert_same_second,
    run_plain,
    run_within_xla,
    second_gradients_within_xla,
)
from tests.parameters import few_of
from tests.programs import each


@pytest.fixture
def takeable(program):
    """A program that XLA takes; found out here, since it traces what is collected."""
    graph = program.function.extended_graph(*program.inputs)
    outputs = graph.bodies[graph.entry].outputs
    found = obstacles(graph)
    found += ["a table without a size" for node in graph.collects if node.size is None]
    found += ["a bool has no gradient"] * (outputs[0].types[0].dtype == tf.bool)
    if found:
        pytest.skip(found[0])
    return program


@each(few=[], many=["ackermann"])
def test_every_program(takeable):
    calls = takeable.function.run_trace(*takeable.inputs).num_calls
    assert_same(run_within_xla(takeable, calls), run_plain(takeable))


@pytest.mark.slow
@each(few=["power"], many=["power"])
def test_second_derivatives_of_every_program(takeable):
    if not takeable.has_gradient:
        pytest.skip("it has no gradient")
    calls = takeable.function.run_trace(*takeable.inputs).num_calls
    try:
        found = second_gradients_within_xla(takeable, calls)
    except kerasrec.TraceError as error:
        if "differentiated 2 times" not in str(error):
            raise
        pytest.skip(str(error))
    assert_same_second(takeable, found)


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
    fib, n, w = scaled_fib(max_xla_calls=15), tf.constant([5, 1, 3]), tf.constant([1.0, -2.0, 0.5])
    outside = with_gradient(fib, n, w)
    inside = by_xla(lambda n, w: with_gradient(fib, n, w))(n, w)
    again = with_gradient(fib, n, w)
    for one, two, three in zip(outside, inside, again, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)
        np.testing.assert_array_equal(one, three)


@pytest.mark.slow
def test_more_calls_than_there_is_room_for_are_not_a_number():
    fib, n, w = scaled_fib(max_xla_calls=14), tf.constant([5]), tf.constant([1.0])
    for found in by_xla(lambda n, w: with_gradient(fib, n, w))(n, w):
        assert np.isnan(found)
    count = kerasrec.recursive(max_xla_calls=3)(
        lambda n: kerasrec.cond(n < 1, lambda: 0, lambda: count(n - 1) + 1)
    )
    np.testing.assert_array_equal(by_xla(count)([2]), [2])
    np.testing.assert_array_equal(by_xla(count)([3]), [np.iinfo(np.int32).max])


@pytest.mark.slow
def test_what_raises_an_error_elsewhere_is_not_a_number():
    table = tf.constant([1.0, 2.0, 3.0])

    @kerasrec.recursive(max_xla_calls=9)
    def last(n):
        return kerasrec.cond(n < 1, lambda: tf.gather(table, n + 3), lambda: last(n - 1))

    assert np.isnan(by_xla(last)([2])).all()

    @kerasrec.recursive(max_xla_calls=9, max_depth=4)
    def down(n):
        return kerasrec.cond(n < 1, lambda: 1.0, lambda: down(n - 1))

    np.testing.assert_array_equal(by_xla(down)([3]), [1.0])
    assert np.isnan(by_xla(down)([4])).all()


@pytest.mark.slow
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
        (
            {},
            lambda n: n,
            r"needs to know how many calls .* @kerasrec.recursive\(max_xla_calls=...\)",
        ),
        ({"max_xla_calls": 5}, lambda n: n > 0, "it returns a truth value"),
        (
            {"max_xla_calls": 5, "parallel_tokens": 2},
            lambda n: n,
            "parallel_tokens is a bound on waves",
        ),
    ],
)
def test_what_cannot_be_compiled_says_so(options, result, sentence):
    @kerasrec.recursive(**options)
    def down(n):
        return kerasrec.cond(n < 1, lambda: result(n), lambda: down(n - 1))

    with pytest.raises(kerasrec.TraceError, match=f"down is called inside .*{sentence}"):
        by_xla(down)([3])
    down([3])


def test_values_without_an_index_cannot_be_compiled():
    @kerasrec.recursive(max_xla_calls=5)
    def down(n):
        kerasrec.collect("seen", n)
        return kerasrec.cond(n < 1, lambda: n, lambda: down(n - 1))

    with pytest.raises(kerasrec.TraceError, match="values without an index"):
        by_xla(down)([3])


def test_a_table_of_truth_values_cannot_be_compiled():
    @kerasrec.recursive(max_xla_calls=5)
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


@pytest.mark.parametrize("tokens", few_of([1, 2, 17]))
def test_a_gradient_without_calls(tokens):
    """XLA knows the number of turns here; it drops loops from 0 to 1 by steps of 16."""
    weight = tf.Variable(3.0)
    square = kerasrec.recursive(lambda n: weight * weight)

    def gradient(n):
        with tf.GradientTape() as tape:
            y = square(n)
        return tape.gradient(y, weight)

    np.testing.assert_allclose(by_xla(gradient)(tf.range(tokens)), 6.0 * tokens)


@pytest.mark.slow
def test_a_gradient_in_a_function_that_calls_another():
    weight = tf.Variable(3.0)

    @kerasrec.recursive
    def power(n):
        return kerasrec.cond(n < 1, lambda: 1.0, lambda: weight * power(n - 1))

    @kerasrec.recursive(max_xla_calls=5)
    def scaled(n):
        return weight * weight * power(n)

    def gradient(n):
        with tf.GradientTape() as tape:
            y = scaled(n)
        return tape.gradient(y, weight)

    np.testing.assert_allclose(by_xla(gradient)(tf.constant([3])), 5 * 3.0**4)


def test_room_for_no_calls_or_entries_is_refused():
    with pytest.raises(kerasrec.TraceError, match="max_xla_calls is 0"):
        kerasrec.recursive(max_xla_calls=0)(lambda n: n)
    with pytest.raises(kerasrec.TraceError, match="max_xla_row_length is 0"):
        kerasrec.recursive(max_xla_row_length=0)(lambda n: n)


ROWS = [[1, 2, 3], [], [4] * 40]


def row_sums(**options):
    """A function that reads a row of numbers in each call, the same ones again and again."""
    rows = tf.ragged.constant(ROWS)

    @kerasrec.recursive(**options)
    def total(n, row):
        squares = kerasrec.map_fn(lambda number: number * number, tf.gather(rows, row))
        own = tf.reduce_sum(squares, axis=1)
        return own + kerasrec.cond(n < 1, lambda: 0, lambda: total(n - 1, row))

    return total


@pytest.mark.slow
@pytest.mark.parametrize("options", few_of([{}, {"max_xla_row_length": 40}]))
def test_there_may_be_more_entries_than_calls(options):
    total = row_sums(max_xla_calls=10, **options)
    found = by_xla(total)(tf.constant([9, 3, 9]), tf.constant([0, 1, 2]))
    np.testing.assert_array_equal(found, [10 * 14, 0, 10 * 40 * 16])


@pytest.mark.slow
@pytest.mark.parametrize("options", few_of([{}, {"max_xla_row_length": 3, "max_xla_entries": 39}]))
def test_calls_of_another_branch_may_have_rows_too(options):
    rows = tf.ragged.constant([[3 * n + 1, 3 * n + 2, 3 * n + 3] for n in range(4)] + [[1] * 3] * 9)

    @kerasrec.recursive(max_xla_calls=13, **options)
    def count(node, depth):
        def below():
            return tf.reduce_sum(count(tf.gather(rows, node), depth - 1), axis=1)

        return 1 + kerasrec.cond(depth < 1, lambda: 0, below)

    np.testing.assert_array_equal(by_xla(count)(tf.constant([0]), tf.constant([2])), [13])


@pytest.mark.slow
def test_a_table_of_rows_says_how_many_calls_there_may_be():
    def run(given):
        @kerasrec.recursive
        def size(node):
            return 1 + tf.reduce_sum(size(tf.gather(given, node)), axis=1)

        return size(tf.constant([0]))

    children = tf.ragged.constant([[1, 2], [3], [], []], dtype=tf.int32)
    np.testing.assert_array_equal(by_xla(run)(children), [4])


@pytest.mark.slow
@pytest.mark.parametrize("options", few_of([{}, {"max_xla_entries": 90}]))
def test_there_may_be_more_entries_than_rows_of_a_table_of_integers(options):
    numbers, following = tf.constant([0.5] * 30 + [1.0] * 60), tf.Variable([1, -1])

    @kerasrec.recursive(**options)
    def total(node):
        fixed = tf.stop_gradient(numbers)
        rows = tf.RaggedTensor.from_row_splits(fixed, [0, 30, 90], validate=False)
        own = kerasrec.map_fn(lambda x: x + 1.0, tf.gather(rows, node))
        after = tf.gather(following, node)
        return tf.reduce_sum(own, 1) + kerasrec.cond(after < 0, lambda: 0.0, lambda: total(after))

    np.testing.assert_array_equal(by_xla(total)(tf.constant([0])), [30 * 1.5 + 60 * 2.0])


@pytest.mark.slow
def test_a_row_that_is_longer_than_was_said_gives_the_largest_integer():
    total = row_sums(max_xla_calls=10, max_xla_row_length=20)
    found = by_xla(total)(tf.constant([9]), tf.constant([0]))
    np.testing.assert_array_equal(found, [np.iinfo(np.int32).max])


@pytest.mark.slow
def test_a_table_may_have_no_entries():
    rows = tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), [0, 0])

    @kerasrec.recursive(max_xla_calls=1)
    def size(node):
        return 1 + tf.reduce_sum(size(tf.gather(rows, node)), axis=1)

    np.testing.assert_array_equal(by_xla(size)(tf.constant([1, 0, 1])), [1, 1, 1])


def differentiated_twice(function, n, w):
    with tf.GradientTape() as tape:
        tape.watch(w)
        _, gradient = with_gradient(function, n, w)
        gradient = tf.convert_to_tensor(gradient)
    return tf.convert_to_tensor(tape.gradient(gradient, w))


@pytest.mark.slow
def test_higher_derivatives_and_forward_mode():
    @kerasrec.recursive(max_xla_calls=4)
    def power(n, w):
        return kerasrec.cond(n < 1, lambda: tf.ones_like(w), lambda: w * power(n - 1, w))

    def three_times(n, w):
        _, third = with_gradient(functools.partial(differentiated_twice, power), n, w)
        return third

    def forward(n, w):
        with tf.autodiff.ForwardAccumulator(w, tf.ones_like(w)) as accumulator:
            y = power(n, w)
        return accumulator.jvp(y)

    n, w = tf.constant([3, 2]), tf.constant([2.0, -3.0])
    np.testing.assert_allclose(by_xla(three_times)(n, w), [6.0, 0.0])
    np.testing.assert_allclose(by_xla(forward)(n, w), [12.0, -6.0])


@pytest.mark.slow
def test_a_penalty_on_the_gradient_of_a_loss():
    """The cotangent of a result depends on the result itself."""
    weight, left = tf.Variable([[0.3, 0.2], [-0.4, 0.5]]), tf.Variable([1, -1, -1])
    x = tf.constant([[0.5, -0.3], [0.7, 0.2], [-0.1, 0.4]])

    @kerasrec.recursive(max_xla_calls=3)
    def state(node):
        at_leaf = tf.tanh(tf.gather(table, node) @ weight)
        below = tf.gather(left, node)
        return kerasrec.cond(
            below < 0, lambda: at_leaf, lambda: tf.tanh(state(below) @ weight * state(below + 1))
        )

    def plain(node):
        (node,) = node
        if left[node] < 0:
            return tf.tanh(table[node][tf.newaxis] @ weight)
        one, two = plain([left[node]]), plain([left[node] + 1])
        return tf.tanh(one @ weight * two)

    def penalty_of(function, given):
        nonlocal table
        table = given
        with tf.GradientTape() as outer:
            outer.watch(table)
            with tf.GradientTape() as inner:
                inner.watch(table)
                loss = tf.reduce_sum(function([0]) ** 2)
            penalty = tf.reduce_sum(tf.convert_to_tensor(inner.gradient(loss, table)) ** 2)
        found = outer.gradient(penalty, [weight, table])
        return [penalty, *map(tf.convert_to_tensor, found)]

    table = None
    inside = by_xla(lambda given: penalty_of(state, given))(x)
    for mine, theirs in zip(inside, penalty_of(plain, x), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-9)


@pytest.mark.slow
def test_a_second_derivative_of_a_result_and_a_table():
    """A tf.function makes their cotangents; tf.gradients did not stop there."""

    @kerasrec.recursive(max_xla_calls=4)
    def noted(n, x):
        kerasrec.collect("x", x, n, 3)
        return kerasrec.cond(n < 1, lambda: tf.sin(x), lambda: noted(n - 1, tf.tanh(x)))

    def by_hand(n, x):
        rows = [x]
        for _ in range(n):
            rows.append(tf.tanh(rows[-1]))
        return tf.sin(rows[-1]), tf.concat(rows, 0)

    def slope_of_slope(results):
        x = tf.constant([[0.5, -0.7]], tf.float64)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.add_n([tf.reduce_sum(tf.sin(result)) for result in results(x)])
            penalty = tf.reduce_sum(inner.gradient(loss, x) ** 2)
        return outer.gradient(penalty, x)

    def recursively(x):
        y, collected = noted.with_collected(tf.constant([2]), x)
        return y, collected["x"]

    found = tf.function(slope_of_slope, jit_compile=True)(recursively)
    np.testing.assert_allclose(found, slope_of_slope(lambda x: by_hand(2, x)), rtol=1e-12)


@pytest.mark.slow
def test_a_second_derivative_of_too_many_calls_is_not_a_number():
    fib, n, w = scaled_fib(max_xla_calls=14), tf.constant([5]), tf.constant([1.0])

    def square(n, w):
        return fib(n, w) ** 2

    assert np.isnan(by_xla(lambda n, w: differentiated_twice(square, n, w))(n, w))


@pytest.mark.many
def test_a_second_derivative_that_cannot_be_compiled_says_so():
    @kerasrec.recursive(max_xla_calls=4)
    def down(n, x):
        largest = tf.reduce_max(x * x, 1)
        return kerasrec.cond(n < 1, lambda: largest, lambda: down(n - 1, 2 * x))

    n, x = tf.constant([2]), tf.constant([[1.5, 0.5]])
    with_gradient(down, n, x)
    with pytest.raises(kerasrec.TraceError, match="down is differentiated 2 times inside"):
        by_xla(lambda n, x: differentiated_twice(down, n, x))(n, x)


@pytest.mark.many
def test_a_third_derivative_that_adds_to_rows_of_a_table_says_so():
    @kerasrec.recursive(max_xla_calls=4)
    def down(n):
        row = tf.gather(table, n)
        return kerasrec.cond(n < 1, lambda: row, lambda: tf.sin(row) * down(n - 1))

    def of_table(n, given):
        nonlocal table
        table = given
        return down(n)

    def third(n, given):
        return with_gradient(functools.partial(differentiated_twice, of_table), n, given)

    table = None
    with pytest.raises(kerasrec.TraceError, match=r"3 times .* adds to rows of a table"):
        by_xla(third)(tf.constant([2]), tf.constant([1.5, 0.5, 2.0]))


@pytest.mark.many
def test_a_second_derivative_that_there_is_not_is_an_error():
    @kerasrec.recursive(max_xla_calls=4)
    def down(n, x):
        return kerasrec.cond(n < 1, lambda: tf.nn.softsign(x), lambda: down(n - 1, 2 * x))

    n, x = tf.constant([2]), tf.constant([1.5])
    with pytest.raises(kerasrec.TraceError, match="no second derivative through SoftsignGrad"):
        by_xla(lambda n, x: differentiated_twice(down, n, x))(n, x)
