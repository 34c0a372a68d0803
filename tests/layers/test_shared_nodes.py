"""Layers over directed acyclic graphs, against the same over the trees that these stand for."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.frames.helpers import never_by_waves
from tests.parameters import few_of

_DEPTH = 6
_DIAMOND = np.array([[[node + 1, node + 1] for node in range(_DEPTH)] + [[-1, -1]]])
_OF_TWO_CHILDREN = ("TreeLSTM", "diamond", "TreeRNN", "TreeGRU", "RNTN")
_GRAPH = np.array([[[1, 2], [3, 4], [4, 1], [4, -1], [-1, -1]]])


def _tree_of(graph):
    """Children of the tree that a graph stands for, and the node that each tree node copies."""
    rows, copies = [], []

    def add(node):
        place = len(rows)
        rows.append(None)
        copies.append(node)
        rows[place] = [-1 if child < 0 else add(child) for child in graph[node]]
        return place

    add(0)
    return np.array([rows]), copies


def _loss_and_gradients(layer, x, children, places=None):
    with tf.GradientTape() as tape:
        tape.watch(x)
        read = x if places is None else tf.gather(x, places, axis=1)
        loss = tf.reduce_sum(layer(read, children) ** 2)
    found = tape.gradient(loss, [x, *layer.trainable_variables])
    return loss, [tf.convert_to_tensor(item) for item in found]


# With shared nodes XLA takes no children in ragged rows, which ChildSumTreeLSTM has.
_CASES = [(name, "waves") for name in (*_OF_TWO_CHILDREN, "ChildSumTreeLSTM")]
_CASES += [(name, "compiled") for name in _OF_TWO_CHILDREN]


@pytest.mark.parametrize(
    ("name", "engine"),
    few_of(
        _CASES,
        many=[],
    ),
)
def test_a_graph_is_the_tree_that_it_stands_for(name, engine):
    make = kerasrec.layers.TreeLSTM if name == "diamond" else getattr(kerasrec.layers, name)
    graph = _DIAMOND if name == "diamond" else _GRAPH
    x = tf.constant(np.random.default_rng(0).normal(size=[1, graph.shape[1], 3]))
    of_graph = make(3, read_inner_inputs=True, shared_nodes=True, engine=engine, dtype="float64")
    of_tree = make(3, read_inner_inputs=True, dtype="float64")
    tree, copies = _tree_of(graph[0])
    for layer in (of_graph, of_tree):
        layer.build(x.shape, graph.shape)
    of_tree.set_weights(of_graph.get_weights())
    with never_by_waves():
        loss, gradients = _loss_and_gradients(of_graph, x, graph)
    expected, others = _loss_and_gradients(of_tree, x, tree, copies)
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    for one, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.slow
def test_each_node_is_computed_once():
    x = tf.ones([1, _DEPTH + 1, 3])
    layer = kerasrec.layers.TreeRNN(
        2, read_inner_inputs=True, shared_nodes=True, return_sequences=True, activation="linear"
    )
    found = layer(x, _DIAMOND)
    assert found.shape == [1, _DEPTH + 1, 2]
    below, kernel, recurrent = np.zeros([1, 2]), *layer.get_weights()[:2]
    for node in reversed(range(_DEPTH + 1)):
        state = np.ones([1, 3]) @ kernel + np.concatenate([below, below], 1) @ recurrent
        np.testing.assert_allclose(found[:, node], state, rtol=1e-4)
        below = state


@pytest.mark.slow
def test_ragged_children_and_batches_with_fit():
    children = tf.ragged.constant(
        [[[1, 2], [3], [3], []], [[1, 1], []]], dtype=tf.int32, row_splits_dtype=tf.int64
    )
    x = tf.RaggedTensor.from_row_lengths(np.random.default_rng(1).normal(size=[6, 3]), [4, 2])
    x = tf.cast(x, tf.float32)
    inputs = [
        keras.Input([None, 3], ragged=True),
        keras.Input([None, None], dtype="int32", ragged=True),
    ]
    layer = kerasrec.layers.ChildSumTreeLSTM(4, shared_nodes=True)
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(*inputs)))
    model.compile("adam", "mse")
    before = model.evaluate([x, children], tf.ones([2, 1]), verbose=0)
    model.fit([x, children], tf.ones([2, 1]), epochs=20, verbose=0)
    assert model.evaluate([x, children], tf.ones([2, 1]), verbose=0) < before


def test_saved():
    layer = kerasrec.layers.TreeGRU(3, shared_nodes=True)
    config = keras.saving.serialize_keras_object(layer)
    assert keras.saving.deserialize_keras_object(config).shared_nodes


@pytest.fixture(scope="module")
def layer():
    return kerasrec.layers.TreeRNN(2, read_inner_inputs=True, shared_nodes=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("children", "sentence"),
    [
        ([[1, 2], [2, -1], [1, -1]], r"not an acyclic graph: nodes form a cycle.*\[\[0 1\]\]"),
        ([[1, 1], [0, -1], [-1, -1]], "node 0 is a child"),
        ([[1, 5], [-1, -1], [-1, -1]], "index out of range"),
    ],
)
def test_what_is_no_graph_is_refused(layer, children, sentence):
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        layer(tf.ones([1, 3, 2]), np.array([children]))


@pytest.mark.slow
def test_a_tree_layer_names_the_option():
    layer = kerasrec.layers.TreeRNN(2, read_inner_inputs=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"two parents.*shared_nodes=True"):
        layer(tf.ones([1, 2, 2]), np.array([[[1, 1], [-1, -1]]]))


@pytest.mark.slow
def test_the_step_is_not_compiled_as_a_whole():
    options = {"engine": "compiled", "read_inner_inputs": True}
    assert kerasrec.layers.TreeRNN(2, **options).supports_jit
    assert not kerasrec.layers.TreeRNN(2, shared_nodes=True, **options).supports_jit
