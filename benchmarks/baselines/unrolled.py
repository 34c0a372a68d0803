"""TensorFlow's unrolled graph: plain recursion in a `tf.function`, traced again for each tree.

Words and labels are tensors, but the shape of a tree is in Python, so a graph serves one shape. A
program with ever new trees makes a graph for each, which counts as its time.
"""

import numpy as np
import tensorflow as tf

from benchmarks.baselines.tensorflow_baseline import TensorFlowBaseline
from benchmarks.baselines.tensorflow_cells import CELLS, nodes_loss


class Unrolled(TensorFlowBaseline):
    # Making a graph takes a second.
    max_trees = 2

    def __init__(self, model, values):
        self.cell = CELLS[model](model, values)
        self.trained = self.cell.trained
        self.build()

    def inputs(self, batch):
        trees = []
        for tokens, children, labels, is_node in zip(*batch, batch.is_node, strict=True):
            children = children[is_node].tolist()
            trees.append((children, tf.constant(tokens[is_node]), tf.constant(labels[is_node])))
        return (trees,)

    def logits(self, trees):
        return [
            tf.function(self.tree_logits).get_concrete_function(children, tokens)(tokens)
            for children, tokens, _ in trees
        ]

    def node_logits(self, batch, inputs):
        return np.concatenate(self.logits(*inputs))

    def gradients(self, trees):
        loss, gradients = 0.0, dict.fromkeys(self.trained, 0.0)
        for children, tokens, labels in trees:
            step = tf.function(self.tree_gradients).get_concrete_function(children, tokens, labels)
            of_tree, gradients_of_tree = step(tokens, labels)
            loss += of_tree / len(trees)
            for name, gradient in gradients_of_tree.items():
                gradients[name] += gradient / len(trees)
        return loss, gradients

    def tree_gradients(self, children, tokens, labels):
        with tf.GradientTape() as tape:
            loss = nodes_loss(self.tree_logits(children, tokens), labels, 1)
        # A lone leaf has no use for some weights.
        zero = tf.UnconnectedGradients.ZERO
        return loss, tape.gradient(loss, self.trained, unconnected_gradients=zero)

    def tree_logits(self, children, tokens):
        """Logits of all nodes of one tree, in its order, `[nodes, classes]`."""
        cell = self.cell
        cell.start()
        outputs = [None] * len(children)

        def visit(node):
            left, right = children[node]
            if left < 0:
                state = cell.leaf(tf.gather(cell.table, tokens[node])[tf.newaxis])
            else:
                pairs = zip(visit(left), visit(right), strict=True)
                state = cell.inner(*(tf.concat(pair, axis=1) for pair in pairs))
            outputs[node] = state[0]
            return state

        visit(0)
        return cell.logits(tf.concat(outputs, axis=0))
