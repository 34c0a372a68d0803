"""Errors of `kerasrec.collect`."""

import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from tests.trace.helpers import answer

LINE = r"test_collect\.py:\d+"


def test_index_of_a_table_is_an_int():
    @recursive
    def f(n):
        kerasrec.collect("states", n, tf.cast(n, tf.float32), 3)
        return n

    answer(kerasrec.TraceError, lambda: f(1), "kerasrec.collect", "index", "one int", "f32", LINE)


def test_size_of_a_table_depends_on_no_token():
    @recursive
    def f(n):
        kerasrec.collect("states", n, n, n)
        return n

    answer(kerasrec.SignatureError, lambda: f(1), "kerasrec.collect", "size", LINE)


def test_index_and_size_come_together():
    @recursive
    def f(n):
        kerasrec.collect("states", n, index=n)
        return n

    answer(kerasrec.TraceError, lambda: f(1), "`index` is given without `size`", "both", LINE)


@pytest.mark.many
def test_arguments_that_are_mixed_up():
    def function(*arguments):
        @recursive
        def f(n):
            kerasrec.collect(*(n if item == "n" else item for item in arguments))
            return n

        return f

    answer(kerasrec.TraceError, lambda: function(3, "n")(1), "`name` must be .* it is 3", LINE)
    answer(
        kerasrec.TraceError,
        lambda: function("states", "n", [1, 2], 3)(1),
        "`index` must be one int per token; it has 2 tensors",
    )


def test_one_name_with_an_index_and_without():
    @recursive
    def f(n):
        kerasrec.collect("states", n)
        kerasrec.collect("states", n, n, 3)
        return n

    answer(kerasrec.SignatureError, lambda: f(1), "'states' without an index at", LINE)


def test_one_name_with_two_dtypes():
    @recursive
    def f(n):
        kerasrec.collect("states", n, n, 3)
        kerasrec.collect("states", tf.cast(n, tf.float32), n, 3)
        return n

    answer(kerasrec.SignatureError, lambda: f(1), "states", LINE)


def test_one_name_with_two_sizes():
    @recursive
    def f(n):
        kerasrec.collect("states", n, n, 3)
        kerasrec.collect("states", n, n, 4)
        return n

    answer(tf.errors.InvalidArgumentError, lambda: f(1), "two sizes for 'states'")


def test_gradient_of_what_a_function_without_float_results_collects():
    @recursive
    def count(x, n):
        kerasrec.collect("seen", x, n, 5)
        return cond(n == 0, lambda: 0, lambda: 1 + count(x * 2.0, n - 1))

    def gradient():
        x = tf.constant(1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            collected = count.with_collected(x, 3)[1]
        return tape.gradient(collected["seen"], x)

    answer(kerasrec.TraceError, gradient, "count has no gradient", "Return a float as well")
