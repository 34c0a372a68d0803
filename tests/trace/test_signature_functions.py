"""Functions as arguments of recursive functions: each is traced for itself.

Values and gradients by all engines: `passes_functions` of `tests/programs.py`.
"""

# ruff: noqa: B023 (functions that do not bind a loop's variable are what is tested)

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.programs import fib

CHILDREN = tf.ragged.constant([[1, 2, 3], [4], [], [], []], dtype=tf.int32)
VALUES = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0])


@kerasrec.recursive
def twice(function, x):
    return function(function(x))


@kerasrec.recursive
def fold(function, node):
    return function(tf.gather(VALUES, node), fold(function, tf.gather(CHILDREN, node)))


def square(x):
    return x * x


@pytest.mark.slow
def test_from_outside():
    assert twice(square, 3) == 81
    np.testing.assert_array_equal(twice(fib, [6, 7]), [21, 233])
    assert twice(function=lambda x: x + 0.5, x=1.0) == 2.0


@pytest.mark.many
def test_each_function_has_its_name_in_the_graphs():
    assert list(twice.function_graphs(square, 3).functions) == ["twice_of_square"]

    @kerasrec.recursive
    def f(node):
        return fold(lambda v, below: v + tf.reduce_sum(below, axis=1), node)

    assert list(f.function_graphs(0).functions) == ["f", "fold_of_lambda"]


@pytest.mark.slow
def test_the_same_function_is_traced_once():
    count = 0

    def counted(x):
        nonlocal count
        count += 1
        return x + 1

    for x in (1, 2, [3, 4]):
        twice(counted, x)
    traces, count = count, 0
    assert traces
    twice(counted, 5)
    assert not count


@pytest.mark.slow
def test_a_fold_over_rows_closes_over_a_token():
    @kerasrec.recursive
    def scaled(node, scale):
        return fold(lambda v, below: scale * v + tf.reduce_sum(below, axis=1), node)

    np.testing.assert_allclose(scaled([0, 1], [2.0, 3.0]), [30.0, 21.0])


@pytest.mark.slow
def test_a_nested_function_that_rows_without_entries_end():
    """The function around it is traced again once it is known what the inner one returns."""

    @kerasrec.recursive
    def both(node, scale):
        @kerasrec.recursive
        def total(node):
            below = total(tf.gather(CHILDREN, node))
            return scale * tf.gather(VALUES, node) + tf.reduce_sum(below, axis=1)

        @kerasrec.recursive
        def count(node):
            return 1 + tf.reduce_sum(count(tf.gather(CHILDREN, node)), axis=1)

        return total(node), count(node)

    total, count = both([0, 1], [2.0, 3.0])
    np.testing.assert_allclose(total, [30.0, 21.0])
    np.testing.assert_array_equal(count, [5, 2])


@pytest.mark.slow
def test_a_function_is_handed_on_and_swapped():
    @kerasrec.recursive
    def alternating(n, one, other, x):
        return kerasrec.cond(n < 1, lambda: x, lambda: one(alternating(n - 1, other, one, x)))

    def plain(n, one, other, x):
        return x if n < 1 else one(plain(n - 1, other, one, x))

    functions = (lambda x: 2 * x, lambda x: x + 1)
    found = alternating([0, 1, 4], *functions, [1, 1, 1])
    np.testing.assert_array_equal(found, [plain(n, *functions, 1) for n in (0, 1, 4)])


@pytest.mark.slow
def test_a_list_of_functions():
    @kerasrec.recursive
    def chosen(functions, which, x):
        branches = [lambda function=function: function(x) for function in functions]
        return kerasrec.switch(which, branches)

    np.testing.assert_array_equal(chosen([square, fib], [0, 1, 1], [7, 7, 8]), [49, 13, 21])


@pytest.mark.slow
def test_functions_alone_make_one_token():
    @kerasrec.recursive
    def added(*functions):
        return sum(function() for function in functions)

    @kerasrec.recursive
    def inside(n):
        return added(lambda: n, lambda: fib(n))

    assert added(lambda: 3, lambda: fib(6)) == 11
    np.testing.assert_array_equal(inside([6, 7]), [14, 20])


@pytest.mark.many
def test_the_gradient_of_what_a_function_closes_over():
    weight = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = twice(lambda x: weight * x, [1.0, 2.0])
    np.testing.assert_allclose(tape.gradient(y, weight), 18.0)


