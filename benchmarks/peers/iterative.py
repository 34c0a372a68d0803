"""TensorFlow's iterative way: one `tf.while_loop` over the inner nodes, children first.

Step t computes the t-th inner node of every tree that has one; all leaves come before the loop.
Jeong et al. (2018), figure 1, do so for one tree; here trees are in step with each other.

Tried and slower: leaves and inner nodes in one loop over padded trees; all states in one tensor,
written with `tf.tensor_scatter_nd_update`; `tf.cond` between leaf and inner node for one tree.
"""

import numpy as np
import tensorflow as tf

from benchmarks.model import Weights, inner_state, leaf_state, nodes_loss
from benchmarks.peers.graph_peer import GraphPeer


class Iterative(GraphPeer):
    def __init__(self, values):
        self.weights = Weights(values)
        self.trainable = self.weights.trainable
        self.signature = [
            tf.TensorSpec([None], tf.int32, "tokens"),
            tf.TensorSpec([None, 2], tf.int32, "children"),
            tf.TensorSpec([None], tf.int32, "steps"),
            tf.TensorSpec([None], tf.int32, "labels"),
            tf.TensorSpec([], tf.int32, "num_trees"),
        ]
        self.build()

    def inputs(self, batch):
        """Numbers the nodes of the batch: leaves, then inner nodes by step.

        Returns words of leaves, children of inner nodes, the number of the first inner node of
        each step (and the number of nodes at the end), labels of all nodes, number of trees.
        """
        leaves = np.argwhere(batch.is_leaf)
        # In preorder a child follows its parent, so the reverse is an order to compute in.
        inner = [np.nonzero(children[:, 0] >= 0)[0][::-1] for children in batch.children]
        order, steps = leaves.tolist(), []
        for step in range(max(map(len, inner))):
            steps.append(len(order))
            order += [(tree, nodes[step]) for tree, nodes in enumerate(inner) if step < len(nodes)]
        steps.append(len(order))

        tree, node = np.array(order).T
        number = np.zeros(batch.tokens.shape, np.int32)
        number[tree, node] = np.arange(len(order))
        children = number[tree[:, np.newaxis], batch.children[tree, node]]
        return (
            tf.constant(batch.tokens[tree, node][: len(leaves)]),
            tf.constant(children[len(leaves) :]),
            tf.constant(steps),
            tf.constant(batch.labels[tree, node]),
            tf.constant(batch.num_trees),
        )

    def compute_logits(self, tokens, children, steps, labels, num_trees):
        weights = self.weights
        leaf_bias, inner_bias = weights.leaf_bias(), weights.inner_bias()
        num_leaves = tf.shape(tokens)[0]

        # Each element is the state of one node: its `h` and `c`, side by side.
        states = tf.TensorArray(
            tf.float32,
            tf.shape(labels)[0],
            clear_after_read=False,
            element_shape=[2 * weights.units],
        )
        x = tf.gather(weights.table, tokens)
        h, c = leaf_state(tf.matmul(x, weights.kernel) + leaf_bias)
        states = states.scatter(tf.range(num_leaves), tf.concat([h, c], 1))

        def step(t, states):
            first, last = steps[t], steps[t + 1]
            rows = children[first - num_leaves : last - num_leaves]
            h_left, c_left = tf.split(states.gather(rows[:, 0]), 2, axis=1)
            h_right, c_right = tf.split(states.gather(rows[:, 1]), 2, axis=1)
            z = tf.matmul(tf.concat([h_left, h_right], 1), weights.recurrent_kernel)
            h, c = inner_state(z + inner_bias, c_left, c_right)
            return t + 1, states.scatter(tf.range(first, last), tf.concat([h, c], 1))

        num_steps = tf.shape(steps)[0] - 1
        _, states = tf.while_loop(lambda t, _: t < num_steps, step, (0, states))
        return weights.logits(states.stack()[:, : weights.units])

    def compute_loss(self, tokens, children, steps, labels, num_trees):
        logits = self.compute_logits(tokens, children, steps, labels, num_trees)
        return nodes_loss(logits, labels, num_trees)
