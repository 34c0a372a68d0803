"""Loops, conditionals and functions of TensorFlow: what mixes tokens in them is refused."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec

X = tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32)
Q = tf.reshape(X, [3, 2, 2])
N = tf.constant([0, 2, 1])
C = tf.constant([1.0, 2.0])


def summed(x):
    return x - tf.reduce_sum(x, 0)


def times(count, step, x):
    return tf.while_loop(lambda i, _: i < count, lambda i, y: (i + 1, step(y)), (0, x))[1]


MIXING = {
    "foldl": lambda x: x - tf.foldl(lambda a, c: a + c, x),
    "foldl from zero": lambda x: x - tf.foldl(lambda a, c: a + c, x, initializer=tf.zeros([4])),
    "foldr": lambda x: x - tf.foldr(lambda a, c: a + c, x, initializer=tf.zeros([4])),
    "scan": lambda x: tf.scan(lambda a, c: a + c, x),
    "scan from zero": lambda x: tf.scan(lambda a, c: a + c, x, initializer=tf.zeros([4])),
    "while_loop": lambda x: times(2, summed, x),
    "map_fn that reads all": lambda x: tf.map_fn(lambda row: row - tf.reduce_sum(x), x),
    "map_fn that reads each": lambda x: tf.map_fn(lambda row: tf.reduce_sum(row * x, 0), x),
    "tf.function": lambda x: tf.function(summed, autograph=False)(x),
    "a function in a function": lambda x: tf.function(
        lambda y: tf.function(summed, autograph=False)(y), autograph=False
    )(x),
    "cond": lambda x: tf.cond(tf.reduce_sum(C) > 1.0, lambda: summed(x), lambda: x),
    "switch_case": lambda x: tf.switch_case(tf.size(C) - 2, [lambda: summed(x), lambda: x]),
    "a token of a list": lambda x: (
        x - tf.TensorArray(tf.float32, 3, element_shape=[4]).unstack(x).read(0)
    ),
    "the list the other way": lambda x: tf.while_loop(
        lambda i, _, out: i < 3,
        lambda i, all_, out: (i + 1, all_, out.write(i, all_.read(2 - i))),
        (
            0,
            tf.TensorArray(tf.float32, 3, element_shape=[4], clear_after_read=False).unstack(x),
            tf.TensorArray(tf.float32, 3, element_shape=[4]),
        ),
    )[2].stack(),
}

APART = {
    "map_fn": lambda x: tf.map_fn(lambda row: row / tf.reduce_sum(row), x),
    "map_fn of two": lambda x: tf.map_fn(lambda two: two[0] * two[1], (x, x + 1.0), tf.float32),
    "map_fn with a shared value": lambda x: tf.map_fn(lambda row: row[:2] * C, x),
    "map_fn of a constant": lambda x: tf.map_fn(lambda row: tf.constant(2.0), x),
    "map_fn and cond": lambda x: tf.map_fn(
        lambda row: tf.cond(row[0] > 0, lambda: row, lambda: -row), x
    ),
    "map_fn and a choice of constants": lambda x: tf.map_fn(
        lambda row: tf.cond(row[0] > 0, lambda: 1.0, lambda: 2.0), x
    ),
    "map_fn and while_loop": lambda x: tf.map_fn(
        lambda row: times(3, lambda y: y * row[0], row), x
    ),
    "map_fn and foldl": lambda x: tf.map_fn(lambda row: tf.foldl(lambda a, c: a * c, row), x),
    "map_fn and scan": lambda x: tf.map_fn(lambda row: tf.scan(lambda a, c: a + c, row), x),
    "map_fn in map_fn": lambda x: tf.map_fn(
        lambda row: tf.map_fn(lambda item: item * row[0], row), x
    ),
    "map_fn of a tf.function": lambda x: tf.map_fn(
        tf.function(lambda row: tf.cumsum(row), autograph=False), x
    ),
    "while_loop": lambda x: times(3, lambda y: y * x + 1.0, x),
    "while_loop until all are done": lambda x: tf.while_loop(
        lambda y: tf.reduce_any(tf.abs(y) > 0.1),
        lambda y: (tf.where(tf.abs(y) > 0.1, y / 2, y),),
        (x,),
    )[0],
    "tf.function": lambda x: tf.function(lambda y: tf.nn.softmax(y), autograph=False)(x),
    "sizes in a tf.function": lambda x: tf.function(
        lambda y: y + tf.zeros([tf.shape(y)[0], 4]), autograph=False
    )(x),
    "cond": lambda x: tf.cond(tf.reduce_sum(C) > 1.0, lambda: tf.sin(x), lambda: tf.zeros_like(x)),
    "foldl over something else": lambda x: tf.foldl(lambda a, c: a * c, C, initializer=x),
}


@pytest.mark.many
@pytest.mark.parametrize("name", MIXING)
def test_tokens_that_are_mixed_inside_are_refused(name):
    if name not in ("a token of a list", "the list the other way"):  # They need three.
        alone = tf.concat([MIXING[name](X[place : place + 1]) for place in range(3)], 0)
        assert not np.allclose(MIXING[name](X), alone, atol=1e-3)
    with pytest.raises(kerasrec.TraceError, match="not one value per token"):
        kerasrec.recursive(MIXING[name])(X)


@pytest.mark.many
@pytest.mark.parametrize("name", APART)
def test_tokens_that_stay_apart_inside_are_right(name):
    expected = tf.concat([APART[name](X[place : place + 1]) for place in range(3)], 0)
    np.testing.assert_allclose(kerasrec.recursive(APART[name])(X), expected, rtol=1e-5, atol=1e-6)


def test_the_error_says_where_tokens_are_mixed():
    @kerasrec.recursive
    def centred(x):
        return tf.function(summed, autograph=False)(x)

    with pytest.raises(kerasrec.TraceError, match=r"across tokens by Sum at .*test_held\.py:\d+"):
        centred(X)
