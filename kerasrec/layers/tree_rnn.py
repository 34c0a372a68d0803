"""TreeRNN: the plain recursive network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasrec.layers.cell import KernelCell
from kerasrec.layers.recursive import CellLayer


@keras.saving.register_keras_serializable("kerasrec")
class TreeRNNCell(KernelCell):
    """The recursive network of Socher et al. 2013, section 4.1, at one tree node.

        leaf:   h = activation(x kernel + bias)
        inner:  h = activation([h_1, .., h_arity] recurrent_kernel + bias)

    With `inner_inputs`, `x kernel` is added at inner nodes too.

    Weights: `kernel` `[features, units]`, `recurrent_kernel` `[arity * units, units]`, `bias`
    `[units]`. Its only state is its output.

    Args:
        units: positive int, size of the output.
        **kwargs: of `KernelCell` and `RecursiveCell`.
    """

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(units, **kwargs)
        self.state_size = units

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        self.add_kernels(input_shape[-1], self.units, self.units, self.units)
        self.built = True

    def call(self, inputs: Any, states: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        """An inner node; see `RecursiveCell.call`."""
        total = self._combined(ops.concatenate([child[0] for child in states], -1))
        if inputs is not None:
            total = total + ops.matmul(inputs, self.kernel)
        return self._activated(total)

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """A leaf; see `RecursiveCell.call_leaf`."""
        return self._activated(ops.matmul(inputs, self.kernel))

    def _combined(self, hidden: Any) -> Any:
        """What the children's outputs, `[nodes, arity * units]`, add to the new one."""
        return ops.matmul(hidden, self.recurrent_kernel)

    def _activated(self, total: Any) -> tuple[Any, list[Any]]:
        if self.bias is not None:
            total = total + self.bias
        hidden = self.activation(total)
        return hidden, [hidden]


@keras.saving.register_keras_serializable("kerasrec")
class TreeRNN(CellLayer):
    """The recursive network of Socher et al. 2013, section 4.1, over trees.

    See `TreeRNNCell` for the equations and `Recursive` for inputs and outputs.

    Args:
        units: positive int, size of the output.
        return_sequences: whether to return the outputs of all tree nodes.
        return_state: whether to return the root's states beside the output.
        **kwargs: of `TreeRNNCell` and `Recursive`.
    """

    cell_class = TreeRNNCell
