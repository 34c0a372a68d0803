"""Programs in which equal calls are one call, compiled by XLA, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.frames.helpers import never_by_waves
from tests.memo.cases import CASES, TRANSITIONS, at, fib
from tests.memo.helpers import differences, gradients, with_options
from tests.parameters import few_of

_MARKS = {"fib": (), "hidden Markov": pytest.mark.many}
_WITHOUT_GRADIENT, _WITH_GRADIENT = (
    [
        pytest.param(case, id=case.name, marks=_MARKS.get(case.name, pytest.mark.slow))
        for case in CASES
        if any(array.dtype == np.float64 for array in case.arguments) == has_gradient
        and case.name not in ("catalan", "matrix chain", "inside")  # Of ragged rows.
    ]
    for has_gradient in (False, True)
)


def compiled(function, **options):
    """The same recursive function by XLA."""
    return with_options(function, engine="compiled", **options)


@pytest.mark.many
@pytest.mark.parametrize("case", _WITHOUT_GRADIENT)
def test_values(case):
    expected, _ = case.expected(case.arguments)
    with never_by_waves():
        found = compiled(case.function)(*case.arguments)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", _WITH_GRADIENT)
def test_values_and_gradients(case):
    values = case.expected(case.arguments)[0]
    weights = np.random.default_rng(1).normal(size=values.shape)
    places = [place for place, array in enumerate(case.arguments) if array.dtype == np.float64]
    tensors = [tf.constant(array) for array in case.arguments]
    sources = [tensors[place] for place in places]
    with never_by_waves(), tf.GradientTape() as tape:
        tape.watch(sources)
        found = compiled(case.function, recompute=case.name == "knapsack")(*tensors)
        loss = tf.reduce_sum(found * weights)
    np.testing.assert_allclose(found, values, rtol=1e-9)
    for place, gradient in zip(places, tape.gradient(loss, sources), strict=True):
        gradient = tf.convert_to_tensor(gradient)
        np.testing.assert_allclose(gradient, differences(case, weights, place), atol=1e-5)


@pytest.mark.slow
def test_gradients_of_root_tokens_that_start_alike():
    """The calls of one stand for those of others, each with its own floats."""
    (case,) = [case for case in CASES if case.name == "grid paths"]
    costs = np.random.default_rng(2).uniform(size=[5, 4, 4])
    corner = np.full([5], 3, np.int32)
    with never_by_waves():
        (found,) = gradients(compiled(case.function), (costs, corner, corner), np.ones(5))
    (expected,) = gradients(case.function, (costs, corner, corner), np.ones(5))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.all(found.sum(axis=(1, 2)) == 7)  # Each path has seven cells.


@pytest.mark.slow
def test_gradient_of_what_a_function_closes_over():
    (case,) = [case for case in CASES if case.name == "hidden Markov"]
    weights = np.random.default_rng(3).normal(size=[2, 3])
    with never_by_waves():
        *_, found = gradients(compiled(case.function), case.arguments, weights, [TRANSITIONS])
    *_, expected = gradients(case.function, case.arguments, weights, [TRANSITIONS])
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.slow
def test_products_in_branches_that_return():
    kernel = tf.Variable(np.random.default_rng(7).normal(size=[3, 3]))

    @kerasrec.recursive(memo=True, engine="compiled")
    def f(x, n):
        def product(k):
            return lambda: f(x, n - k) @ kernel + at(x, n)

        kind = tf.where(n < 1, 0, 1 + n % 2)
        return kerasrec.switch(kind, [lambda: at(x, 0 * n) @ kernel, product(1), product(2)])

    def plain(x, n):
        if n < 1:
            return x[0] @ kernel.numpy()
        return plain(x, n - 1 - n % 2) @ kernel.numpy() + x[n]

    x = np.random.default_rng(8).normal(size=[2, 6, 3])
    with never_by_waves():
        found = f(x, [4, 5])
    np.testing.assert_allclose(found, [plain(x[0], 4), plain(x[1], 5)], rtol=1e-9)


@pytest.mark.slow
def test_how_many_rows_a_table_has():
    """Tables padded for XLA have as many rows as before, for those who ask."""

    @kerasrec.recursive(memo=True, engine="compiled")
    def f(x, n):
        rows = tf.cast(tf.shape(x)[1], tf.float64)
        return kerasrec.cond(n < 1, lambda: at(x, n) * rows, lambda: f(x, n - 1) + at(x, n))

    x = tf.constant(np.random.default_rng(6).uniform(size=[3, 5]))
    with never_by_waves(), tf.GradientTape() as tape:
        tape.watch(x)
        found = f(x, [2, 0, 4])
    np.testing.assert_allclose(
        found, [sum(x[row, 1 : n + 1]) + 5 * x[row, 0] for row, n in enumerate([2, 0, 4])]
    )
    expected = [[5, 1, 1, 0, 0], [5, 0, 0, 0, 0], [5, 1, 1, 1, 1]]
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(found, x)), expected)


@pytest.mark.slow
def test_equal_calls_of_all_roots():
    function = compiled(fib, memo="batch")
    with never_by_waves():
        assert function([10, 1, 10, 15]).numpy().tolist() == [55, 1, 55, 610]


@pytest.mark.slow
def test_gradient_where_root_tokens_are_one_call():
    table = tf.Variable([1.5, 2.0], dtype=tf.float64)

    @kerasrec.recursive(memo="batch", engine="compiled")
    def power(n):
        return kerasrec.cond(n == 0, lambda: tf.gather(table, n), lambda: table[1] * power(n - 1))

    with never_by_waves(), tf.GradientTape() as tape:
        found = tf.reduce_sum(power([3, 3, 1]) * tf.constant([1.0, 10.0, 100.0], tf.float64))
    gradient = tf.convert_to_tensor(tape.gradient(found, table))
    np.testing.assert_allclose(found, 11 * 1.5 * 8 + 100 * 1.5 * 2)
    np.testing.assert_allclose(gradient, [11 * 8 + 100 * 2, 11 * 1.5 * 12 + 100 * 1.5])


@pytest.mark.slow
def test_functions_that_call_each_other():
    @kerasrec.recursive(memo=True, engine="compiled")
    def upper(x, n):
        return kerasrec.cond(n < 1, lambda: at(x, 0 * n), lambda: lower(x, n - 1) + at(x, n))

    @kerasrec.recursive(memo=True, engine="compiled")
    def lower(x, n):
        def further():
            return upper(x, n - 1) * kerasrec.cond(
                n < 2, lambda: at(x, n), lambda: lower(x, n - 2) + upper(x, n - 2)
            )

        return kerasrec.cond(n < 1, lambda: 2 * at(x, 0 * n), further)

    def plain_upper(x, n):
        return x[0] if n < 1 else plain_lower(x, n - 1) + x[n]

    def plain_lower(x, n):
        if n < 1:
            return 2 * x[0]
        return plain_upper(x, n - 1) * (
            x[n] if n < 2 else plain_lower(x, n - 2) + plain_upper(x, n - 2)
        )

    x = tf.constant(np.random.default_rng(4).uniform(size=[3, 9]))
    starts = [8, 5, 0]
    with never_by_waves(), tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found = upper(x, starts)
        expected = tf.stack([plain_upper(x[row], n) for row, n in enumerate(starts)])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(
        tf.convert_to_tensor(tape.gradient(found, x)), tape.gradient(expected, x), rtol=1e-12
    )


@pytest.mark.slow
def test_functions_that_call_nobody():
    """They are of no level but the lowest, whichever stands first."""

    @kerasrec.recursive(memo=True, engine="compiled")
    def first(x, n):
        return 3.0 * at(x, n)

    @kerasrec.recursive(memo=True, engine="compiled")
    def f(x, n):
        value, other = first(x, n), second(x, n)
        return kerasrec.cond(n < 1, lambda: value, lambda: f(x, n - 1) * value + other)

    @kerasrec.recursive(memo=True, engine="compiled")
    def second(x, n):
        return at(x, n) ** 2

    def plain(x, n):
        return 3 * x[n] if n < 1 else plain(x, n - 1) * 3 * x[n] + x[n] ** 2

    x = tf.constant(np.random.default_rng(9).uniform(size=[2, 5]))
    with never_by_waves(), tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found, expected = f(x, [4, 2]), tf.stack([plain(x[0], 4), plain(x[1], 2)])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    gradients_found = (tf.convert_to_tensor(tape.gradient(item, x)) for item in (found, expected))
    np.testing.assert_allclose(*gradients_found, rtol=1e-12)


@pytest.mark.many
def test_a_function_that_makes_no_calls_at_all():
    @kerasrec.recursive(memo=True, engine="compiled")
    def square(x, n):
        return at(x, n) ** 2

    x = tf.constant(np.random.default_rng(10).uniform(size=[3, 9]))
    starts = [8, 5, 5]
    with never_by_waves(), tf.GradientTape() as tape:
        tape.watch(x)
        found = square(x, starts)
    mask = tf.one_hot(starts, 9, dtype=tf.float64)
    np.testing.assert_allclose(found, tf.reduce_sum(mask * x**2, axis=1))
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(found, x)), 2 * mask * x)


@pytest.mark.slow
@pytest.mark.parametrize(
    "starts", few_of([[6, 6], [6, 4]], [6, 6], many=[]), ids=["alike", "different"]
)
def test_collected_tables(starts):
    @kerasrec.recursive(memo=True, engine="compiled")
    def f(x, n):
        below = kerasrec.cond(n < 1, lambda: at(x, n), lambda: f(x, n - 1) + at(x, n))
        kerasrec.collect("sums", below, index=n, size=8)
        return below

    x = np.random.default_rng(5).uniform(size=[2, 8])
    with never_by_waves():
        values, collected = f.with_collected(x, starts)
    sums = np.cumsum(x, axis=1) * (np.arange(8) <= np.array(starts)[:, np.newaxis])
    np.testing.assert_allclose(values, [sums[row, n] for row, n in enumerate(starts)])
    np.testing.assert_allclose(collected["sums"], sums.sum(0))


@pytest.mark.slow
def test_second_derivative_by_waves():
    (case,) = [case for case in CASES if case.name == "edit distance"]
    first, second, costs, *ends = (tf.constant(array[:1]) for array in case.arguments)
    found = []
    for function in (compiled(case.function), case.function):
        with tf.GradientTape() as outer, tf.GradientTape() as inner:
            inner.watch(costs), outer.watch(costs)
            value = function(first, second, costs, *ends)
            (outer_gradient,) = [inner.gradient(value, costs)]
            total = tf.reduce_sum(tf.convert_to_tensor(outer_gradient) ** 2)
        found.append(tf.convert_to_tensor(outer.gradient(total, costs)))
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.slow
def test_few_sizes():
    function = compiled(fib)
    numbers = [0, 1]
    for n in range(2, 30):
        numbers.append(sum(numbers[-2:]))
        assert function([n]).numpy()[0] == numbers[n]
    assert function.num_xla_sizes == 4  # Up to 4, 8, 16 and 32 calls.


@pytest.mark.slow
def test_an_index_outside_a_table():
    @kerasrec.recursive(memo=True, engine="compiled")
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: at(x, n - 1), lambda: f(x, n - 1))

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = \[0, -1\]"):
        f(np.ones([1, 3]), [2])


@pytest.mark.slow
def test_a_call_that_needs_itself():
    @kerasrec.recursive(memo=True, engine="compiled")
    def cycle(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: cycle((n + 1) % 3))

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cycle\(n=\d\) needs cycle"):
        cycle([1, 2])


def test_rows_are_refused():
    (case,) = [case for case in CASES if case.name == "catalan"]
    with pytest.raises(kerasrec.TraceError, match="computes on the entries of rows"):
        compiled(case.function)(*case.arguments)


@pytest.mark.many
def test_the_plan():
    text = str(compiled(fib).execution_plan(3))
    assert "level by level, in blocks, compiled by XLA" in text
    assert "place 0 in any order, then place 1 from calls that call nobody up" in text
