"""TreeLSTM: the N-ary tree-structured LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.lstm_cell import LSTMCell
from kerasrec.layers.recursive import CellLayer


@keras.saving.register_keras_serializable("kerasrec")
class TreeLSTMCell(LSTMCell):
    """The N-ary Tree-LSTM of Tai et al. 2015, section 3.2, at one tree node.

    With z = [h_1, .., h_arity] recurrent_kernel + x kernel + bias, its columns split into the gates
    i, o, u and one forget gate f_k for each child:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    A leaf has no children, so its gates depend on x alone. An inner node has an x only with
    `inner_inputs` (in a constituency tree words stand at the leaves). All forget gates share one
    kernel and one bias, as in equation 10.

    Weights: `kernel` `[features, 3 * units]` in the order i, o, u (with `inner_inputs`
    `[features, 4 * units]`, f last); `recurrent_kernel` `[arity * units, (3 + arity) * units]` in
    the order i, o, u, f_1 .. f_arity; `bias` `[4 * units]` in the order i, o, u, f. States: h, c.

    Args:
        units: positive int, size of h and c.
        **kwargs: of `LSTMCell`, `KernelCell` and `RecursiveCell`.
    """

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 4 if self.inner_inputs else 3
        self.add_kernels(
            input_shape[-1], gates * self.units, (3 + self.arity) * self.units, 4 * self.units
        )
        self.built = True

    def _bias_with_open_forget_gates(self, shape: Any, dtype: Any = None) -> Any:
        others = self.bias_initializer((3 * self.units,), dtype=dtype)
        return ops.concatenate([others, ops.ones((self.units,), dtype=dtype)], axis=0)

    def call(self, inputs: Any, states: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        """An inner node; see `RecursiveCell.call`."""
        units = self.units
        hidden = ops.concatenate([child[0] for child in states], -1)
        total = ops.matmul(hidden, self.recurrent_kernel)
        if inputs is not None:
            total = total + self._for_each_child(ops.matmul(inputs, self.kernel))
        if self.bias is not None:
            total = total + self._for_each_child(self.bias)
        out_in, update, forget = tf.split(total, [2 * units, units, self.arity * units], -1)
        memories = ops.concatenate([child[1] for child in states], -1)
        carry = tf.split(self.recurrent_activation(forget) * memories, self.arity, -1)
        return self._new_state(out_in, update, carry)

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """A leaf; see `RecursiveCell.call_leaf`."""
        units = self.units
        kernel = self.kernel[:, : 3 * units] if self.inner_inputs else self.kernel
        total = ops.matmul(inputs, kernel)
        if self.bias is not None:
            total = total + self.bias[: 3 * units]
        out_in, update = tf.split(total, [2 * units, units], -1)
        return self._new_state(out_in, update, [])

    def _new_state(self, out_in: Any, update: Any, carry: list[Any]) -> tuple[Any, list[Any]]:
        in_gate, out_gate = tf.split(self.recurrent_activation(out_in), 2, -1)
        memory = tf.add_n([in_gate * self.activation(update), *carry])
        hidden = out_gate * self.activation(memory)
        return hidden, [hidden, memory]

    def _for_each_child(self, gates: Any) -> Any:
        """Columns i, o, u, f as i, o, u and f once for each child."""
        others, forget = tf.split(gates, [3 * self.units, self.units], -1)
        return ops.concatenate([others] + [forget] * self.arity, -1)


@keras.saving.register_keras_serializable("kerasrec")
class TreeLSTM(CellLayer):
    """The N-ary Tree-LSTM of Tai et al. 2015, section 3.2, over trees.

    See `TreeLSTMCell` for the equations and `Recursive` for inputs and outputs.

    Args:
        units: positive int, size of h and c.
        return_sequences: whether to return h of all tree nodes.
        return_state: whether to return the root's h and c beside the output.
        **kwargs: of `TreeLSTMCell` and `Recursive`.
    """

    cell_class = TreeLSTMCell
