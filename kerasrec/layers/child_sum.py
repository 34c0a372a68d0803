"""ChildSumTreeLSTM: the tree-structured LSTM of any number of children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.recursive import CellLayer
from kerasrec.layers.tree_lstm import TreeLSTMCell
from kerasrec.trace.ragged import map_fn


@keras.saving.register_keras_serializable("kerasrec")
class ChildSumTreeLSTMCell(TreeLSTMCell):
    """The Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1, at one tree node.

    With z = (sum over k of h_k) recurrent_kernel + x kernel + bias, its columns split into the
    gates i, o, u, and z_k = h_k recurrent_kernel + x kernel + bias for each child k, of which only
    the columns f_k are read:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    The order of the children does not matter, and a node may have any number of them. Every node
    has x, since every node of a dependency tree is a word; with `inner_inputs=False` leaves only.

    Weights: `kernel` `[features, 4 * units]` in the order i, o, u, f (without `inner_inputs`
    `[features, 3 * units]`, no f); `recurrent_kernel` `[units, 4 * units]` and `bias` `[4 * units]`
    in the same order. States: h, c.

    Args:
        units: positive int, size of h and c.
        recurrent_activation: of the gates i, o and f.
        unit_forget_bias: whether the forget gates' bias begins at one.
        inner_inputs: whether inner nodes read inputs too.
        **kwargs: of `KernelCell` and `RecursiveCell`, but `arity`.
    """

    needs_arity = False

    def __init__(
        self,
        units: int,
        recurrent_activation: Any = "sigmoid",
        unit_forget_bias: bool = True,
        inner_inputs: bool | None = True,
        arity: None = None,
        **kwargs: Any,
    ):
        if arity is not None:
            raise ValueError(
                f"{type(self).__name__} takes any number of children: leave `arity` out, received "
                f"{arity!r}."
            )
        super().__init__(
            units,
            recurrent_activation,
            unit_forget_bias,
            arity=None,
            inner_inputs=inner_inputs,
            **kwargs,
        )

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 4 if self.inner_inputs else 3
        self.add_kernels(input_shape[-1], gates * self.units, 4 * self.units, 4 * self.units)
        self.built = True

    def call(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        """An inner node; see `RecursiveCell.call`."""
        units = self.units
        kernel, forget_kernel = tf.split(self.recurrent_kernel, [3 * units, units], -1)
        own, own_forget = self._of_inputs(inputs)

        def kept(child: Sequence[Any]) -> Any:
            hidden, memory = child
            forget = ops.matmul(hidden, forget_kernel)
            if own_forget is not None:
                forget = forget + own_forget
            return self.recurrent_activation(forget) * memory

        carry = tf.reduce_sum(map_fn(kept, states), axis=1)
        total = ops.matmul(tf.reduce_sum(states[0], axis=1), kernel)
        if own is not None:
            total = total + own
        out_in, update = tf.split(total, [2 * units, units], -1)
        return self._new_state(out_in, update, [carry])

    def _of_inputs(self, inputs: Any) -> list[Any]:
        """What inputs and bias add to the gates i, o, u and to f; None for nothing."""
        if inputs is None and self.bias is None:
            return [None, None]
        if inputs is None:
            return tf.split(self.bias, [3 * self.units, self.units], -1)
        total = ops.matmul(inputs, self.kernel)
        if self.bias is not None:
            total = total + self.bias
        return tf.split(total, [3 * self.units, self.units], -1)


@keras.saving.register_keras_serializable("kerasrec")
class ChildSumTreeLSTM(CellLayer):
    """The Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1, over trees of any arity.

    See `ChildSumTreeLSTMCell` for the equations and `Recursive` for inputs and outputs.

    Args:
        units: positive int, size of h and c.
        return_sequences: whether to return h of all tree nodes.
        return_state: whether to return the root's h and c beside the output.
        **kwargs: of `ChildSumTreeLSTMCell` and `Recursive`.
    """

    cell_class = ChildSumTreeLSTMCell
