"""TreeGRU: the N-ary tree-structured gated recurrent unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.cell import KernelCell
from kerasrec.layers.recursive import CellLayer


@keras.saving.register_keras_serializable("kerasrec")
class TreeGRUCell(KernelCell):
    """A tree-structured gated recurrent unit at one tree node.

    The Tree-GRU of Zhou, Liu and Pan 2016, Modelling Sentence Pairs with Tree-structured Attentive
    Encoder, https://aclanthology.org/C16-1274/, with a reset gate for each child and the sum of the
    children where a GRU has the state before; but as in the N-ary Tree-LSTM (Tai et al. 2015,
    section 3.2), each child has matrices of its own. U, W and b are parts of recurrent_kernel,
    kernel and bias:

        z   = sigmoid([h_1, .., h_arity] U_z + x W_z + b_z)
        r_k = sigmoid([h_1, .., h_arity] U_rk + x W_r + b_r)
        u   = tanh([r_1 * h_1, .., r_arity * h_arity] U_u + x W_u + b_u)
        h   = (1 - z) * u + z * (h_1 + .. + h_arity)

    A leaf has no children, so its gates depend on x alone. An inner node has an x only with
    `inner_inputs`.

    Weights: `kernel` `[features, 2 * units]` in the order u, z (with `inner_inputs`
    `[features, 3 * units]`, r last); `recurrent_kernel` `[arity * units, (2 + arity) * units]` in
    the order u, z, r_1 .. r_arity; `bias` `[3 * units]` in the order u, z, r. Its only state is its
    output.

    Args:
        units: positive int, size of the output.
        recurrent_activation: of the gates z and r.
        **kwargs: of `KernelCell` and `RecursiveCell`.
    """

    def __init__(self, units: int, recurrent_activation: Any = "sigmoid", **kwargs: Any):
        super().__init__(units, **kwargs)
        self.recurrent_activation = keras.activations.get(recurrent_activation)
        self.state_size = units

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 3 if self.inner_inputs else 2
        self.add_kernels(
            input_shape[-1], gates * self.units, (2 + self.arity) * self.units, 3 * self.units
        )
        self.built = True

    def call(self, inputs: Any, states: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        """An inner node; see `RecursiveCell.call`."""
        units = self.units
        below = [child[0] for child in states]
        hidden = ops.concatenate(below, -1)
        kernel, gate_kernel = tf.split(self.recurrent_kernel, [units, -1], -1)
        own, own_gates = self._of_inputs(inputs)
        gates = self.recurrent_activation(ops.matmul(hidden, gate_kernel) + own_gates)
        update, reset = tf.split(gates, [units, -1], -1)
        new = self.activation(ops.matmul(reset * hidden, kernel) + own)
        hidden = new + update * (tf.add_n(below) - new)
        return hidden, [hidden]

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """A leaf; see `RecursiveCell.call_leaf`."""
        units = self.units
        total = ops.matmul(inputs, self.kernel[:, : 2 * units])
        if self.bias is not None:
            total = total + self.bias[: 2 * units]
        new, update = tf.split(total, 2, -1)
        hidden = self.activation(new) * (1 - self.recurrent_activation(update))
        return hidden, [hidden]

    def _of_inputs(self, inputs: Any) -> Sequence[Any]:
        """What inputs and bias add to u, and to z and each r_k."""
        if inputs is None and self.bias is None:
            return 0.0, 0.0
        total = self.bias if inputs is None else ops.matmul(inputs, self.kernel)
        if inputs is not None and self.bias is not None:
            total = total + self.bias
        new, update, reset = tf.split(total, 3, -1)
        return new, ops.concatenate([update] + [reset] * self.arity, -1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, as Keras saves them."""
        return {
            **super().get_config(),
            "recurrent_activation": keras.activations.serialize(self.recurrent_activation),
        }


@keras.saving.register_keras_serializable("kerasrec")
class TreeGRU(CellLayer):
    """A tree-structured gated recurrent unit over trees.

    See `TreeGRUCell` for the equations and `Recursive` for inputs and outputs.

    Args:
        units: positive int, size of the output.
        return_sequences: whether to return the outputs of all tree nodes.
        return_state: whether to return the root's states beside the output.
        **kwargs: of `TreeGRUCell` and `Recursive`.
    """

    cell_class = TreeGRUCell
