"""Errors for arguments that a function does not take."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from tests.trace.helpers import answer

LINE = r"test_signature\.py:\d+"


def test_an_int_passed_for_a_float():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(n, n - 1))

    answer(
        kerasrec.SignatureError,
        lambda: f(3.0, 2),
        "call of f",
        LINE,
        r"f\(x: f32\[\], n: i32\[\]\)",
        r"x is f32\[\], the call passes i32\[\]",
        "tf.cast",
    )


def test_a_shape_that_grows():
    @recursive
    def f(x):
        return cond(x[:, 0] < 1, lambda: x[:, 0], lambda: f(tf.concat([x, x], 1)))

    answer(
        kerasrec.SignatureError,
        lambda: f(np.ones([2, 3], np.float32)),
        LINE,
        r"x is f32\[3\], the call passes f32\[6\]",
        "pad",
    )


def test_too_many_arguments_in_a_call():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: f(n - 1, 2))

    answer(kerasrec.SignatureError, lambda: f(3), "call of f", "too many", LINE)


def test_too_few_arguments_from_outside():
    @recursive
    def f(n, m):
        return n + m

    answer(kerasrec.SignatureError, lambda: f(3), "call of f", "missing .*'m'")


@pytest.mark.many
def test_a_keyword_that_is_no_argument():
    @recursive
    def f(n, m):
        return n + m

    answer(
        kerasrec.SignatureError, lambda: f(3, k=1), r"f\(n, m\) does not fit: it has no arg.* 'k'"
    )
    answer(kerasrec.SignatureError, lambda: f(3, n=1), "multiple values for argument 'n'")


def test_any_keyword():
    @recursive
    def f(n, **others):
        return n + others["m"]

    answer(kerasrec.SignatureError, lambda: f(3, m=2), "f takes any keyword", "given m", "dict")


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (abs, "built-in function abs.* not a Python function"),
        (int, "class 'int'.* not a Python function"),
        (functools.cache(lambda n: n), "Leave out functools.cache: with memo=True"),
        (3, "was given 3, which is not a Python function"),
    ],
    ids=["C", "class", "cache", "number"],
)
def test_what_is_no_python_function(given, part):
    answer(kerasrec.TraceError, lambda: recursive(given), part)


def test_an_argument_that_is_no_tensor():
    @recursive
    def f(n):
        return n

    answer(kerasrec.SignatureError, lambda: f(None), "f was given None for 'n'", "default")
    answer(kerasrec.SignatureError, lambda: f((1, None)), "f was given None for 'n'", "default")


def test_arguments_that_are_left_out_make_another_signature():
    """Each signature may return another structure."""

    @recursive
    def f(x, y=None, *, times=(None, 2.0)):
        more, two = times
        if y is None and more is None:
            return two * x
        return x if y is None else x * y, more

    x, y = tf.Variable([1.5, 2.0]), tf.Variable([3.0, 4.0])
    with tf.GradientTape(persistent=True) as tape:
        alone, (product, five), (same, _) = (
            f(x),
            f(x, times=(5, 1.0), y=y),
            f(x, None, times=(x, x)),
        )
    assert f.num_traces == 3
    assert [found.numpy().tolist() for found in (alone, product, five, same)] == [
        [3.0, 4.0],
        [4.5, 8.0],
        [5, 5],
        [1.5, 2.0],
    ]
    assert tape.gradient(alone, x).numpy().tolist() == [2.0, 2.0]
    assert tape.gradient(product, y).numpy().tolist() == [1.5, 2.0]
    f([1.0])
    assert f.num_traces == 3
    message = "f was given .*1, None.* cannot be converted"
    answer(kerasrec.SignatureError, lambda: f(x, [1, None]), message)


def test_different_numbers_of_tokens():
    @recursive
    def f(n, m):
        return n + m

    parts = "of f", r"\(2,\), \(3,\)", "equal", "Close over a value that all tokens share"
    answer(kerasrec.SignatureError, lambda: f([1, 2], [1, 2, 3]), *parts)


@pytest.mark.many
def test_different_numbers_of_tokens_that_only_the_run_knows():
    @recursive
    def f(n, m):
        return n + m

    spec = tf.TensorSpec([None], tf.int32)
    call = tf.function(lambda n, m: f(n, m), input_signature=[spec, spec], autograph=False)
    answer(tf.errors.InvalidArgumentError, lambda: call([1, 2], [1, 2, 3]), "of f", "token")


def test_an_argument_with_another_open_dim():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(x + 1.0, n - 1))

    spec = tf.TensorSpec([None, None], tf.float32)
    call = tf.function(lambda x: f(x, 2), input_signature=[spec], autograph=False)
    answer(kerasrec.SignatureError, lambda: call(np.ones([2, 3], np.float32)), "f", "shape")


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ((3, 4), [LINE, "a tensor, with a row for each"]),
        ([[1, 2], [3]], [r"tf\.ragged\.constant\(rows\), which makes a call for each"]),
        ([{"n": 3}], [r"schema\.of\(documents\)"]),
        ([1, "a"], [r"Can't convert .* to Tensor\.$"]),
        ([], [r"np\.zeros", r"no values .* schema\.values\(schema\.encode\(\[\]\)\)\.$"]),
    ],
    ids=["tuple", "rows", "document", "text among numbers", "nothing"],
)
def test_arguments_that_are_no_rows_of_numbers(value, parts):
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: f(n - 1))

    answer(kerasrec.SignatureError, lambda: f(value), *parts)


@pytest.mark.many
def test_a_tuple_that_grows_is_no_new_function():
    @kerasrec.recursive
    def path(n, seen):
        return kerasrec.cond(n < 1, lambda: sum(seen), lambda: path(n - 1, (*seen, n)))

    with pytest.raises(kerasrec.TraceError, match="passed another structure of arguments"):
        path(3, (5,))


@pytest.mark.many
def test_a_nest_that_grows_fast():
    Pair = collections.namedtuple("Pair", "first second")

    @kerasrec.recursive
    def path(n, pair):
        grown = Pair(pair.second, (*pair.first, *pair.second))
        return kerasrec.cond(n < 1, lambda: n, lambda: path(n - 1, grown))

    with pytest.raises(kerasrec.TraceError, match="passed another structure of arguments"):
        path(3, Pair((1, 2), (3, 4)))
