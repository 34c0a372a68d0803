"""The same arithmetic without dependencies: the time that no recursion can beat.

All leaves are one batch and all inner nodes another, whose child states are random numbers instead
of what the children computed. Gradients are taken with respect to these states too, so the
backward pass has every product of the real one. The losses mean nothing.
"""

import numpy as np
import tensorflow as tf

from benchmarks.model import Weights, inner_state, leaf_state, nodes_loss
from benchmarks.peers.graph_peer import GraphPeer


class DenseLimit(GraphPeer):
    def __init__(self, values):
        self.weights = Weights(values)
        self.trainable = self.weights.trainable
        units = self.weights.units
        self.signature = [
            tf.TensorSpec([None], tf.int32, "tokens"),
            tf.TensorSpec([None, 2 * units], tf.float32, "h_children"),
            tf.TensorSpec([None, units], tf.float32, "c_left"),
            tf.TensorSpec([None, units], tf.float32, "c_right"),
            tf.TensorSpec([None], tf.int32, "labels"),
            tf.TensorSpec([], tf.int32, "num_trees"),
        ]
        self.build()

    def inputs(self, batch):
        leaves, inner = batch.is_leaf, batch.is_node & ~batch.is_leaf
        units = self.weights.units
        rng = np.random.default_rng(0)
        states = [
            tf.constant(0.1 * rng.standard_normal((inner.sum(), columns)), tf.float32)
            for columns in (2 * units, units, units)
        ]
        labels = np.concatenate([batch.labels[leaves], batch.labels[inner]])
        num_trees = tf.constant(batch.num_trees)
        return tf.constant(batch.tokens[leaves]), *states, tf.constant(labels), num_trees

    def compute_logits(self, tokens, h_children, c_left, c_right, labels, num_trees):
        weights = self.weights
        x = tf.gather(weights.table, tokens)
        h_leaves, _ = leaf_state(tf.matmul(x, weights.kernel) + weights.leaf_bias())
        z = tf.matmul(h_children, weights.recurrent_kernel) + weights.inner_bias()
        h_inner, _ = inner_state(z, c_left, c_right)
        return weights.logits(tf.concat([h_leaves, h_inner], axis=0))

    def compute_gradients(self, tokens, h_children, c_left, c_right, labels, num_trees):
        states = [h_children, c_left, c_right]
        with tf.GradientTape() as tape:
            tape.watch(states)
            logits = self.compute_logits(tokens, *states, labels, num_trees)
            loss = nodes_loss(logits, labels, num_trees)
        return loss, tape.gradient(loss, self.trainable + states)
