"""Values of every dtype as arguments and returns, in both engines and the interpreter."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec import cond, recursive, switch
from kerasrec._src.graph.interpreter import interpret
from tests.parameters import few_of

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def check(function, expected, *inputs):
    """The engine that the program needs, and the interpreter."""
    arrays = [np.array(item) for item in inputs]
    np.testing.assert_array_equal(function(*arrays), expected)
    tensors = [tf.constant(item).numpy() for item in arrays]
    (found,) = interpret(function.tagged_graph(*arrays), tensors).outputs
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", few_of(INTEGERS, many=["int64", "uint64"]))
def test_integers(dtype):
    @recursive
    def triangle(n):
        return cond(n < 1, lambda: n, lambda: n + triangle(n - 1))

    @recursive
    def hofstadter(n):
        return cond(n < 1, lambda: n, lambda: n - hofstadter(hofstadter(n - 1)))

    numbers = np.array([0, 3, 6], dtype)
    check(triangle, np.array([0, 6, 21], dtype), numbers)
    check(hofstadter, np.array([0, 2, 4], dtype), numbers)


@pytest.mark.many
@pytest.mark.parametrize("dtype", few_of(INTEGERS, "int64", many=["uint8"]))
def test_index_of_switch(dtype):
    @recursive
    def f(index, x):
        return switch(index, [lambda: x, lambda: -x, lambda: 2 * x])

    check(f, [5, -6, 14, 16], np.array([0, 1, 2, 100], dtype), np.int32([5, 6, 7, 8]))


@pytest.mark.slow
def test_an_index_that_int32_cannot_hold():
    @recursive
    def f(index, x):
        return switch(index, [lambda: x, lambda: -x])

    check(f, [-5, -6, 7], np.int64([1 << 32, -(1 << 40), 0]), np.int32([5, 6, 7]))


@pytest.mark.slow
def test_bools():
    @recursive
    def either(p, n):
        return cond(n < 1, lambda: p, lambda: ~either(p, n - 1))

    @recursive
    def twice(p, n):
        return cond(n < 1, lambda: p, lambda: ~twice(twice(p, n - 1), n - 1))

    check(either, [False, False], [True, False], np.int32([1, 2]))
    check(twice, [False, True], [True, False], np.int32([1, 2]))


@pytest.mark.slow
def test_complex_numbers():
    @recursive
    def power(x, n):
        return cond(n < 1, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

    check(power, [-1.0, 2.0 + 11.0j], [1.0j, 2.0 + 1.0j], np.int32([2, 3]))
    assert power([1.0j, 2.0], 2).dtype == tf.complex128


@pytest.mark.slow
def test_strings():
    @recursive
    def in_base(n, base):
        return cond(
            n < base,
            lambda: tf.strings.as_string(n),
            lambda: tf.strings.join([in_base(n // base, base), tf.strings.as_string(n % base)]),
        )

    @recursive
    def longer(text, n):
        return cond(
            n < 1,
            lambda: text,
            lambda: longer(longer(tf.strings.join([text, "x"]), n - 1), n - 1),
        )

    check(in_base, [b"1010", b"21", b"7"], np.int32([10, 7, 7]), np.int32([2, 3, 8]))
    check(longer, [b"axxx", b"b"], ["a", "b"], np.int32([2, 0]))
    np.testing.assert_array_equal(longer(["a", "b"], 1), [b"ax", b"bx"])
    assert longer("a", 1) == b"ax"
