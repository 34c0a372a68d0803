"""TensorFlow's iterative way: one `tf.while_loop` over the inner nodes, children first.

Step t computes the t-th inner node of every tree that has one; all leaves come before the loop.
Jeong et al. (2018), figure 1, do so for one tree; here trees are in step with each other.

Tried and slower: leaves and inner nodes in one loop over padded trees; all states in one tensor,
written with `tf.tensor_scatter_nd_update`; `tf.cond` between leaf and inner node for one tree.
"""

import numpy as np
import tensorflow as tf

from benchmarks.baselines.graph_baseline import GraphBaseline
from benchmarks.baselines.tensorflow_cells import CELLS, nodes_loss


class Iterative(GraphBaseline):
    def __init__(self, model, values):
        self.cell = CELLS[model](model, values)
        self.trained = self.cell.trained
        self.signature = [
            tf.TensorSpec([None], tf.int32, "tokens"),
            tf.TensorSpec([None, 2], tf.int32, "children"),
            tf.TensorSpec([None], tf.int32, "steps"),
            tf.TensorSpec([None], tf.int32, "labels"),
            tf.TensorSpec([], tf.int32, "num_trees"),
        ]
        self.build()

    def steps(self, batch):
        """Tree and number of each inner node, and the step that computes it."""
        # In preorder a child follows its parent, so the reverse is an order to compute in.
        is_inner = (batch.children[..., 0] >= 0)[:, ::-1]
        tree, place = np.nonzero(is_inner)
        return tree, is_inner.shape[1] - 1 - place, np.cumsum(is_inner, axis=1)[tree, place] - 1

    def inputs(self, batch):
        """Numbers the nodes of the batch: leaves, then inner nodes by step.

        Returns words of leaves, children of inner nodes, the number of the first inner node of
        each step (and the number of nodes at the end), labels of all nodes, number of trees.
        """
        inner_tree, inner, step = self.steps(batch)
        by_step = np.argsort(step, kind="stable")
        leaf_tree, leaf = np.nonzero(batch.is_leaf)
        tree = np.concatenate([leaf_tree, inner_tree[by_step]])
        node = np.concatenate([leaf, inner[by_step]])
        steps = np.concatenate([[len(leaf)], len(leaf) + np.cumsum(np.bincount(step))])

        number = np.zeros(batch.tokens.shape, np.int32)
        number[tree, node] = np.arange(len(tree))
        parents = tree[len(leaf) :], node[len(leaf) :]
        children = number[parents[0][:, np.newaxis], batch.children[parents]]
        return (
            tf.constant(batch.tokens[leaf_tree, leaf]),
            tf.constant(children),
            tf.constant(steps, tf.int32),
            tf.constant(batch.labels[tree, node]),
            tf.constant(batch.num_trees),
        )

    def logits(self, tokens, children, steps, labels, num_trees):
        cell = self.cell
        cell.start()
        num_leaves = tf.shape(tokens)[0]

        # Each element is the state of one node: its h, followed by its c.
        states = tf.TensorArray(
            tf.float32,
            tf.shape(labels)[0],
            clear_after_read=False,
            element_shape=[cell.num_states * cell.units],
        )
        state = cell.leaf(tf.gather(cell.table, tokens))
        states = states.scatter(tf.range(num_leaves), tf.concat(state, 1))

        def step(t, states):
            first, last = steps[t], steps[t + 1]
            rows = children[first - num_leaves : last - num_leaves]
            left, right = (
                tf.split(states.gather(rows[:, side]), cell.num_states, axis=1) for side in (0, 1)
            )
            joined = [tf.concat(pair, 1) for pair in zip(left, right, strict=True)]
            state = tf.concat(cell.inner(*joined), 1)
            return t + 1, states.scatter(tf.range(first, last), state)

        num_steps = tf.shape(steps)[0] - 1
        _, states = tf.while_loop(lambda t, _: t < num_steps, step, (0, states))
        return cell.logits(states.stack()[:, : cell.units])

    def loss(self, tokens, children, steps, labels, num_trees):
        logits = self.logits(tokens, children, steps, labels, num_trees)
        return nodes_loss(logits, labels, num_trees)
