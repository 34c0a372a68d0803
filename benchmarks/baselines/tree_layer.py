"""kerasrec: a Keras model with one tree layer."""

import keras
import numpy as np
import tensorflow as tf

from benchmarks.baselines.graph_baseline import GraphBaseline
from benchmarks.baselines.tensorflow_cells import nodes_loss
from benchmarks.batch import NUM_CLASSES
from benchmarks.model import weight_shapes
from kerasrec.layers import RNTN, TreeLSTM, TreeRNN

LAYERS = {"TreeRNN": TreeRNN, "RNTN": RNTN, "TreeLSTM": TreeLSTM}


class TreeLayer(GraphBaseline):
    looks_up = True
    recompute = False
    engine = "auto"

    def __init__(self, model, values):
        tokens = keras.Input([None], dtype="int32")
        children = keras.Input([None, 2], dtype="int32")
        embedding = keras.layers.Embedding(*values["table"].shape, trainable=False)
        units = values["output_kernel"].shape[0]
        tree_layer = LAYERS[model](
            units,
            return_sequences=True,
            recompute=self.recompute,
            engine=self.engine,
            embedding=embedding if self.looks_up else None,
        )
        x = tokens if self.looks_up else embedding(tokens)
        dense = keras.layers.Dense(NUM_CLASSES)
        self.model = keras.Model([tokens, children], dense(tree_layer(x, children)))

        embedding.embeddings.assign(values["table"])
        weights = {"output_kernel": dense.kernel, "output_bias": dense.bias}
        self.trained = {
            name: weights[name] if name in weights else getattr(tree_layer.cell, name)
            for name in weight_shapes(model, 1)
        }
        for name, weight in self.trained.items():
            weight.assign(values[name])
        self.signature = [
            tf.TensorSpec([None, None], tf.int32, "tokens"),
            tf.TensorSpec([None, None, 2], tf.int32, "children"),
            tf.TensorSpec([None, None], tf.int32, "labels"),
        ]
        self.build()

    def inputs(self, batch):
        return tuple(tf.constant(array) for array in batch)

    def logits(self, tokens, children, labels):
        return self.model([tokens, children])

    def node_logits(self, batch, inputs):
        return self.logits(*inputs).numpy()[batch.is_node]

    def loss(self, tokens, children, labels):
        logits = self.model([tokens, children], training=True)
        return nodes_loss(logits, labels, tf.shape(labels)[0])


class TreeLayerOfVectors(TreeLayer):
    looks_up = False


class RecomputingTreeLayer(TreeLayer):
    recompute = True


class CompiledTreeLayer(TreeLayer):
    engine = "compiled"


class TreeLayerWithinXla(TreeLayer):
    """The whole of inference, and the whole training step, compiled by XLA.

    XLA compiles again for each number of nodes, in the first turn. Batches are therefore padded to
    powers of two, and padding is timed.
    """

    jit_compile = True

    def inputs(self, batch):
        nodes = 1 << (batch.tokens.shape[1] - 1).bit_length()
        pairs = zip(batch, (0, -1, -1), strict=True)
        return tuple(tf.constant(_padded(array, nodes, padding)) for array, padding in pairs)

    def node_logits(self, batch, inputs):
        logits = self.logits(*inputs).numpy()
        return logits[:, : batch.is_node.shape[1]][batch.is_node]


def _padded(array, nodes, padding):
    found = np.full([array.shape[0], nodes, *array.shape[2:]], padding, array.dtype)
    found[:, : array.shape[1]] = array
    return found
