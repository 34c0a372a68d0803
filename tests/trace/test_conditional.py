"""Errors of `kerasrec.cond` and `kerasrec.switch`."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive, switch
from tests.trace.helpers import answer

LINE = r"test_conditional\.py:\d+"


def test_branches_of_different_dtypes():
    @recursive
    def f(n):
        return cond(n < 1, lambda: 1.0, lambda: n)

    answer(
        kerasrec.SignatureError,
        lambda: f(3),
        LINE,
        r"true_fn returns f32\[\]",
        r"false_fn returns i32\[\]",
        "tf.cast",
    )


def test_branches_of_different_shapes():
    @recursive
    def f(x):
        return cond(x[:, 0] < 1, lambda: x, lambda: x[:, :1])

    answer(
        kerasrec.SignatureError,
        lambda: f(np.ones([2, 3], np.float32)),
        LINE,
        r"true_fn returns f32\[3\]",
        r"false_fn returns f32\[1\]",
        "shapes equal",
    )


def test_branches_of_different_structures():
    @recursive
    def f(n):
        return switch(n, [lambda: (n, n), lambda: {"a": n}])

    answer(
        kerasrec.SignatureError,
        lambda: f(3),
        LINE,
        r"branches\[0\] returns \(i32\[\], i32\[\]\)",
        r"branches\[1\] returns \{'a': i32\[\]\}",
        "same nest",
    )


def test_a_branch_that_returns_none():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: None)

    answer(kerasrec.SignatureError, lambda: f(3), "false_fn", LINE, "None", "Return a value")


@pytest.mark.parametrize(
    ("pred", "parts"),
    [
        (lambda x: x < 1, [r"bool of shape \[tokens, 3\]", "tf.reduce_any", LINE]),
        (lambda x: x[:, 0], [r"float32 of shape \[tokens\]", "compare it", LINE]),
        (lambda x: True, ["Python value True", "Python's `if` instead", "match.*None", LINE]),
        (lambda x: tf.reduce_any(x > 1), ["computed across tokens", r"shape \(\)", LINE]),
    ],
    ids=["not one per token", "float", "Python bool", "across tokens"],
)
def test_predicate(pred, parts):
    @recursive
    def f(x):
        return cond(pred(x), lambda: x, lambda: -x)

    answer(
        kerasrec.TraceError, lambda: f(np.ones([2, 3], np.float32)), "kerasrec.cond", "pred", *parts
    )


def test_a_predicate_after_the_branches():
    @recursive
    def f(n):
        return cond(lambda: n, n < 2, lambda: f(n - 1))

    part = "Arguments are pred, true_fn, false_fn, in this order"
    text = answer(kerasrec.SignatureError, lambda: f(3), "`pred` of kerasrec.cond", part, LINE)
    assert "kerasrec.functions" not in text


def test_index_of_switch_is_int32():
    @recursive
    def f(n):
        return switch(n < 1, [lambda: n, lambda: -n])

    answer(kerasrec.TraceError, lambda: f(1), "kerasrec.switch", "index", "bool", "int32", LINE)


def test_switch_without_branches():
    @recursive
    def f(n):
        return switch(n, [])

    answer(kerasrec.TraceError, lambda: f(1), "kerasrec.switch", "at least one branch")


def test_a_conditional_inside_control_flow_of_tensorflow():
    @recursive
    def f(n):
        return tf.map_fn(lambda x: cond(x < 1, lambda: x, lambda: -x), n)

    with tf.Graph().as_default():
        answer(kerasrec.TraceError, lambda: f(3), "kerasrec.cond", "tf.map_fn", LINE)


@pytest.mark.parametrize("used", ["after", "in the other branch"])
def test_a_tensor_of_one_branch_used_outside_it(used):
    @recursive
    def f(n):
        kept = []

        def first():
            kept.append(n * 2)
            return n

        if used == "after":
            return cond(n < 1, first, lambda: n) + kept[0]
        return cond(n < 1, first, lambda: kept[0])

    answer(
        kerasrec.TraceError, lambda: f(3), LINE, "inside one branch", "Return it from the branch"
    )
