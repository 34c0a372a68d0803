"""kerasrec: a Keras model with one tree layer."""

import keras
import tensorflow as tf

from benchmarks.model import WEIGHT_NAMES, nodes_loss
from benchmarks.peers.graph_peer import GraphPeer
from benchmarks.trees import NUM_CLASSES
from kerasrec.layers import TreeLSTM


class TreeLayer(GraphPeer):
    def __init__(self, values):
        tokens = keras.Input([None], dtype="int32")
        children = keras.Input([None, 2], dtype="int32")
        embedding = keras.layers.Embedding(*values["table"].shape, trainable=False)
        tree_lstm = TreeLSTM(values["output_kernel"].shape[0], return_sequences=True)
        dense = keras.layers.Dense(NUM_CLASSES)
        self.model = keras.Model([tokens, children], dense(tree_lstm(embedding(tokens), children)))

        weights = {
            "table": embedding.embeddings,
            "kernel": tree_lstm.cell.kernel,
            "recurrent_kernel": tree_lstm.cell.recurrent_kernel,
            "bias": tree_lstm.cell.bias,
            "output_kernel": dense.kernel,
            "output_bias": dense.bias,
        }
        for name, weight in weights.items():
            weight.assign(values[name])
        self.trainable = [weights[name] for name in WEIGHT_NAMES]
        self.signature = [
            tf.TensorSpec([None, None], tf.int32, "tokens"),
            tf.TensorSpec([None, None, 2], tf.int32, "children"),
            tf.TensorSpec([None, None], tf.int32, "labels"),
        ]
        self.build()

    def inputs(self, batch):
        return tuple(tf.constant(a) for a in (batch.tokens, batch.children, batch.labels))

    def compute_logits(self, tokens, children, labels):
        return self.model([tokens, children])

    def compute_loss(self, tokens, children, labels):
        logits = self.model([tokens, children], training=True)
        return nodes_loss(logits, labels, tf.shape(labels)[0])
