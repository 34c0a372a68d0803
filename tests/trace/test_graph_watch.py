"""Mistakes that are found while a graph is built: endless loops, and losses of layers."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from kerasrec._src.trace import graph_watch
from tests.trace.helpers import answer

LINE = r"test_graph_watch\.py:\d+"


@pytest.mark.many
@pytest.mark.parametrize(
    "total",
    [sum, lambda rows: functools.reduce(tf.maximum, rows), lambda rows: [tf.abs(x) for x in rows]],
)
def test_a_python_loop_over_rows(total, monkeypatch):
    monkeypatch.setattr(graph_watch, "_LARGE_INDEX", 20)
    children = tf.ragged.constant([[1, 2], [], []], dtype=tf.int32)

    @recursive
    def size(node):
        return 1 + total(size(tf.gather(children, node)))

    answer(
        kerasrec.TraceError,
        lambda: size(0),
        r"A Python loop .* over the rows of a tf\.RaggedTensor never ends",
        r"tf\.reduce_sum\(rows, axis=1\)",
        LINE,
    )


@pytest.mark.many
def test_a_long_python_loop_that_ends():
    with tf.Graph().as_default() as graph, graph_watch.loops_over_rows_end(graph):
        rows = tf.ragged.constant([[1], [2, 3]] * 30)
        entries = [rows[place] for place in range(60)]
    assert len(entries) == 60
    assert graph.unique_name.__name__ == "unique_name"


class Pulling(keras.layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_sum(x))
        return x


@pytest.mark.many
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.Dense(2, activity_regularizer="l2", name="inner"),
        lambda: Pulling(name="inner"),
        lambda: keras.Sequential([keras.layers.Dense(2, activity_regularizer="l2", name="inner")]),
    ],
    ids=["activity_regularizer", "add_loss", "within a layer"],
)
def test_a_layer_that_adds_a_loss(make):
    layer = make()

    @recursive
    def f(n, x):
        return cond(n < 1, lambda: x, lambda: f(n - 1, layer(x)))

    match = r"calls the layer '(inner|functional)', which adds a loss"
    with pytest.raises(kerasrec.TraceError, match=match):
        f([2], tf.ones([1, 2]))


@pytest.mark.many
def test_a_layer_whose_weights_have_a_regularizer():
    layer = keras.layers.Dense(2, kernel_regularizer="l2")

    @recursive
    def f(n, x):
        return cond(n < 1, lambda: x, lambda: f(n - 1, layer(x)))

    f([2], tf.ones([1, 2]))
    (loss,) = layer.losses
    np.testing.assert_allclose(loss, 0.01 * tf.reduce_sum(layer.kernel**2), rtol=1e-6)
