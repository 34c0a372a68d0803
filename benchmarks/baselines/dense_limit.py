"""The same arithmetic without dependencies: the time that no recursion of these ops can beat.

All leaves are one batch and all inner nodes another, with random numbers instead of the states of
children. Gradients are also taken with respect to these states, so the backward pass has every
product of the real one. The losses mean nothing.
"""

import numpy as np
import tensorflow as tf

from benchmarks.baselines.graph_baseline import GraphBaseline
from benchmarks.baselines.tensorflow_cells import CELLS, nodes_loss


class DenseLimit(GraphBaseline):
    inputs_count = False
    is_model = False

    def __init__(self, model, values):
        self.cell = CELLS[model](model, values)
        self.trained = self.cell.trained
        state = tf.TensorSpec([None, 2 * self.cell.units], tf.float32)
        self.signature = [
            tf.TensorSpec([None], tf.int32, "tokens"),
            (state,) * self.cell.num_states,
            tf.TensorSpec([None], tf.int32, "labels"),
            tf.TensorSpec([], tf.int32, "num_trees"),
        ]
        self.build()

    def inputs(self, batch):
        leaves, inner = batch.is_leaf, batch.is_node & ~batch.is_leaf
        rng = np.random.default_rng(0)
        states = tuple(
            tf.constant(0.1 * rng.standard_normal((inner.sum(), 2 * self.cell.units)), tf.float32)
            for _ in range(self.cell.num_states)
        )
        labels = np.concatenate([batch.labels[leaves], batch.labels[inner]])
        num_trees = tf.constant(batch.num_trees)
        return tf.constant(batch.tokens[leaves]), states, tf.constant(labels), num_trees

    def logits(self, tokens, states, labels, num_trees):
        self.cell.start()
        h_leaves, *_ = self.cell.leaf(tf.gather(self.cell.table, tokens))
        h_inner, *_ = self.cell.inner(*states)
        return self.cell.logits(tf.concat([h_leaves, h_inner], axis=0))

    def loss(self, tokens, states, labels, num_trees):
        return nodes_loss(self.logits(tokens, states, labels, num_trees), labels, num_trees)

    def gradients(self, tokens, states, labels, num_trees):
        with tf.GradientTape() as tape:
            tape.watch(states)
            loss = self.loss(tokens, states, labels, num_trees)
        return loss, tape.gradient(loss, {**self.trained, "states": states})

    def train(self, *inputs):
        loss, gradients = self.gradients(*inputs)
        self.optimizer.apply([gradients[name] for name in self.trained], self.trained.values())
        # TensorFlow removes results that are not returned from the graph.
        return loss, gradients["states"]
