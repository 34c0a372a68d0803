"""Errors for calls in the wrong place."""

import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive, switch
from tests.trace.helpers import answer


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cond", lambda: cond(True, lambda: 1, lambda: 2)),
        ("switch", lambda: switch(0, [lambda: 1])),
        ("collect", lambda: kerasrec.collect("states", 1.0, 0, 1)),
    ],
    ids=["cond", "switch", "collect"],
)
def test_outside_a_recursive_function(name, call):
    answer(kerasrec.TraceError, call, f"kerasrec.{name} was called outside a recursive function")


@pytest.mark.parametrize(
    "inside",
    [
        lambda f, n: tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, f(x - 1)), (0, n))[1],
        lambda f, n: tf.map_fn(lambda x: f(x - 1), n),
        lambda f, n: tf.cond(tf.reduce_all(n < 1), lambda: n, lambda: f(n - 1)),
        lambda f, n: tf.function(lambda x: f(x - 1), autograph=False)(n),
    ],
    ids=["while_loop", "map_fn", "cond", "function"],
)
def test_a_call_inside_control_flow_of_tensorflow(inside):
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: inside(f, n))

    # A separate graph: tf.map_fn leaves a caching device behind in it when its body raises.
    with tf.Graph().as_default():
        answer(kerasrec.TraceError, lambda: f(3), "f is called in the body", "kerasrec.cond")
