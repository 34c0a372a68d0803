"""The model that every peer computes: a binary TreeLSTM and a classifier on every tree node.

Equations: Tai, Socher and Manning (2015), section 3.2, with inputs at the leaves only:

    leaf:   [i, o, u] = x K + [b_i, b_o, b_u]
            c = sigmoid(i) tanh(u)
    inner:  [i, o, u, f_left, f_right] = [h_left, h_right] R + [b_i, b_o, b_u, b_f, b_f]
            c = sigmoid(i) tanh(u) + sigmoid(f_left) c_left + sigmoid(f_right) c_right
    both:   h = sigmoid(o) tanh(c)
            logits = h W + b
"""

import numpy as np
import tensorflow as tf

from benchmarks.trees import NUM_CLASSES


def initial_values(num_words, features, units, seed=0):
    """Values of the word table and of the weights, as NumPy arrays by name."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    return {
        "table": rng.uniform(-1.0, 1.0, (num_words, features)).astype(np.float32),
        "kernel": normal(features, 3 * units),
        "recurrent_kernel": normal(2 * units, 5 * units),
        "bias": 0.1 * normal(4 * units),
        "output_kernel": normal(units, NUM_CLASSES),
        "output_bias": np.zeros(NUM_CLASSES, np.float32),
    }


WEIGHT_NAMES = ("kernel", "recurrent_kernel", "bias", "output_kernel", "output_bias")


class Weights:
    """The fixed word table and the five trained weights, as TensorFlow variables."""

    def __init__(self, values):
        self.units = values["output_kernel"].shape[0]
        self.table = tf.constant(values["table"])
        for name in WEIGHT_NAMES:
            setattr(self, name, tf.Variable(values[name], name=name))

    @property
    def trainable(self):
        return [getattr(self, name) for name in WEIGHT_NAMES]

    def leaf_bias(self):
        """`[b_i, b_o, b_u]`."""
        return self.bias[: 3 * self.units]

    def inner_bias(self):
        """`[b_i, b_o, b_u, b_f, b_f]`."""
        return tf.concat([self.bias, self.bias[3 * self.units :]], axis=0)

    def logits(self, h):
        """`[nodes, units]` to `[nodes, classes]`."""
        return tf.matmul(h, self.output_kernel) + self.output_bias


def leaf_state(z):
    """Gates `[nodes, 3 * units]` of leaves to their `h` and `c`, `[nodes, units]` each."""
    i, o, u = tf.split(z, 3, axis=-1)
    c = tf.sigmoid(i) * tf.tanh(u)
    return tf.sigmoid(o) * tf.tanh(c), c


def inner_state(z, c_left, c_right):
    """Gates `[nodes, 5 * units]` of inner nodes and the children's `c` to `h` and `c`."""
    i, o, u, f_left, f_right = tf.split(z, 5, axis=-1)
    c = tf.sigmoid(i) * tf.tanh(u) + tf.sigmoid(f_left) * c_left + tf.sigmoid(f_right) * c_right
    return tf.sigmoid(o) * tf.tanh(c), c


def nodes_loss(logits, labels, num_trees):
    """Cross-entropy, summed over the nodes of a tree, mean over trees.

    Args:
        logits: float `[..., classes]`.
        labels: int32 `[...]`, -1 at padding, which counts nothing.
        num_trees: trees of the batch.
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(labels, 0), logits)
    losses = tf.where(labels >= 0, losses, 0.0)
    return tf.reduce_sum(losses) / tf.cast(num_trees, losses.dtype)
