"""Plain eager recursion, one tree after another: the first way to write it."""

import numpy as np
import tensorflow as tf

from benchmarks.baselines.tensorflow_baseline import TensorFlowBaseline
from benchmarks.baselines.tensorflow_cells import CELLS, nodes_loss


class Eager(TensorFlowBaseline):
    # It takes seconds where the others take milliseconds.
    max_trees = 10

    def __init__(self, model, values):
        self.cell = CELLS[model](model, values)
        self.trained = self.cell.trained
        self.build()

    def inputs(self, batch):
        trees = []
        for tokens, children, labels, is_node in zip(*batch, batch.is_node, strict=True):
            # Lists, since Python is slow to read single numbers of an array.
            tokens, children = tokens[is_node].tolist(), children[is_node].tolist()
            trees.append((tokens, children, tf.constant(labels[is_node])))
        return (trees,)

    def logits(self, trees):
        return [self.tree_logits(tokens, children) for tokens, children, _ in trees]

    def node_logits(self, batch, inputs):
        return np.concatenate(self.logits(*inputs))

    def loss(self, trees):
        return tf.add_n(
            [
                nodes_loss(self.tree_logits(tokens, children), labels, len(trees))
                for tokens, children, labels in trees
            ]
        )

    def tree_logits(self, tokens, children):
        """Logits of all nodes of one tree, in its order, `[nodes, classes]`."""
        cell = self.cell
        cell.start()
        outputs = [None] * len(tokens)

        def visit(node):
            left, right = children[node]
            if left < 0:
                state = cell.leaf(cell.table[tokens[node]][tf.newaxis])
            else:
                pairs = zip(visit(left), visit(right), strict=True)
                state = cell.inner(*(tf.concat(pair, axis=1) for pair in pairs))
            outputs[node] = state[0]
            return state

        visit(0)
        return cell.logits(tf.concat(outputs, axis=0))
