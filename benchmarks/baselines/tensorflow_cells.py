"""The equations of `benchmarks.model` in TensorFlow."""

import tensorflow as tf

from benchmarks.model import weight_shapes


class Cell:
    """Weights of a model, as variables.

    A state is a tuple, of h or of h and c, `[nodes, units]` each; children's states are joined:
    `[nodes, 2 * units]`.
    """

    num_states = 1

    def __init__(self, model, values):
        self.units = values["output_kernel"].shape[0]
        self.table = tf.constant(values["table"])
        self.trained = {name: tf.Variable(values[name]) for name in weight_shapes(model, 1)}
        for name, variable in self.trained.items():
            setattr(self, name, variable)

    def start(self):
        """Computes results that need no node; called at the beginning of each step."""

    def affine(self, x, kernel, bias):
        return tf.matmul(x, kernel) + bias

    def logits(self, h):
        """`[nodes, units]` to `[nodes, classes]`."""
        return tf.matmul(h, self.output_kernel) + self.output_bias


class TreeRNN(Cell):
    def leaf(self, x):
        return (tf.tanh(self.affine(x, self.kernel, self.bias)),)

    def inner(self, h):
        return (tf.tanh(self.affine(h, self.recurrent_kernel, self.bias)),)


class RNTN(TreeRNN):
    def inner(self, h):
        joined = 2 * self.units
        half = tf.matmul(h, tf.reshape(self.tensor, [joined, joined * self.units]))
        half = tf.reshape(half, [-1, joined, self.units])
        forms = tf.linalg.matvec(half, h, transpose_a=True)
        return (tf.tanh(forms + self.affine(h, self.recurrent_kernel, self.bias)),)


class TreeLSTM(Cell):
    num_states = 2

    def start(self):
        self.inner_bias = tf.concat([self.bias, self.bias[3 * self.units :]], axis=0)

    def leaf(self, x):
        z = self.affine(x, self.kernel, self.bias[: 3 * self.units])
        i, o, u = tf.split(z, 3, axis=-1)
        c = tf.sigmoid(i) * tf.tanh(u)
        return tf.sigmoid(o) * tf.tanh(c), c

    def inner(self, h, c):
        z = self.affine(h, self.recurrent_kernel, self.inner_bias)
        i, o, u, f_1, f_2 = tf.split(z, 5, axis=-1)
        c_1, c_2 = tf.split(c, 2, axis=-1)
        c = tf.sigmoid(i) * tf.tanh(u) + tf.sigmoid(f_1) * c_1 + tf.sigmoid(f_2) * c_2
        return tf.sigmoid(o) * tf.tanh(c), c


CELLS = {"TreeRNN": TreeRNN, "RNTN": RNTN, "TreeLSTM": TreeLSTM}


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
