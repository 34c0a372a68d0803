"""Your own cell, trained on the built-in treebank.

A cell computes the state of a tree node from the states of its children. The layer
`kerasrec.layers.Recursive` applies a cell to trees, as `keras.layers.RNN` applies one to sequences.
Here every node has a label.
"""

from pathlib import Path

import keras
from keras import ops

from kerasrec.datasets import load_treebank
from kerasrec.layers import Recursive, RecursiveCell
from kerasrec.training import NodeAccuracy, TreeCrossentropy


@keras.saving.register_keras_serializable("examples")
class HighwayCell(RecursiveCell):
    """h = g * u + (1 - g) * (h_1 + h_2), with g = sigmoid(gate) and u = tanh(update)."""

    state_size = 32

    def build(self, input_shape):
        self.leaf = keras.layers.Dense(self.state_size, "tanh")
        self.gate = keras.layers.Dense(self.state_size, "sigmoid")
        self.update = keras.layers.Dense(self.state_size, "tanh")
        self.leaf.build(input_shape)
        self.gate.build((None, 2 * self.state_size))
        self.update.build((None, 2 * self.state_size))

    def call_leaf(self, inputs):
        hidden = self.leaf(inputs)
        return hidden, [hidden]

    def call(self, inputs, states):
        (left,), (right,) = states
        both = ops.concatenate([left, right], axis=-1)
        gate = self.gate(both)
        hidden = gate * self.update(both) + (1 - gate) * (left + right)
        return hidden, [hidden]


keras.utils.set_random_seed(0)
treebank = load_treebank(Path(__file__).resolve().parents[1] / "data" / "treebank")
tokens = keras.Input((None,), dtype="int32")
children = keras.Input((None, 2), dtype="int32")
x = keras.layers.Embedding(len(treebank.vocabulary), 32)(tokens)
hidden = Recursive(HighwayCell(), return_sequences=True)(x, children)
model = keras.Model((tokens, children), keras.layers.Dense(treebank.num_classes)(hidden))

model.compile(keras.optimizers.Adam(0.01), TreeCrossentropy("nodes"), metrics=[NodeAccuracy()])
before = model.evaluate(treebank.batches("dev", 100), verbose=0, return_dict=True)
training = treebank.batches("train", 25, shuffle=True, bucket_by_size=True)
model.fit(training.take(40), shuffle=False, verbose=0)
after = model.evaluate(treebank.batches("dev", 100), verbose=0, return_dict=True)
print(
    f"accuracy on all nodes of dev: {before['node_accuracy']:.0%} -> {after['node_accuracy']:.0%}"
)
