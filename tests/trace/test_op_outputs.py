"""Programs that mix tokens are refused, however they do it; others are right for each token."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of

X = tf.constant(np.random.default_rng(0).normal(size=(4, 2)), tf.float32)


ALWAYS = tf.Variable(True)


def float_of(size):
    return tf.cast(size, tf.float32)


def zero(x):
    """A number of each token that is 0, int32 `[tokens, 1]`."""
    return tf.cast(0 * x[:, :1], tf.int32)


def own_image(x):
    """Each token cut out of itself, as an image of two pixels."""
    boxes = tf.ones([tf.shape(x)[0], 1]) * [0, 0, 1, 1.0]
    images = tf.reshape(x, [-1, 1, 2, 1])
    return tf.image.crop_and_resize(images, boxes, tf.range(tf.shape(x)[0]), [1, 2])[:, 0, :, 0]


MIXING = {
    "softmax": lambda x: tf.nn.softmax(x, axis=0),
    "log softmax of an outer product": lambda x: tf.nn.log_softmax(
        x[:, :, None] * x[:, None, :], axis=0
    )[:, 0],
    "sort": lambda x: tf.sort(x, axis=0),
    "sort of a transpose": lambda x: tf.transpose(tf.sort(tf.transpose(x))),
    "Gram matrix": lambda x: tf.matmul(x, tf.matmul(x, x, transpose_a=True)),
    "sum over tokens by einsum": lambda x: x @ tf.einsum("bi,bj->ij", x, x),
    "two labels in einsum": lambda x: tf.einsum("bi,cj,ci->bj", x, x, x),
    "tensordot": lambda x: x @ tf.tensordot(x, x, [[0], [0]]),
    "attention among tokens": lambda x: tf.nn.softmax(x @ tf.transpose(x)) @ x,
    "centering a transpose": lambda x: tf.transpose(
        tf.transpose(x) - tf.reduce_mean(tf.transpose(x), axis=1, keepdims=True)
    ),
    "cumsum of a transpose": lambda x: tf.transpose(tf.cumsum(tf.transpose(x), axis=1)),
    "l2_normalize": lambda x: tf.math.l2_normalize(x, axis=0),
    "moments": lambda x: x - tf.nn.moments(x, [0])[0],
    "triangular matrix": lambda x: tf.linalg.band_part(tf.ones([tf.shape(x)[0]] * 2), -1, 0) @ x,
    "convolution": lambda x: tf.nn.conv1d(x[None], tf.ones([3, 2, 2]), 1, "SAME")[0],
    "differences of pairs": lambda x: tf.reduce_sum(x[:, None] - x[None], 1),
    "a part of the tokens": lambda x: x + x[None, 1:][0],
    "positions": lambda x: x * tf.cast(tf.range(tf.shape(x)[0])[:, None], tf.float32),
    "turned around": lambda x: tf.gather(x, tf.range(tf.shape(x)[0])[::-1]),
    "sum of squares": lambda x: x / tf.nn.l2_loss(x),
    "global norm": lambda x: x / tf.linalg.global_norm([x]),
    "search": lambda x: x + tf.cast(tf.searchsorted(tf.abs(x[:, 0]), [0.5]), tf.float32),
    "search among tokens": lambda x: (
        x + tf.cast(tf.searchsorted(x[:, 0], x[:, 0]), tf.float32)[:, None]
    ),
    "segments": lambda x: tf.math.unsorted_segment_sum(
        x, tf.zeros([tf.shape(x)[0]], tf.int32), tf.shape(x)[0]
    ),
    "sequence of tokens": lambda x: tf.reverse_sequence(
        x, tf.fill([2], tf.shape(x)[0]), seq_axis=0, batch_axis=1
    ),
    "softmax of all numbers": lambda x: tf.reshape(tf.nn.softmax(tf.reshape(x, [-1])), [-1, 2]),
    "cumsum of all numbers": lambda x: tf.reshape(tf.cumsum(tf.reshape(x, [-1])), [-1, 2]),
    "sum along a new first axis": lambda x: x - tf.reduce_sum(tf.reshape(x, [1, -1, 2]), 1),
    "columns for rows": lambda x: tf.reshape(tf.transpose(tf.reshape(x, [2, -1])), [-1, 2]),
    "how many tokens there are": lambda x: x + float_of(tf.shape(x)[0]),
    "how many numbers there are": lambda x: x / float_of(tf.size(x)),
    "one of several sizes": lambda x: x * float_of(tf.unstack(tf.shape(x)[:2])[0])[None, None],
    "a choice by a size": lambda x: tf.where(tf.reduce_prod(tf.shape(x)[0:1]) > 1, x, -x),
    "one of several parts": lambda x: (
        x + tf.reduce_sum(tf.unstack(tf.transpose(x[:, :, None] * x[:, None], [1, 2, 0]))[1], 1)
    ),
    "cumprod along the last axis": lambda x: x * tf.math.cumprod(x[:, 0], axis=-1)[:, None],
    "isotonic regression": lambda x: x + tf.nn.isotonic_regression(x[:, 0])[0][:, None],
    "contrast": lambda x: tf.image.adjust_contrast(x[:, :, None] * [[1.0], [2.0]], 2.0)[:, :, 0],
    "shuffled tokens": lambda x: tf.random.experimental.stateless_shuffle(x, [1, 2]),
    "normalized batch": lambda x: tf.compat.v1.nn.fused_batch_norm(
        x[:, :, None, None], [1.0], [0.0]
    )[0][:, :, 0, 0],
    "how many are equal": lambda x: (
        x + float_of(tf.math.bincount(tf.cast(x[:, 0], tf.int32) * 0))[0]
    ),
    "a number put into the first token": lambda x: tf.tensor_scatter_nd_update(
        x, [[0]], [[9.0, 9]]
    ),
    "added to the token of a number": lambda x: tf.tensor_scatter_nd_add(x, zero(x), x),
    "the larger of two tokens": lambda x: tf.tensor_scatter_nd_max(x, zero(x), x + 1),
    "the token of a number": lambda x: tf.gather_nd(x, zero(x)),
    "scattered by a number": lambda x: x + tf.scatter_nd(zero(x), x, tf.shape(x)),
    "copies after all tokens": lambda x: tf.reshape(tf.tile(x, [2, 1]), [-1, 2, 2])[:, 1],
    "as many copies as tokens": lambda x: tf.reshape(
        tf.tile(x, [tf.shape(x)[0], 1]), [tf.shape(x)[0], -1, 2]
    )[:, 0],
    "the token before": lambda x: tf.slice(tf.pad(x, [[1, 0], [0, 0]]), [0, 0], tf.shape(x)),
    "reflected tokens": lambda x: tf.reshape(
        tf.pad(x, [[0, tf.shape(x)[0]], [0, 0]], "SYMMETRIC"), [-1, 2, 2]
    )[:, 1],
    "a slice from the second on": lambda x: tf.reshape(
        tf.slice(tf.concat([x, x], 1), [1, 0], [-1, 2]), [-1, 2]
    ),
    "a matrix of tokens": lambda x: x + tf.reduce_sum(tf.exp(tf.linalg.diag(x[:, 0])), 1)[:, None],
    "a range of all numbers": lambda x: tf.quantization.quantize_and_dequantize_v2(
        x, -1.0, 1.0, range_given=False, num_bits=4
    ),
    "the first token by an old op": lambda x: tf.raw_ops.Gather(params=x, indices=zero(x)[:, 0]),
    "the first image": lambda x: tf.image.crop_and_resize(
        tf.reshape(x, [-1, 1, 2, 1]),
        tf.ones([tf.shape(x)[0], 1]) * [0, 0, 1, 1.0],
        zero(x)[:, 0],
        [1, 2],
    )[:, 0, :, 0],
    "equations of tokens": lambda x: tf.linalg.tridiagonal_solve(tf.ones([3, tf.shape(x)[0]]), x),
    "the first of an array": lambda x: (
        tf.TensorArray(tf.float32, 0, dynamic_size=True).unstack(x).gather(zero(x)[:, 0])
    ),
    "a part of a mixed image": lambda x: own_image(without_mean(x)),
    "an array of mixed rows": lambda x: (
        tf.TensorArray(tf.float32, 0, dynamic_size=True)
        .unstack(without_mean(x))
        .gather(tf.range(tf.shape(x)[0]))
    ),
    "a mixed number of each": lambda x: x * tf.gather_nd(without_mean(x), first(x))[:, None],
    "copies by a list in parts": lambda x: tf.reshape(
        tf.tile(x, tf.concat([[2], tf.shape(x)[1:] // 2], 0)), [-1, 2, 2]
    )[:, 1],
    "a sum so far by Keras": lambda x: keras.ops.scan(
        lambda total, row: (total + row, total + row), tf.zeros([2]), x
    )[1],
    "joined along the tokens from the end": lambda x: tf.reshape(
        tf.concat([x, tf.reverse(x, [1])], -2), [-1, 2, 2]
    )[:, 0],
    "transposes joined along the tokens": lambda x: tf.transpose(
        tf.concat([tf.transpose(x)] * 2, 1)[:, ::2]
    ),
    "columns of other tokens": lambda x: (
        x + tf.reduce_sum(tf.gather(x, choice(x), axis=1), 1, keepdims=True)
    ),
    "the largest of all tokens": lambda x: (
        x - tf.transpose(tf.math.top_k(tf.transpose(x), sorted=True)[0])
    ),
    "a transpose padded along the tokens": lambda x: tf.transpose(
        tf.pad(tf.transpose(x), [[0, 0], [1, 0]])[:, :-1]
    ),
    "turned around with a new axis": lambda x: x[None, ::-1][0],
    "a transpose turned around": lambda x: tf.transpose(tf.reverse(tf.transpose(x), [-1])),
    "determinants of tokens": lambda x: (
        x * tf.linalg.det(tf.matmul(x, x, transpose_b=True) + tf.eye(tf.shape(x)[0]))
    ),
    "filled with a size": lambda x: tf.fill(tf.shape(x), float_of(tf.gather(tf.shape(x), 0))),
}


@tf.function
def without_mean(x):
    return x - tf.reduce_mean(x, axis=0)


@tf.function(input_signature=[tf.TensorSpec(None)])
def doubled(x):
    return x * 2


def repeated(body):
    """A body three times."""
    return lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, body(y)), [0, x])[1]


def doubling_rows(x):
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 2])]
    return tf.while_loop(
        lambda i, _: i < 3, lambda i, y: (i + 1, tf.concat([y, y], 0)), [0, x], shapes
    )[1]


HOLDING = {
    "a function": without_mean,
    "a function of all numbers": lambda x: tf.reshape(
        tf.function(tf.nn.softmax)(tf.reshape(x, [-1])), [-1, 2]
    ),
    "a loop": repeated(without_mean),
    "a loop until all are done": lambda x: tf.while_loop(
        lambda y: tf.reduce_any(tf.abs(y) > 0.1), lambda y: [y / 2], [x]
    )[0],
    "a loop as often as there are tokens": lambda x: tf.while_loop(
        lambda i, _: i < tf.shape(x)[0], lambda i, y: (i + 1, y / 2), [0, x]
    )[1],
    "a branch": lambda x: tf.cond(ALWAYS, lambda: without_mean(x), lambda: x),
    "a choice by how many there are": lambda x: tf.cond(tf.size(x) > 2, lambda: -x, lambda: x),
    "a sum so far": lambda x: tf.scan(lambda total, row: total + row, x),
    "twice as many rows in each turn": lambda x: tf.reduce_sum(
        tf.reshape(doubling_rows(x) / float_of(tf.shape(x)[0]), [-1, 8, 2]), 1
    ),
    "a sum of all": lambda x: x + tf.foldl(lambda total, row: total + row, x),
    "a map that reads all": lambda x: tf.map_fn(lambda row: row - tf.reduce_sum(x), x),
    "a map that counts": lambda x: tf.map_fn(lambda row: row / float_of(tf.size(x)), x),
    "one of several branches": lambda x: tf.switch_case(
        tf.cast(ALWAYS, tf.int32), [lambda: x, lambda: without_mean(x), lambda: -x]
    ),
}


def first(x):
    """The places of the first number of each token."""
    return tf.stack([tf.range(tf.shape(x)[0]), tf.zeros([tf.shape(x)[0]], tf.int32)], 1)


def choice(x):
    """A number of each token, 0 or 1."""
    return tf.cast(x[:, 0] > 0, tf.int32)


APART = {
    "a sum of transposes": lambda x: tf.transpose(
        tf.add_n([tf.transpose(x), tf.sin(tf.transpose(x)), tf.transpose(x * x)])
    ),
    "transposes joined": lambda x: tf.transpose(tf.concat([tf.transpose(x)] * 2, 0)[1:3]),
    "a transpose cut": lambda x: tf.transpose(
        tf.concat(tf.split(tf.transpose(x), 2, axis=0)[::-1], 0)
    ),
    "columns of a table": lambda x: tf.transpose(
        tf.gather(tf.constant([[1.0, 2.0], [3.0, 4.0]]), choice(x), axis=1)
    ),
    "entries of a transpose": lambda x: tf.transpose(tf.gather(tf.transpose(x), [1, 0])),
    "classes before tokens": lambda x: tf.transpose(tf.one_hot(choice(x), 2, axis=0)),
    "the largest next to a new axis": lambda x: tf.math.top_k(tf.stack([x, -x], 0), 2)[0][1],
    "a padded transpose": lambda x: tf.transpose(tf.pad(tf.transpose(x), [[1, 0], [0, 0]])[:2]),
    "a repeated transpose": lambda x: tf.transpose(tf.tile(tf.transpose(x), [2, 1])[1:3]),
    "a bias next to a new axis": lambda x: tf.nn.bias_add(x[None], tf.constant([1.0, 2.0]))[0],
    "inverses next to a new axis": lambda x: tf.linalg.matvec(
        tf.linalg.inv((x[:, :, None] * x[:, None] + tf.eye(2))[None])[0], x
    ),
    "a transpose and back": lambda x: tf.transpose(tf.sin(tf.transpose(x)) * 2.0),
    "softmax along another axis": lambda x: tf.transpose(
        tf.nn.softmax(tf.transpose(x[:, :, None] * x[:, None, :], [1, 0, 2])), [1, 0, 2]
    )[:, 0],
    "reduction of a transpose": lambda x: tf.stack([tf.reduce_sum(tf.transpose(x), axis=0)] * 2, 1),
    "einsum": lambda x: tf.einsum("...i,ij->...j", x, tf.constant([[1.0, 2.0], [3.0, 4.0]])),
    "einsum of two": lambda x: tf.einsum("bi,bj->bij", x, x)[:, 0],
    "einsum that moves": lambda x: tf.einsum("ib->bi", tf.einsum("bi->ib", x)),
    "matvec": lambda x: tf.linalg.matvec(x[:, :, None] * x[:, None, :], x),
    "product from the left": lambda x: tf.transpose(
        tf.matmul(tf.constant([[1.0, 2.0], [3.0, 4.0]]), x, transpose_b=True)
    ),
    "an axis that goes again": lambda x: tf.squeeze(tf.expand_dims(x, 0), 0),
    "gather_nd by place": lambda x: tf.stack(
        [
            tf.gather_nd(
                x, tf.stack([tf.range(tf.shape(x)[0]), tf.zeros([tf.shape(x)[0]], tf.int32)], 1)
            )
        ]
        * 2,
        1,
    ),
    "gather with batch_dims": lambda x: tf.gather(x, tf.cast(x > 0, tf.int32), batch_dims=1),
    "one_hot": lambda x: tf.one_hot(tf.argmax(x, 1), 2),
    "tile": lambda x: tf.tile(x[:, None], [1, 3, 1])[:, 0],
    "several rows a token": lambda x: tf.reshape(tf.exp(tf.reshape(x, [-1])), [-1, 2]),
    "several rows a token in a loop": lambda x: tf.reshape(
        repeated(tf.sin)(tf.reshape(x, [-1])), [-1, 2]
    ),
    "a new first axis and back": lambda x: tf.reshape(
        tf.nn.softmax(tf.reshape(x, [1, -1, 2])), [-1, 2]
    ),
    "a stack": lambda x: tf.unstack(tf.stack([x, tf.exp(x)]))[1],
    "a stack with a tensor of unknown rank": lambda x: tf.ensure_shape(
        tf.stack([x, doubled(x)], axis=2), [None, 2, 2]
    )[:, :, 1],
    "sizes of other axes": lambda x: (
        x * float_of(tf.unstack(tf.shape(x)[:2])[1] + tf.shape(x)[-1] - 1)
    ),
    "how many numbers a token has": lambda x: x / float_of(tf.size(x) // tf.shape(x)[0]),
    "a function": lambda x: tf.function(lambda y: y - tf.reduce_mean(y, 1, keepdims=True))(x),
    "a function of open sizes": tf.function(
        lambda x: x * tf.one_hot(0, tf.shape(x)[-1]),
        input_signature=[tf.TensorSpec([None, None])],
    ),
    "a loop": repeated(lambda y: y / (1 + tf.reduce_sum(y * y, 1, keepdims=True))),
    "a loop that reads tokens from around it": lambda x: repeated(lambda y: y * x)(tf.cos(x)),
    "a map over another axis that reads tokens": lambda x: tf.transpose(
        tf.map_fn(lambda column: column * x[:, 0], tf.transpose(x))
    ),
    "a map": lambda x: tf.map_fn(lambda row: row / tf.reduce_sum(row * row), x),
    "a branch": lambda x: tf.cond(ALWAYS, lambda: x + 1, lambda: tf.zeros_like(x)),
    "a loop in a transpose": lambda x: tf.transpose(repeated(tf.sin)(tf.transpose(x))),
    "a number put into each": lambda x: tf.tensor_scatter_nd_update(x, first(x), x[:, 1] ** 2),
    "a number off each": lambda x: tf.tensor_scatter_nd_sub(x, first(x), x[:, 1]),
    "the larger number of each": lambda x: tf.tensor_scatter_nd_max(x, first(x), x[:, 1]),
    "a number of each": lambda x: x * tf.gather_nd(x, first(x))[:, None],
    "those that are chosen": lambda x: tf.scatter_nd(
        tf.where(x[:, 0] > 0), tf.boolean_mask(x, x[:, 0] > 0), tf.shape(x, tf.int64)
    ),
    "put back": lambda x: tf.dynamic_stitch(
        tf.dynamic_partition(tf.range(tf.shape(x)[0]), tf.cast(x[:, 0] > 0, tf.int32), 2),
        [-y for y in tf.dynamic_partition(x, tf.cast(x[:, 0] > 0, tf.int32), 2)],
    ),
    "copies side by side": lambda x: tf.reshape(tf.tile(x, [1, tf.shape(x)[1]]), [-1, 2, 2])[:, 1],
    "repeated": lambda x: tf.reshape(tf.repeat(x, 3, axis=0), [-1, 3, 2])[:, 2],
    "padded numbers": lambda x: tf.slice(
        tf.pad(x, [[0, 0], [1, tf.shape(x)[1]]]), [0, 1], [tf.shape(x)[0], 2]
    ),
    "a matrix of each": lambda x: tf.reduce_sum(tf.linalg.diag(tf.exp(x)), 1),
    "a given range": lambda x: tf.quantization.quantize_and_dequantize_v2(
        x, -1.0, 1.0, range_given=True
    ),
    "its own image": lambda x: own_image(x),
    "padding in columns": lambda x: tf.pad(x, tf.stack([[0, 0], [0, tf.shape(x)[1]]], 1))[:, :2],
    "a range of each": lambda x: tf.quantization.quantize_and_dequantize_v2(
        x, tf.zeros([tf.shape(x)[0]]), tf.zeros([tf.shape(x)[0]]), range_given=False, axis=0
    ),
    "an array for each token": lambda x: tf.map_fn(
        lambda row: tf.TensorArray(tf.float32, 2).write(0, row[1]).write(1, row[0]).stack(),
        x,
    ),
    "a loop over several rows a token": lambda x: tf.reshape(
        tf.while_loop(
            lambda i, _: i < 2,
            lambda i, z: (i + 1, z + tf.reshape(x, [-1, 1])),
            [0, tf.zeros([tf.shape(x)[0] * 2, 1])],
        )[1],
        [-1, 2],
    ),
    "an array and back": lambda x: (
        tf.TensorArray(tf.float32, 0, dynamic_size=True).unstack(x).stack()
    ),
    "tensors of a size": lambda x: x + tf.reshape(tf.ones([tf.shape(x)[0] * 2]), tf.shape(x)),
}


@pytest.mark.parametrize("name", MIXING)
def test_programs_that_mix_tokens_are_refused(name):
    if name not in ("a part of the tokens", "a slice from the second on"):  # They need several.
        alone = tf.concat([MIXING[name](X[place : place + 1]) for place in range(4)], 0)
        assert not np.allclose(MIXING[name](X), alone, atol=1e-3)
    with pytest.raises(kerasrec.TraceError, match="not one value per token"):
        kerasrec.recursive(MIXING[name])(X)


@pytest.mark.parametrize("name", few_of(HOLDING, "a function", "a loop until all are done"))
def test_functions_loops_and_branches_that_mix_tokens_are_refused(name):
    alone = tf.concat([HOLDING[name](X[place : place + 1]) for place in range(4)], 0)
    assert not np.allclose(HOLDING[name](X), alone, atol=1e-3)
    with pytest.raises(kerasrec.TraceError, match="not one value per token"):
        kerasrec.recursive(HOLDING[name])(X)


@pytest.mark.parametrize("name", APART)
def test_programs_that_leave_tokens_apart_are_right(name):
    expected = tf.concat([APART[name](X[place : place + 1]) for place in range(4)], 0)
    np.testing.assert_allclose(kerasrec.recursive(APART[name])(X), expected, rtol=1e-5, atol=1e-6)


# Right for one token. TensorFlow broadcasts as many tokens as numbers, or pairs, without an error.
MEETING = {
    "a number and a vector": lambda x: x * x[:, 0],
    "a choice": lambda x: tf.where(x[:, 1] > 0, x, -x),
    "a column and a number": lambda x: tf.reduce_sum(x[:, :1] - x[:, 0], 1),
    "pairs": lambda x: tf.reduce_max(x[:, None] * x, 1),
    "xlogy": lambda x: tf.math.xlogy(x[:, 1], x * x),
    "euclidean norm": lambda x: x * tf.math.reduce_euclidean_norm(x, 0),
    "triangle": lambda x: tf.linalg.band_part(x, 0, -1),
    "singular values": lambda x: tf.linalg.svd(x, compute_uv=False)[0] * x,
    "fourier": lambda x: tf.math.abs(tf.signal.fft(tf.cast(x[:, 0], tf.complex64))),
}


@pytest.mark.parametrize("name", MEETING)
def test_token_axes_that_meet_others_are_refused(name):
    two = X[:2]
    alone = tf.concat([MEETING[name](two[place : place + 1]) for place in range(2)], 0)
    assert not np.allclose(MEETING[name](two), alone, atol=1e-3)
    with pytest.raises(kerasrec.TraceError, match="not one value per token"):
        kerasrec.recursive(MEETING[name])(two)


def test_a_bias_a_token_is_refused():
    with pytest.raises(kerasrec.TraceError, match="not one value per token"):
        kerasrec.recursive(lambda x: tf.nn.bias_add(x, x[:, 0]))(X[:2])


@pytest.mark.slow
def test_a_wrong_type_that_is_tried_is_not_the_users_mistake():
    children = tf.ragged.constant([[1, 2], [3], [], []], dtype=tf.int32)
    values = tf.reshape(tf.range(16.0), [4, 2, 2])

    @kerasrec.recursive
    def total(node):
        return tf.gather(values, node) + tf.reduce_sum(total(tf.gather(children, node)), axis=1)

    np.testing.assert_allclose(total([0, 1]), [tf.reduce_sum(values, 0), values[1] + values[3]])


RECURRENT = {
    "LSTM": lambda: keras.layers.LSTM(2),
    "unrolled": lambda: keras.layers.SimpleRNN(2, unroll=True),
    "both ways": lambda: keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True)),
    "time-distributed": lambda: keras.layers.TimeDistributed(keras.layers.Dense(2)),
}


@pytest.mark.parametrize("name", few_of(RECURRENT, "time-distributed", many=["LSTM", "both ways"]))
def test_layers_over_time_are_right_for_each_token(name):
    layer, x = RECURRENT[name](), tf.reshape(tf.range(24.0), [4, 3, 2]) / 24

    def value_and_gradient(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(tf.sin(y))
        return y, tape.gradient(loss, x)

    expected = value_and_gradient(
        lambda x: tf.concat([layer(x[place : place + 1]) for place in range(4)], 0)
    )
    for found, right in zip(
        value_and_gradient(kerasrec.recursive(lambda x: layer(x))), expected, strict=True
    ):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-6)


def test_tokens_that_are_stitched_by_their_values_are_refused():
    with pytest.raises(kerasrec.TraceError, match="with the number of the token"):
        kerasrec.recursive(lambda x, i: tf.dynamic_stitch([i], [x]))(X, [3, 0, 1, 2])


def test_strings_of_several_tokens_that_are_joined_are_refused():
    @kerasrec.recursive
    def joined(x):
        words = tf.strings.as_string(x)
        ids = tf.zeros_like(x)
        return tf.strings.length(tf.strings.unsorted_segment_join(words, ids, tf.shape(x)[0]))

    with pytest.raises(kerasrec.TraceError, match="computed across tokens"):
        joined([1, 22, 333])
