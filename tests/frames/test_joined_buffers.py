"""With a GPU, buffers that are written together are columns of one."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src import host
from kerasrec._src.errors import GraphError
from kerasrec._src.frames.rows_tf.buffers import BufferSpec
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.rows import JoinedBuffers, MaskedRows
from kerasrec._src.frames.rows_xla.sizes import Sizes
from tests.frames.helpers import never_by_waves

SPECS = {
    "matrix": BufferSpec("f", tf.float32, (2, 3)),
    "count": BufferSpec("f", tf.int32, ()),
    "scalar": BufferSpec("f", tf.float32, ()),
    "nothing": BufferSpec("f", tf.float32, (0,)),
}


def test_buffers_of_one_dtype_are_joined():
    buffers = JoinedBuffers({"f": SPECS})
    whole = buffers.whole("matrix")
    assert buffers.whole("scalar") == whole
    assert [buffers.whole(key) for key in ("count", "nothing")] == ["count", "nothing"]
    other = BufferSpec("g", tf.float32, ())
    found = buffers.joined_specs({**SPECS, "other": other})
    assert found.pop(whole) == BufferSpec("f", tf.float32, (7,))
    assert found == {"count": SPECS["count"], "nothing": SPECS["nothing"], "other": other}


def test_what_is_joined_is_cut_again():
    buffers = JoinedBuffers({"f": SPECS})
    rows = {"matrix": tf.random.normal([4, 2, 3]), "scalar": tf.random.normal([4])}
    assert not buffers.joined({"matrix": rows["matrix"]})
    found = buffers.joined({**rows, "count": tf.range(4)})
    assert found.keys() == {buffers.whole("matrix"), "count"}
    for key, item in rows.items():
        np.testing.assert_array_equal(buffers.part(key, found[buffers.whole(key)]), item)


WEIGHT, ZERO = tf.Variable([[0.5, -0.3], [0.2, 0.4]]), tf.Variable([0.1, 0.2])
N, X = [0, 1, 4, 2], tf.constant([[0.3, 0.7], [0.2, -0.5], [1.0, 0.4], [-0.6, 0.9]])


def inner(x, first, second):
    (a, b, i), (c, d, j) = first, second
    state = tf.tanh((a + c * b[:, tf.newaxis]) @ WEIGHT) * x
    return state, tf.reduce_sum(state, 1) * d, i + j


@kerasrec.recursive(engine="compiled")
def pair(n, x):
    """Three results of two dtypes; one branch returns what all tokens share, and one calls."""
    branches = [
        lambda: (tf.identity(ZERO), 1.0, 3),
        lambda: (tf.cos(x), 2.0 * x[:, 0], 1),
        lambda: inner(x, pair(n - 1, 0.5 * x), pair(n - 2, tf.sin(x))),
    ]
    return kerasrec.switch(tf.minimum(n, 2), branches)


def plain(n, x):
    if n == 0:
        return ZERO[tf.newaxis], tf.ones([1]), tf.constant([3])
    if n == 1:
        return tf.cos(x), 2.0 * x[:, 0], tf.constant([1])
    return inner(x, plain(n - 1, 0.5 * x), plain(n - 2, tf.sin(x)))


def plain_all(n, x):
    found = [plain(one, row[tf.newaxis]) for one, row in zip(n, tf.unstack(x), strict=True)]
    return [tf.concat(items, 0) for items in zip(*found, strict=True)]


def test_results_of_one_dtype_are_in_one_buffer(a_gpu):
    pair.clear_cache()
    layout = MaskedLayout(pair.execution_plan(N, X).schedule)
    keys = [layout.output("pair", 0, number) for number in range(3)]
    wholes = list(map(layout.joined.whole, keys))
    assert wholes[0] == wholes[1] != keys[1] and wholes[2] == keys[2]


@kerasrec.recursive(engine="compiled")
def chosen(n, j, x):
    """An argument selects branches, and so does an integer that is computed."""
    k = tf.argmax(x, 1, output_type=tf.int32)
    y = kerasrec.switch(k, [lambda: tf.sin(x), lambda: 2.0 * x])
    z = kerasrec.switch(j, [lambda: tf.cos(y), lambda: y * y])
    return kerasrec.cond(n < 1, lambda: z, lambda: chosen(n - 1, (j + k) % 2, z))


def plain_chosen(n, j, x):
    k = int(np.argmax(x))
    y = 2.0 * x if k else tf.sin(x)
    z = y * y if j else tf.cos(y)
    return z if n < 1 else plain_chosen(n - 1, (j + k) % 2, z)


@pytest.mark.many
def test_arguments_that_are_not_kept_are_in_no_joined_buffer(a_gpu):
    chosen.clear_cache()
    found, which = [], [1, 0, 1, 1]

    def plain_all(n, j, x):
        return tf.stack([plain_chosen(*one) for one in zip(n, j, tf.unstack(x), strict=True)])

    for function in (chosen, plain_all):
        with never_by_waves(), tf.GradientTape() as tape:
            tape.watch(X)
            values = function(N, which, X)
        found.append([values, tape.gradient(values, X)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.many
def test_a_joined_buffer_that_is_written_in_part():
    buffers = JoinedBuffers({"f": SPECS})
    rows = MaskedRows(Sizes(*map(tf.constant, (4, 2, 2, 1))), {}, {}, buffers)
    rows.write("scalar", tf.range(2), tf.ones([2]), tf.ones([2], tf.bool))
    with pytest.raises(GraphError, match="scalar"):
        rows.finished()


@pytest.mark.many
@pytest.mark.parametrize("on_gpu", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_values_and_gradients(on_gpu, monkeypatch):
    pair.clear_cache()
    monkeypatch.setattr(host, "has_gpu", lambda: on_gpu)
    found = []
    for function in (pair, plain_all):
        with never_by_waves(), tf.GradientTape() as tape:
            tape.watch(X)
            with tf.GradientTape() as first_tape:
                first_tape.watch(X)
                state, scale, count = function(N, X)
                loss = tf.reduce_sum(state**2) + tf.reduce_sum(scale)
            slope = first_tape.gradient(loss, X)
            steepness = tf.reduce_sum(slope**2)
        second = tape.gradient(steepness, [X, WEIGHT, ZERO])
        found.append([state, scale, count, slope, *second])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
