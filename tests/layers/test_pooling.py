"""Attention over the nodes of padded and of ragged trees, against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import AttentionPooling, TreeRNN
from tests.layers.helpers import features, is_node, loaded_from_file, random_children

CHILDREN = random_children(3, 6, 2, seed=2, sizes=[6, 1, 3])


def expected(layer, x, nodes):
    kernel, bias, context = layer.get_weights()
    pooled, weights = [], np.zeros(nodes.shape)
    for row, (states, is_there) in enumerate(zip(x, nodes, strict=True)):
        logits = np.tanh(states[is_there] @ kernel + bias) @ context
        shares = np.exp(logits) / np.exp(logits).sum()
        weights[row, is_there] = shares[:, 0]
        pooled.append((shares * states[is_there]).sum(axis=0))
    return np.array(pooled), weights


def test_padded_and_ragged_trees():
    nodes = is_node(CHILDREN)
    x = features(CHILDREN)
    x[~nodes] = np.nan
    layer = AttentionPooling(3, return_attention_scores=True, dtype="float64")
    found = layer(tf.constant(x), mask=nodes)
    wanted = expected(layer, x, nodes)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    ragged = tf.RaggedTensor.from_row_lengths(x[nodes], nodes.sum(axis=1))
    pooled, weights = layer(ragged)
    np.testing.assert_allclose(pooled, wanted[0], atol=1e-12)
    np.testing.assert_allclose(weights.to_tensor(), wanted[1], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("is_ragged", [False, True])
def test_on_a_tree_layer_saved_and_exported(is_ragged, tmp_path):
    inputs = (
        keras.Input([None, 4], ragged=is_ragged),
        keras.Input([None, None if is_ragged else 2], dtype="int32", ragged=is_ragged),
    )
    states = TreeRNN(3, return_sequences=True, read_inner_inputs=True)(*inputs)
    model = keras.Model(
        inputs, [states, *AttentionPooling(3, return_attention_scores=True)(states)]
    )
    x, children = features(CHILDREN).astype("float32"), CHILDREN
    if is_ragged:
        nodes = is_node(CHILDREN)
        x = tf.RaggedTensor.from_row_lengths(x[nodes], nodes.sum(axis=1))
        children = tf.RaggedTensor.from_row_lengths(children[nodes], nodes.sum(axis=1))
    states, pooled, weights = model((x, children))
    if is_ragged:
        states, weights = states.to_tensor(), weights.to_tensor()
    wanted = expected(model.layers[-1], states.numpy(), is_node(CHILDREN))
    np.testing.assert_allclose(pooled, wanted[0], atol=1e-6)
    np.testing.assert_allclose(weights, wanted[1], atol=1e-6)
    loaded = loaded_from_file(model, tmp_path)
    np.testing.assert_array_equal(loaded((x, children))[1], pooled)
    if not is_ragged:
        model.export(tmp_path / "served", verbose=False)
        served = tf.saved_model.load(tmp_path / "served")
        np.testing.assert_allclose(served.serve((x, children))[2], weights, atol=1e-6)


def test_bad_use():
    with pytest.raises(ValueError, match="`units` must be a positive integer, received 0"):
        AttentionPooling(0)
    for roots in (keras.Input([4]), np.ones([2, 4], np.float32)):
        with pytest.raises(ValueError, match=r"return_sequences=True; received shape \(.*, 4\)"):
            AttentionPooling(3)(roots)
