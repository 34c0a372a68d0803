"""Plain eager recursion, one tree after another: the way one writes it first."""

import keras
import tensorflow as tf

from benchmarks.model import Weights, inner_state, leaf_state, nodes_loss


class Eager:
    def __init__(self, values):
        self.weights = Weights(values)
        self.trainable = self.weights.trainable
        self.optimizer = keras.optimizers.Adagrad(learning_rate=0.01)
        self.optimizer.build(self.trainable)

    def inputs(self, batch):
        trees = []
        for tokens, children, labels, is_node in zip(*batch, batch.is_node, strict=True):
            # Lists, since Python is slow to read single numbers of an array.
            tokens, children = tokens[is_node].tolist(), children[is_node].tolist()
            trees.append((tokens, children, tf.constant(labels[is_node])))
        return (trees,)

    def logits(self, trees):
        return [self.tree_logits(tokens, children) for tokens, children, _ in trees]

    def gradients(self, trees):
        with tf.GradientTape() as tape:
            losses = [
                nodes_loss(self.tree_logits(tokens, children), labels, len(trees))
                for tokens, children, labels in trees
            ]
            loss = tf.add_n(losses)
        return loss, tape.gradient(loss, self.trainable)

    def train(self, trees):
        loss, gradients = self.gradients(trees)
        self.optimizer.apply(gradients, self.trainable)
        return loss

    def tree_logits(self, tokens, children):
        """Logits of all nodes of one tree, in its order, `[nodes, classes]`."""
        weights = self.weights
        leaf_bias, inner_bias = weights.leaf_bias(), weights.inner_bias()
        states = [None] * len(tokens)

        def visit(node):
            left, right = children[node]
            if left < 0:
                x = weights.table[tokens[node]][tf.newaxis]
                h, c = leaf_state(tf.matmul(x, weights.kernel) + leaf_bias)
            else:
                h_left, c_left = visit(left)
                h_right, c_right = visit(right)
                h_children = tf.concat([h_left, h_right], axis=1)
                z = tf.matmul(h_children, weights.recurrent_kernel) + inner_bias
                h, c = inner_state(z, c_left, c_right)
            states[node] = h
            return h, c

        visit(0)
        return weights.logits(tf.concat(states, axis=0))