@pytest.mark.many
def test_a_new_function_for_each_call_of_itself_is_an_error():
    @kerasrec.recursive
    def grows(n, function):
        return kerasrec.cond(n < 1, function, lambda: grows(n - 1, lambda: function() + 1))

    with pytest.raises(kerasrec.TraceError, match="grows was passed another function in each"):
        grows(3, lambda: 1)


@pytest.mark.slow
def test_functions_that_end_may_be_passed_inside_of_each_other():
    @kerasrec.recursive
    def after(function, x):
        return 1 + function(x)

    def deep(depth, called):
        return (lambda x: x + 1) if depth == 0 else lambda x: called(deep(depth - 1, called), x)

    @kerasrec.recursive
    def f(n):
        return deep(20, after)(n), deep(4, twice)(n)

    assert f(1) == (22, 17)


@kerasrec.recursive
def applied(function, x):
    return kerasrec.cond(x < 0, lambda: x, lambda: function(x))


@pytest.mark.slow
def test_functions_of_the_same_code_are_told_apart():
    """Also where the function around them is traced again: not all of them are met each time."""

    def adds(number):
        return lambda x: x + number

    one, hundred = adds(1), adds(100)

    @kerasrec.recursive
    def with_thousand(n):
        return applied(hundred, n) + 1000

    @kerasrec.recursive
    def f(n):
        def again():
            return f(n - 1) + applied(one, n)

        return kerasrec.cond(n > 2, again, lambda: applied(hundred, n) + with_thousand(n))

    assert f(4) == (102 + 1102) + 4 + 5


@pytest.mark.slow
@pytest.mark.parametrize("way", ["loop", "lambda", "nested"])
def test_variables_of_python_are_as_at_the_call(way):
    """Closure variables are read when a function is called, not after the function around it."""

    @kerasrec.recursive
    def f(n):
        def some():
            total = n * 0
            for factor in (1, 10, 100):
                below = {
                    "loop": lambda: kerasrec.while_loop(
                        lambda i, _: i < 1,
                        lambda i, total: (i + 1, total + f(n - 1) * factor),
                        (0, n * 0),
                    )[1],
                    "lambda": lambda: applied(lambda x: f(x - 1) * factor, n),
                    "nested": lambda: kerasrec.recursive(lambda x: f(x - 1) * factor)(n),
                }
                total += below[way]()
            return total

        return kerasrec.cond(n < 1, lambda: n + 1, some)

    assert f(2) == 111 * 111


@pytest.mark.slow
def test_a_variable_of_a_passed_function_may_stand_for_another_tensor_later():
    @kerasrec.recursive
    def f(n):
        tensor = n

        def added(x):
            return x + tensor

        first = applied(added, n)
        tensor = 10 * n
        return first + applied(added, n)

    assert f(2) == (2 + 2) + (2 + 20)


@pytest.mark.slow
def test_a_new_function_that_does_the_same_ends_a_recursion():
    """The one that a call of itself is passed closes over nothing of that call."""

    @kerasrec.recursive
    def f(n, function):
        factor = 3

        def times(x):
            return x * factor

        return kerasrec.cond(
            n < 1, lambda: function(n + 1) * 10, lambda: function(n) + f(n - 1, times)
        )

    assert f(3, lambda x: x) == 3 + 3 * 2 + 3 * 1 + 3 * 1 * 10


@pytest.mark.slow
def test_constants_of_python_in_a_passed_function():
    """The same function twice, between which a number that it reads has changed."""

    @kerasrec.recursive
    def f(n):
        total, factors = n * 0, [5]
        for factor in (1, 10):
            total += applied(lambda x: x * factor * factors[0], n)
            factors[0] = 7
        return total

    assert f(2) == 2 * 1 * 5 + 2 * 10 * 7


@pytest.mark.many
def test_a_function_that_has_escaped_is_an_error():
    @kerasrec.recursive
    def f(n):
        escaped = []

        def body(i):
            escaped.append(lambda x: x * i)
            return i + 1

        return kerasrec.while_loop(lambda i: i < n, body, 0) + applied(escaped[-1], n)

    with pytest.raises(kerasrec.TraceError, match=r"closes over 'i', .* function has returned"):
        f(3)


