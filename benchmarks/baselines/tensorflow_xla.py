"""TensorFlow, level by level, compiled by XLA: the program of `jax_levels.py`, in TensorFlow.

It is written by hand for this model, without recursion, and its order is made in NumPy. It thus
shows how much of the distance to JAX is due to TensorFlow.

TensorFlow's gradient of a gather in a loop makes a buffer of all nodes in each step. Here, instead,
the buffer of states passes through each read and each write, and their gradients change one buffer
in place.
"""

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from benchmarks.baselines.graph_baseline import GraphBaseline
from benchmarks.baselines.padded_levels import padded_levels
from benchmarks.baselines.tensorflow_cells import CELLS, nodes_loss


class TensorFlowXla(GraphBaseline):
    jit_compile = True
    signature = None  # A step is compiled once for each size, in the first turn.

    def __init__(self, model, values):
        self.cell = CELLS[model](model, values)
        self.trained = self.cell.trained
        self.build()

    def inputs(self, batch):
        return tuple(map(tf.constant, padded_levels(batch)))

    def logits(self, tokens, children, labels, num_trees):
        cell = self.cell
        cell.start()
        num_leaves, (num_steps, width, _) = len(tokens), children.shape
        of_leaves = cell.leaf(tf.gather(cell.table, tokens))

        def step(at, states):
            places = tf.reshape(tf.gather(children, at), [-1])
            pairs = [read(state, places) for state in states]
            below = (tf.reshape(rows, [width, -1]) for rows, _ in pairs)
            found = zip(pairs, cell.inner(*below), strict=True)
            first = num_leaves + width * at
            return at + 1, tuple(write(state, rows, first) for (_, state), rows in found)

        _, states = tf.while_loop(
            lambda at, _: at < num_steps,
            step,
            (0, tuple(tf.pad(state, [[0, num_steps * width], [0, 0]]) for state in of_leaves)),
            maximum_iterations=num_steps,
        )
        return cell.logits(states[0])

    def node_logits(self, batch, inputs):
        _, _, labels, _ = inputs
        return self.logits(*inputs).numpy()[labels.numpy() >= 0]

    def loss(self, tokens, children, labels, num_trees):
        return nodes_loss(self.logits(tokens, children, labels, num_trees), labels, num_trees)


@tf.custom_gradient
def read(buffer, places):
    """Rows of a buffer, and the buffer."""

    def gradient(of_rows, of_buffer):
        return tf.tensor_scatter_nd_add(of_buffer, places[:, tf.newaxis], of_rows), None

    return (tf.gather(buffer, places), tf.identity(buffer)), gradient


@tf.custom_gradient
def write(buffer, rows, first):
    """The buffer with rows from `first` on."""

    def gradient(of_buffer):
        size = tf.constant(rows.shape.as_list())
        taken = xla.dynamic_slice(of_buffer, tf.stack([first, 0]), size)
        return put(of_buffer, tf.zeros_like(rows), first), taken, None

    return put(buffer, rows, first), gradient


def put(buffer, rows, first):
    return xla.dynamic_update_slice(buffer, rows, tf.stack([first, 0]))
