"""The waves of kerasrec, unrolled by hand in a graph for each batch: what it costs that nodes wait.

The graph is for just this batch, as in *unrolled*, so that the time is not that of a program for
any trees: there is no loop, no padding, and nothing to find out about trees. As in kerasrec, all
leaves are computed at once, the gradient of a weight is one product for all nodes, and weights are
transposed once.
"""

import functools

import numpy as np
import tensorflow as tf

from benchmarks.baselines.levels import find_levels
from benchmarks.baselines.tensorflow_baseline import TensorFlowBaseline
from benchmarks.baselines.tensorflow_cells import CELLS, nodes_loss


class UnrolledWaves(TensorFlowBaseline):
    inputs_count = False

    def __init__(self, model, values):
        self.cell = CELLS[model](model, values)
        self.cell.affine = self._affine
        self.trained = self.cell.trained
        self._inputs = {}
        self.build()

    def inputs(self, batch):
        """Graphs of the batch by method, made once, and their arguments."""
        key = batch.tokens.tobytes(), batch.children.tobytes()
        if key not in self._inputs:
            self._inputs[key] = self._new_inputs(batch)
        return self._inputs[key]

    def _new_inputs(self, batch):
        levels = find_levels(batch)
        methods = {"logits": self._logits, "gradients": self._gradients, "train": self._train}
        graphs = {
            name: tf.function(functools.partial(method, levels)) for name, method in methods.items()
        }
        return graphs, (tf.constant(levels.tokens), tf.constant(levels.labels), batch.num_trees)

    def logits(self, graphs, given):
        return graphs["logits"](*given)

    def gradients(self, graphs, given):
        return graphs["gradients"](*given)

    def train(self, graphs, given):
        return graphs["train"](*given)

    def _logits(self, levels, tokens, labels, num_trees):
        """Logits of all nodes by level, roots first."""
        cell = self.cell
        cell.start()
        self._read = {}
        pairs = zip(levels.sizes, levels.inner, strict=True)
        num_leaves = [size - len(inner) for size, inner in pairs]
        leaves = [tf.split(state, num_leaves) for state in cell.leaf(tf.gather(cell.table, tokens))]
        below, outputs = (), []
        for level in reversed(range(len(levels.sizes))):
            inner, states = levels.inner[level], [state[level] for state in leaves]
            if len(inner):
                joined = (tf.reshape(state, [len(inner), 2 * cell.units]) for state in below)
                leaf = np.setdiff1d(np.arange(levels.sizes[level]), inner)
                states = [
                    tf.dynamic_stitch([leaf, inner], pair)
                    for pair in zip(states, cell.inner(*joined), strict=True)
                ]
            below = states
            outputs.append(states[0])
        return cell.logits(tf.concat(outputs[::-1], 0))

    def _affine(self, x, kernel, bias):
        """Computes what the cell does, and keeps the operands of the gradient of the kernel."""
        (name,) = (name for name, weight in self.trained.items() if weight is kernel)
        weight, bias = tf.convert_to_tensor(kernel), tf.convert_to_tensor(bias)
        _, transposed, read = self._read.setdefault(name, (bias, tf.transpose(weight), []))

        @tf.custom_gradient
        def affine(x):
            def gradient(cotangent):
                read.append((x, cotangent))
                return tf.matmul(cotangent, transposed)

            return tf.matmul(x, weight) + bias, gradient

        return affine(x)

    def _gradients(self, levels, tokens, labels, num_trees):
        with tf.GradientTape(persistent=True) as tape:
            logits = self._logits(levels, tokens, labels, num_trees)
            loss = nodes_loss(logits, labels, num_trees)
        # Those of kernels, and of the biases next to them, are added up below.
        found = tape.gradient(loss, self.trained)
        biases, sums = [], []
        for name, (bias, _, read) in self._read.items():
            x, cotangent = (tf.concat(parts, 0) for parts in zip(*read, strict=True))
            found[name] = tf.matmul(x, cotangent, transpose_a=True)
            biases.append(bias)
            sums.append(tf.reduce_sum(cotangent, 0))
        found["bias"] = tape.gradient(biases, self.trained["bias"], sums)
        return loss, found

    def _train(self, *inputs):
        loss, gradients = self._gradients(*inputs)
        self.optimizer.apply([gradients[name] for name in self.trained], self.trained.values())
        return loss
