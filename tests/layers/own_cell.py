"""A cell of a user's own, in a module that a fresh process can import."""

import keras
from keras import ops

from kerasrec.layers import RecursiveCell


@keras.saving.register_keras_serializable("tests")
class GatedCell(RecursiveCell):
    """Gates between its children and something new; its second state counts leaves.

        g, u = sigmoid(gate([x, h_1, ..])), tanh(update([x, h_1, ..]))
        h    = norm(g * u + (1 - g) * mean(h_1, ..)),   n = sum of n_k, 1 at a leaf

    Args:
        units: size of h.
        **kwargs: of `RecursiveCell`.
    """

    def __init__(self, units, **kwargs):
        super().__init__(read_inner_inputs=True, **kwargs)
        self.units = units
        self.state_size = [units, 1]
        dtype = self.dtype_policy
        self.gate = keras.layers.Dense(units, activation="sigmoid", dtype=dtype)
        self.update = keras.layers.Dense(units, activation="tanh", dtype=dtype)
        self.norm = keras.layers.LayerNormalization(dtype=dtype)

    def build(self, input_shape):
        joined = (None, input_shape[-1] + self.arity * self.units)
        self.gate.build(joined)
        self.update.build(joined)
        self.norm.build((None, self.units))
        self.built = True

    def call(self, inputs, states):
        hidden = [child[0] for child in states]
        joined = ops.concatenate([inputs, *hidden], axis=-1)
        gate = self.gate(joined)
        new = gate * self.update(joined) + (1 - gate) * sum(hidden) / self.arity
        hidden = self.norm(new)
        return hidden, [hidden, sum(child[1] for child in states)]

    def call_leaf(self, inputs):
        _, (hidden, count) = super().call_leaf(inputs)
        return hidden, [hidden, ops.ones_like(count)]
