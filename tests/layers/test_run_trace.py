"""Traces of layers' runs, and layers that several threads call at once."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import OrderedTreeRNN, TopDownTreeLSTM, TreeLSTM
from tests.layers.helpers import features, is_node, random_children

CHILDREN = random_children(3, 7, 2, seed=3)
X = features(CHILDREN).astype("float32")


@pytest.mark.parametrize(
    "layer",
    [
        TreeLSTM(3, read_inner_inputs=True),
        pytest.param(TopDownTreeLSTM(3), marks=pytest.mark.slow),
        pytest.param(OrderedTreeRNN(keras.layers.GRUCell(3)), marks=pytest.mark.slow),
    ],
    ids=lambda layer: layer.name,
)
def test_a_trace_counts_the_nodes(layer):
    trace = layer.run_trace(X, CHILDREN)
    num_missing = (CHILDREN < 0)[is_node(CHILDREN) & (CHILDREN >= 0).any(-1)].sum()
    called = is_node(CHILDREN).sum() + num_missing * isinstance(layer, TreeLSTM)
    assert trace.calls["visit"] == called
    assert "visit" in str(trace)
    assert layer.num_traces == 1  # As an ordinary call.
    with pytest.raises(ValueError, match="while a graph is being built"):
        tf.function(layer.run_trace)(X, CHILDREN)


@pytest.mark.slow
def test_threads_get_the_same_results():
    layer = TreeLSTM(3, read_inner_inputs=True)

    def gradients(seed):
        children = random_children(3, 4 + seed % 5, 2, seed=seed)
        x = tf.constant(features(children, seed=seed), "float32")
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, children) ** 2)
        return [tf.convert_to_tensor(one) for one in tape.gradient(loss, layer.trainable_variables)]

    expected = list(map(gradients, range(16)))  # The first call is in one thread.
    found = {}
    threads = [
        threading.Thread(target=lambda seed=seed: found.update({seed: gradients(seed)}))
        for seed in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, wanted in enumerate(expected):
        for one, other in zip(found[seed], wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
