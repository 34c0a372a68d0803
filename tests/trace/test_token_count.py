"""How many tokens run together is good for shapes, and not for values."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec

X = tf.constant(np.random.default_rng(0).normal(size=(3, 2)), tf.float32)


def number(x):
    return tf.cast(tf.shape(x)[0], tf.float32)


COUNTING = {
    "a quotient": lambda x: x / number(x),
    "size": lambda x: x * tf.cast(tf.size(x), tf.float32),
    "a product of sizes": lambda x: x * tf.cast(tf.reduce_prod(tf.shape(x)), tf.float32),
    "one of the sizes": lambda x: x * tf.cast(tf.unstack(tf.shape(x))[0], tf.float32),
    "a choice": lambda x: tf.where(tf.shape(x)[0] > 2, x, -x),
    "a filled tensor": lambda x: x + tf.fill(tf.shape(x), number(x)),
    "a filled matrix": lambda x: x @ tf.fill([2, 2], number(x)),
    "a row of a table": lambda x: x * tf.gather(tf.range(9.0), tf.shape(x)[0]),
    "rows of a table": lambda x: x + tf.reshape(tf.range(6.0), [3, 2])[: tf.shape(x)[0]],
    "unit matrix": lambda x: x + tf.eye(tf.shape(x)[0])[:, :2],
    "ones": lambda x: x * tf.reduce_sum(tf.ones([tf.shape(x)[0]] * 2), 1)[:, None],
    "a loop": lambda x: tf.while_loop(
        lambda i, y: i < tf.shape(x)[0], lambda i, y: (i + 1, y * 2.0), (0, x)
    )[1],
    "a counter": lambda x: (
        x * tf.cast(tf.while_loop(lambda i: i < tf.size(x), lambda i: [i + 1], [0])[0], tf.float32)
    ),
    "in a tf.function": lambda x: tf.function(lambda y: y * number(y), autograph=False)(x),
}

FOR_SHAPES = {
    "zeros": lambda x: x + tf.zeros([tf.shape(x)[0], 2]),
    "reshape": lambda x: tf.reshape(tf.reshape(x, [-1]) * 2.0, [tf.shape(x)[0], 2]),
    "reshape to sizes": lambda x: tf.reshape(x, tf.concat([tf.shape(x)[:1], [2, 1]], 0))[:, :, 0],
    "broadcast_to": lambda x: x + tf.broadcast_to([1.0, 2.0], tf.shape(x)),
    "fill": lambda x: x * tf.fill(tf.stack([tf.shape(x)[0], 2]), 3.0),
    "tile": lambda x: x + tf.tile([[1.0, 2.0]], [tf.shape(x)[0], 1]),
    "a matrix a token": lambda x: tf.reduce_sum(
        x[:, None] * tf.eye(2, batch_shape=tf.shape(x)[:1]), 1
    ),
    "transposed zeros": lambda x: x + tf.transpose(tf.zeros([2, tf.shape(x)[0]])),
    "random": lambda x: x + 0.0 * tf.random.uniform(tf.shape(x)),
    "another axis": lambda x: x / tf.cast(tf.shape(x)[1], tf.float32),
    "other axes": lambda x: x * tf.cast(tf.reduce_prod(tf.shape(x)[1:]), tf.float32),
    "one less": lambda x: tf.tile(x[:, : tf.shape(x)[1] - 1], [1, 2]),
    "split sizes": lambda x: x * tf.cast(tf.split(tf.shape(x), 2)[1][0], tf.float32),
    "numbers a token": lambda x: x * tf.cast(tf.size(x) // tf.shape(x)[0], tf.float32),
    "rank": lambda x: x * tf.cast(tf.rank(x), tf.float32),
    "gradient of a mean": lambda x: tf.gradients(tf.reduce_mean(tf.tanh(x), 1), x)[0],
    "an assertion": lambda x: (tf.debugging.assert_equal(tf.shape(x)[0], tf.shape(x)[0]), x)[1],
    "a loop of its own": lambda x: tf.while_loop(
        lambda i, y: i < tf.shape(x)[1], lambda i, y: (i + 1, y * 2.0), (0, x)
    )[1],
}


@pytest.mark.many
@pytest.mark.parametrize("name", COUNTING)
def test_the_number_of_tokens_is_no_value(name):
    alone = tf.concat([COUNTING[name](X[place : place + 1]) for place in range(3)], 0)
    try:
        assert not np.allclose(COUNTING[name](X), alone, atol=1e-3)
    except tf.errors.InvalidArgumentError:
        assert name == "unit matrix"
    with pytest.raises(kerasrec.TraceError, match="not one value per token"):
        kerasrec.recursive(COUNTING[name])(X)


@pytest.mark.many
@pytest.mark.parametrize("name", FOR_SHAPES)
def test_sizes_are_good_for_shapes(name):
    def each(row):
        return tf.function(FOR_SHAPES[name], autograph=False)(row)

    expected = tf.concat([each(X[place : place + 1]) for place in range(3)], 0)
    np.testing.assert_allclose(kerasrec.recursive(FOR_SHAPES[name])(X), expected, rtol=1e-6)


def test_the_error_says_what_to_write_instead():
    @kerasrec.recursive
    def mean(x, n):
        return kerasrec.cond(n < 1, lambda: x / number(x), lambda: mean(x, n - 1))

    with pytest.raises(kerasrec.TraceError) as caught:
        mean([6.0, 6.0, 6.0], [0, 0, 1])
    assert "by Shape at" in str(caught.value)
    assert "test_token_count.py" in str(caught.value)
    assert "Write a constant, or pass a number as an argument" in str(caught.value)


@pytest.mark.many
def test_a_number_that_is_passed_is_right():
    @kerasrec.recursive
    def part(x, n, size):
        return kerasrec.cond(n < 1, lambda: x / size, lambda: part(x, n - 1, size))

    np.testing.assert_allclose(part([6.0, 6.0, 6.0], [0, 0, 1], 3.0), [2.0, 2.0, 2.0])
