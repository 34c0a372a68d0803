"""TreeRNN: the plain recursive network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasrec._src.layers.cell import arguments
from kerasrec._src.layers.kernel_cell import (
    Activation,
    Constraint,
    Initializer,
    KernelCell,
    Regularizer,
)
from kerasrec._src.layers.recursive import CellLayer, Engine


@keras.saving.register_keras_serializable("kerasrec")
class TreeRNNCell(KernelCell):
    """The recursive network of Socher et al. 2013, section 4.1, at one tree node.

        leaf:   h = activation(x kernel + bias)
        inner:  h = activation([h_1, .., h_arity] recurrent_kernel + bias)

    With `read_inner_inputs`, `x kernel` is also added at inner nodes.

    Weights: `kernel` `[features, units]`, `recurrent_kernel` `[arity * units, units]`, `bias`
    `[units]`. The only state is the output.

    Args:
        units: The size of the output, a positive int.
        activation: The activation of the new state, in any form that `keras.layers.Activation`
            accepts; None for no activation.
        use_bias: Whether the cell has a bias.
        kernel_initializer: The initializer of `kernel`, which multiplies the inputs.
        recurrent_initializer: The initializer of `recurrent_kernel`, which multiplies the states.
        bias_initializer: The initializer of `bias`.
        kernel_regularizer: The regularizer of `kernel`.
        recurrent_regularizer: The regularizer of `recurrent_kernel`.
        bias_regularizer: The regularizer of `bias`.
        kernel_constraint: The constraint on `kernel`.
        recurrent_constraint: The constraint on `recurrent_kernel`.
        bias_constraint: The constraint on `bias`.
        arity: The largest number of children of a tree node, a positive int. A missing child has
            zero states.
        read_inner_inputs: Whether inner nodes also read inputs. False ignores the inputs of inner
            nodes. None requires that inner nodes have no inputs, where that can be checked: a word
            other than 0 at an inner node is an error, and so is the output of another tree layer.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of the output to drop in training where the parent reads it.
        seed: The seed of the dropout, an int.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs, float `[nodes, features]`, or None without `read_inner_inputs`.
        states: A list with an entry for each child: its output, `[nodes, units]`.

    Output shape:
        The output, `[nodes, units]`, and a list with the output as the only state.

    Example:

    >>> cell = kerasrec.layers.TreeRNNCell(4)
    >>> cell.build((None, 8))
    >>> _, leaf = cell.call_leaf(keras.random.normal([3, 8]))
    >>> output, states = cell.call(None, [leaf, leaf])  # three parents of two leaves each
    >>> output.shape
    TensorShape([3, 4])
    """

    def __init__(
        self,
        units: int,
        *,
        activation: Activation = "tanh",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        arity: int = 2,
        read_inner_inputs: bool | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**arguments(locals()))

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        self.add_kernels(input_shape[-1], self.units, self.units, self.units)

    def call(self, inputs: Any, states: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        """Computes inner nodes; see `RecursiveCell.call`."""
        total = self._combined(ops.concatenate([child[0] for child in states], -1))
        if inputs is not None:
            total = total + ops.matmul(inputs, self.kernel)
        return self._activated(total)

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """Computes leaves; see `RecursiveCell.call_leaf`."""
        return self._activated(ops.matmul(inputs, self.kernel))

    def _combined(self, hidden: Any) -> Any:
        """The part of the new output from the children's outputs, `[nodes, arity * units]`."""
        return ops.matmul(hidden, self.recurrent_kernel)

    def _activated(self, total: Any) -> tuple[Any, list[Any]]:
        if self.bias is not None:
            total = total + self.bias
        hidden = self.activation(total)
        return hidden, [hidden]


@keras.saving.register_keras_serializable("kerasrec")
class TreeRNN(CellLayer):
    """The recursive network of Socher et al. 2013, section 4.1, over trees.

    The equations are in `TreeRNNCell`.

    Args:
        units: The size of the output, a positive int.
        activation: The activation of the new state, in any form that `keras.layers.Activation`
            accepts; None for no activation.
        use_bias: Whether the cell has a bias.
        kernel_initializer: The initializer of `kernel`, which multiplies the inputs.
        recurrent_initializer: The initializer of `recurrent_kernel`, which multiplies the states.
        bias_initializer: The initializer of `bias`.
        kernel_regularizer: The regularizer of `kernel`.
        recurrent_regularizer: The regularizer of `recurrent_kernel`.
        bias_regularizer: The regularizer of `bias`.
        kernel_constraint: The constraint on `kernel`.
        recurrent_constraint: The constraint on `recurrent_kernel`.
        bias_constraint: The constraint on `bias`.
        arity: The largest number of children of a tree node, a positive int. A missing child has
            zero states.
        read_inner_inputs: Whether inner nodes also read inputs. False ignores the inputs of inner
            nodes. None requires that inner nodes have no inputs, where that can be checked: a word
            other than 0 at an inner node is an error, and so is the output of another tree layer.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of the output to drop in training where the parent reads it.
        seed: The seed of the dropout, an int.
        return_sequences: Whether to return the outputs of all tree nodes, not only those of roots.
        return_state: Whether to return the root's states in addition to the output.
        recompute: Whether the backward pass computes the values inside cells again instead of
            keeping them. That takes less memory and more time; gradients are the same.
        engine: The way to run the recursion: "waves", which "auto" chooses, or "compiled", in loops
            that XLA compiles. Results are the same up to rounding. See `Recursive` for when
            "compiled" is faster, and for how to compile the whole training step.
        embedding: A Keras layer such as `keras.layers.Embedding`. If it is given, `x` contains
            words, and each distinct word of a batch is looked up once. See `Recursive`.
        devices: Names of devices. Each computes a part of the tree nodes that are ready at once.
            See `Recursive`.
        shared_nodes: Whether a tree node may have several parents, as in syntax trees with equal
            subtrees merged. Such a node is computed once, and the gradients from its parents are
            added up. See `Recursive`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The inputs of tree nodes, float `[batch, nodes, features]`; with `embedding` their words,
            int `[batch, nodes]`.
        children: The indices of each tree node's children, int `[batch, nodes, arity]`; -1 for
            none. Node 0 is the root, and padding comes last. See `Recursive`.
        training: Whether dropout is on, a bool.

    Output shape:
        The root's output, `[batch, units]`. With `return_sequences` the outputs of all tree nodes,
        `[batch, nodes, units]`, zero and masked for padding. With `return_state` a list: this, then
        the root's state, `[batch, units]`, which is its output.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.TreeRNN(4, return_sequences=True)(x, children).shape
    TensorShape([1, 3, 4])
    """

    cell_class = TreeRNNCell

    def __init__(
        self,
        units: int,
        *,
        activation: Activation = "tanh",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        arity: int = 2,
        read_inner_inputs: bool | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        recompute: bool = False,
        engine: Engine = "auto",
        embedding: keras.layers.Layer | None = None,
        devices: Sequence[str] = (),
        shared_nodes: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**arguments(locals()))
