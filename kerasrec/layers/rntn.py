"""RNTN: the recursive neural tensor network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.recursive import CellLayer
from kerasrec.layers.tree_rnn import TreeRNNCell


@keras.saving.register_keras_serializable("kerasrec")
class RNTNCell(TreeRNNCell):
    """The recursive neural tensor network of Socher et al. 2013, section 4.3, at one tree node.

    With the children's states h = [h_1, .., h_arity], unit i of the new state is

        leaf:   activation((x kernel + bias)_i)
        inner:  activation(h tensor[:, :, i] h^T + (h recurrent_kernel + bias)_i)

    so that each pair of numbers in the children's states has a weight of its own. With
    `inner_inputs`, `x kernel` is added at inner nodes too.

    Weights: those of `TreeRNNCell`, and `tensor` `[arity * units, arity * units, units]`. Its only
    state is its output.

    Args:
        units: positive int, size of the output. Time and memory of `tensor` grow with its cube; the
          paper has 25 to 35.
        tensor_initializer, tensor_regularizer, tensor_constraint: of `tensor`.
        **kwargs: of `TreeRNNCell`.
    """

    def __init__(
        self,
        units: int,
        tensor_initializer: Any = "glorot_uniform",
        tensor_regularizer: Any = None,
        tensor_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(units, **kwargs)
        self.tensor_initializer = keras.initializers.get(tensor_initializer)
        self.tensor_regularizer = keras.regularizers.get(tensor_regularizer)
        self.tensor_constraint = keras.constraints.get(tensor_constraint)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        super().build(input_shape)
        joined = self.arity * self.units
        self.tensor = self.add_weight(
            shape=(joined, joined, self.units),
            name="tensor",
            initializer=self.tensor_initializer,
            regularizer=self.tensor_regularizer,
            constraint=self.tensor_constraint,
        )

    def _combined(self, hidden: Any) -> Any:
        # One product of all nodes with the tensor, then one of each node. That of outer products
        # h^T h with the tensor took a third more time to train, and keeps twice as many numbers.
        joined = self.arity * self.units
        half = ops.matmul(hidden, ops.reshape(self.tensor, (joined, -1)))
        half = ops.reshape(half, (-1, joined, self.units))
        forms = tf.linalg.matvec(half, hidden, transpose_a=True)
        return super()._combined(hidden) + forms

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, as Keras saves them."""
        return {
            **super().get_config(),
            "tensor_initializer": keras.initializers.serialize(self.tensor_initializer),
            "tensor_regularizer": keras.regularizers.serialize(self.tensor_regularizer),
            "tensor_constraint": keras.constraints.serialize(self.tensor_constraint),
        }


@keras.saving.register_keras_serializable("kerasrec")
class RNTN(CellLayer):
    """The recursive neural tensor network of Socher et al. 2013, section 4.3, over trees.

    See `RNTNCell` for the equations and `Recursive` for inputs and outputs.

    Args:
        units: positive int, size of the output.
        return_sequences: whether to return the outputs of all tree nodes.
        return_state: whether to return the root's states beside the output.
        **kwargs: of `RNTNCell` and `Recursive`.
    """

    cell_class = RNTNCell
