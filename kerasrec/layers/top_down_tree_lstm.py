"""TopDownTreeLSTM: an LSTM for each kind of edge, from parents to children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.lstm_cell import LSTMCell
from kerasrec.layers.recursive import CellLayer
from kerasrec.layers.top_down import TopDown, TopDownCell


@keras.saving.register_keras_serializable("kerasrec")
class TopDownTreeLSTMCell(LSTMCell, TopDownCell):
    """The top-down Tree-LSTM of Zhang et al. 2016, section 3, from one tree node to a child.

    A child in slot k is reached by the LSTM number k. With
    z = x kernel_k + h recurrent_kernel_k + bias_k, its columns split into i, f, u, o:

        c' = sigmoid(f) * c + sigmoid(i) * tanh(u)
        h' = sigmoid(o) * tanh(c')

    where h and c are the parent's and x is what the parent (or, with `reads="node"`, the child)
    has for inputs.

    With the four slots of `kerasrec.datasets.encode_left_right` these are the paper's GEN-L, GEN-R,
    GEN-NX-L and GEN-NX-R: first dependents and next siblings, to the left and to the right.

    Weights: `kernel` `[arity * features, 4 * units]` and `recurrent_kernel`
    `[arity * units, 4 * units]`, rows by slot, columns in the order i, f, u, o; `bias`
    `[arity * 4 * units]`, by slot, each in this order. With `shares_weights` there is one LSTM for
    all slots, and one instead of arity here. States: h, c.

    Args:
        units: positive int, size of h and c.
        **kwargs: of `LSTMCell`, `KernelCell` and `TopDownCell`.
    """

    needs_arity = False  # `children` tell it.

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 4 * self.units
        self._num_features: Any = input_shape[-1]
        self.add_kernels(self.num_slots * self._num_features, gates, gates, self.num_slots * gates)
        self.built = True

    def _bias_with_open_forget_gates(self, shape: Any, dtype: Any = None) -> Any:
        units = self.units
        parts = []
        for _ in range(self.num_slots):
            parts += [
                self.bias_initializer((units,), dtype=dtype),
                ops.ones((units,), dtype=dtype),
                self.bias_initializer((2 * units,), dtype=dtype),
            ]
        return ops.concatenate(parts, axis=0)

    def call(self, inputs: Any, states: Sequence[Any], slot: int = 0) -> tuple[Any, list[Any]]:
        """The children in one slot; see `TopDownCell.call`."""
        hidden, memory = states
        total = ops.matmul(inputs, _rows(self.kernel, slot, self._num_features))
        total = total + ops.matmul(hidden, _rows(self.recurrent_kernel, slot, self.units))
        if self.bias is not None:
            total = total + _rows(self.bias, slot, 4 * self.units)
        in_gate, forget, update, out = tf.split(total, 4, -1)
        memory = self.recurrent_activation(forget) * memory
        memory = memory + self.recurrent_activation(in_gate) * self.activation(update)
        hidden = self.recurrent_activation(out) * self.activation(memory)
        return hidden, [hidden, memory]


@keras.saving.register_keras_serializable("kerasrec")
class TopDownTreeLSTM(CellLayer, TopDown):
    """The top-down Tree-LSTM of Zhang et al. 2016 over given trees (TD-TreeLSTM).

    See `TopDownTreeLSTMCell` for the equations and `TopDown` for inputs and outputs. The state of a
    tree node is made from its ancestors in the encoding alone, so it may predict the node itself.

    Args:
        units: positive int, size of h and c.
        return_sequences: whether to return h of all tree nodes.
        return_state: whether to return the root's h and c beside the output.
        **kwargs: of `TopDownTreeLSTMCell` and `TopDown`.
    """

    cell_class = TopDownTreeLSTMCell

    def __init__(
        self,
        units: int,
        return_sequences: bool = True,
        return_state: bool = False,
        **kwargs: Any,
    ):
        super().__init__(units, return_sequences, return_state, **kwargs)


def _rows(weight: Any, slot: int, size: int) -> Any:
    return weight[slot * size : (slot + 1) * size]