@pytest.mark.many
def test_any_callable():
    @dataclasses.dataclass
    class Adds:
        number: int

        def __call__(self, x):
            return x + self.number

        def method(self, x):
            return 2 * x + self.number

    one, two = Adds(1), Adds(2)
    assert applied(one, 5) == 6
    assert applied(functools.partial(tf.add, 7), 5) == 12
    assert applied(abs, 5) == 5

    @kerasrec.recursive
    def methods(n):
        return applied(one.method, n) + applied(two.method, n) + applied(one.method, n)

    assert methods(10) == 64
    dense = keras.layers.Dense(2)
    x = tf.ones([3, 2])
    found = kerasrec.recursive(lambda layer, x: layer(x))(dense, x)
    np.testing.assert_allclose(found, dense(x))


@pytest.mark.slow
def test_another_nest_of_arguments_is_an_error():
    @kerasrec.recursive
    def f(pair, n):
        a, b = (pair["a"], pair["b"]) if isinstance(pair, dict) else pair
        return kerasrec.cond(n < 1, lambda: 10 * a + b, lambda: f((b, a), n - 1))

    assert f((1, 2), 1) == 21
    assert f({"a": 1, "b": 2}, 1) == 21


@pytest.mark.slow
def test_many_loops_in_a_function_that_is_traced_again():
    @kerasrec.recursive
    def f(n):
        ends = [kerasrec.while_loop(lambda i: i < most, lambda i: i + 1, n) for most in (3, 4, 5)]
        return kerasrec.cond(n < 1, lambda: sum(ends), lambda: f(n - 1))

    assert f(2) == 12
    assert list(f.function_graphs(2).functions) == ["f", "loop", "loop_1", "loop_2"]


def test_a_function_cannot_be_returned():
    @kerasrec.recursive
    def f(x):
        return square

    message = r"it is the function square\. .* a value: kerasrec\.functions\(\[square\]\)\[0\]"
    with pytest.raises(kerasrec.SignatureError, match=message):
        f(1)

    @kerasrec.recursive
    def of_a_branch(x):
        return kerasrec.cond(x < 1, lambda: lambda y: x + y, lambda: lambda y: x * y)

    message = (
        r"true_fn .* function <lambda>\. .* kerasrec\.functions\(\[lambda \.\.\.: \.\.\.\]\)\[0\]"
    )
    with pytest.raises(kerasrec.SignatureError, match=message):
        of_a_branch(1)


@pytest.mark.slow
def test_a_function_is_returned_as_the_error_shows():
    @kerasrec.recursive
    def adding(x):
        return kerasrec.functions([lambda y: x + y])[0]

    np.testing.assert_array_equal(twice(adding([1, 10]), [2, 3]), [4, 23])


@pytest.mark.many
def test_a_class_is_no_function_to_return():
    @kerasrec.recursive
    def f(x):
        return int

    with pytest.raises(kerasrec.SignatureError, match=r"converted to a tensor: <class 'int'>"):
        f(1)


def of_another_function(n):
    y = n

    def inner(x):
        return x * y

    def outer(x):
        return inner(x)

    first = applied(outer, n)
    y = n + 1
    return first + applied(outer, n)


def of_a_new_lambda_each_time(n):
    total = n

    def score(x):
        return x * total

    for _ in range(3):
        total = total + applied(lambda x: score(x), n)
    return total


def of_a_list(n):
    found = [n]

    def last(x):
        return x * found[-1]

    first = applied(last, n)
    found.append(n + 1)
    return first + applied(last, n)


def of_a_lazy_value(n):
    factor, total = 1, n * 0

    def times():
        return n * factor

    for number in (1, 10):
        factor = number
        total += read(kerasrec.lazy(lambda: times()))
    return total


@kerasrec.recursive
def read(value):
    return value()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (of_another_function, 3 * 3 + 3 * 4),
        (of_a_new_lambda_each_time, 192),
        (of_a_list, 3 * 3 + 3 * 4),
        (of_a_lazy_value, 3 + 30),
    ],
)
def test_variables_behind_others_are_as_at_the_call(body, expected):
    assert kerasrec.recursive(body)(3) == expected


@pytest.mark.slow
def test_variables_without_a_value_are_told_apart():
    def made(has_first):
        def f(x):
            try:
                return x * first
            except NameError:
                return x + second

        if has_first:
            first = 5
        else:
            second = 5
        return f

    @kerasrec.recursive
    def f(n):
        return applied(made(True), n) + applied(made(False), n)

    assert f(3) == 3 * 5 + 3 + 5
