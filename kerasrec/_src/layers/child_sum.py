"""ChildSumTreeLSTM: the tree-structured LSTM for any number of children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec._src.layers.cell import arguments
from kerasrec._src.layers.kernel_cell import (
    Activation,
    Constraint,
    Initializer,
    Regularizer,
)
from kerasrec._src.layers.recursive import CellLayer, Engine
from kerasrec._src.layers.tree_lstm import TreeLSTMCell
from kerasrec._src.public import map_fn


@keras.saving.register_keras_serializable("kerasrec")
class ChildSumTreeLSTMCell(TreeLSTMCell):
    """The Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1, at one tree node.

    With z = (sum over k of h_k) recurrent_kernel + x kernel + bias, whose columns are the gates i,
    o, u, and z_k = h_k recurrent_kernel + x kernel + bias for each child k, of which only the
    columns f_k are used:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    The order of the children does not matter, and a node may have any number of them. Every node
    has an x, since every node of a dependency tree is a word; with `read_inner_inputs=False` only
    leaves have one.

    Weights: `kernel` `[features, 4 * units]` in the order i, o, u, f (without `read_inner_inputs`
    `[features, 3 * units]`, no f); `recurrent_kernel` `[units, 4 * units]` and `bias` `[4 * units]`
    in the same order. The states are h and c.

    Args:
        units: The size of h and c, a positive int.
        activation: The activation of the new state, in any form that `keras.layers.Activation`
            accepts; None for no activation.
        recurrent_activation: The activation of the gates i, o and f.
        use_bias: Whether the cell has a bias.
        kernel_initializer: The initializer of `kernel`, which multiplies the inputs.
        recurrent_initializer: The initializer of `recurrent_kernel`, which multiplies the states.
        bias_initializer: The initializer of `bias`.
        unit_forget_bias: Whether the bias of the forget gates begins at one, whatever
            `bias_initializer` is.
        kernel_regularizer: The regularizer of `kernel`.
        recurrent_regularizer: The regularizer of `recurrent_kernel`.
        bias_regularizer: The regularizer of `bias`.
        kernel_constraint: The constraint on `kernel`.
        recurrent_constraint: The constraint on `recurrent_kernel`.
        bias_constraint: The constraint on `bias`.
        arity: None, since tree nodes may have any number of children.
        read_inner_inputs: Whether inner nodes also read inputs, as all words of a dependency tree
            do. False ignores the inputs of inner nodes. None requires that they have none.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of h to drop in training where the parent reads it.
        seed: The seed of the dropout, an int.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs, float `[nodes, features]`, or None without `read_inner_inputs`.
        states: The children's h and c, RaggedTensors `[nodes, (children), units]`.

    Output shape:
        The output h, `[nodes, units]`, and a list of the states h and c.

    Example:

    >>> cell = kerasrec.layers.ChildSumTreeLSTMCell(4)
    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.Recursive(cell, return_state=True)(x, children)[2].shape
    TensorShape([1, 4])
    """

    needs_arity = False

    def __init__(
        self,
        units: int,
        *,
        activation: Activation = "tanh",
        recurrent_activation: Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        arity: None = None,
        read_inner_inputs: bool | None = True,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        if arity is not None:
            raise ValueError(
                f"{type(self).__name__} takes any number of children: leave `arity` out, received "
                f"{arity!r}."
            )
        super().__init__(**arguments(locals()))

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 4 if self.read_inner_inputs else 3
        self.add_kernels(input_shape[-1], gates * self.units, 4 * self.units, 4 * self.units)

    def call(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Computes inner nodes; see `RecursiveCell.call`."""
        units = self.units
        kernel, forget_kernel = tf.split(self.recurrent_kernel, [3 * units, units], -1)
        own, own_forget = None, None
        from_inputs = self._of_inputs(inputs)
        if from_inputs is not None:
            own, own_forget = tf.split(from_inputs, [3 * units, units], -1)

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


@keras.saving.register_keras_serializable("kerasrec")
class ChildSumTreeLSTM(CellLayer):
    """The Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1, over trees of any arity.

    The equations are in `ChildSumTreeLSTMCell`.

    Args:
        units: The size of h and c, a positive int.
        activation: The activation of the new state, in any form that `keras.layers.Activation`
            accepts; None for no activation.
        recurrent_activation: The activation of the gates i, o and f.
        use_bias: Whether the cell has a bias.
        kernel_initializer: The initializer of `kernel`, which multiplies the inputs.
        recurrent_initializer: The initializer of `recurrent_kernel`, which multiplies the states.
        bias_initializer: The initializer of `bias`.
        unit_forget_bias: Whether the bias of the forget gates begins at one, whatever
            `bias_initializer` is.
        kernel_regularizer: The regularizer of `kernel`.
        recurrent_regularizer: The regularizer of `recurrent_kernel`.
        bias_regularizer: The regularizer of `bias`.
        kernel_constraint: The constraint on `kernel`.
        recurrent_constraint: The constraint on `recurrent_kernel`.
        bias_constraint: The constraint on `bias`.
        arity: None, since tree nodes may have any number of children.
        read_inner_inputs: Whether inner nodes also read inputs, as all words of a dependency tree
            do. False ignores the inputs of inner nodes. None requires that they have none.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of h to drop in training where the parent reads it.
        seed: The seed of the dropout, an int.
        return_sequences: Whether to return the outputs of all tree nodes, not only those of roots.
        return_state: Whether to return the root's states in addition to the output.
        recompute: Whether the backward pass computes the values inside cells again instead of
            keeping them. That takes less memory and more time; gradients are the same.
        engine: The way to run the recursion: "waves", which "auto" chooses, or "compiled", in loops
            that XLA compiles. Results are the same up to rounding. See `Recursive` for when
            "compiled" is faster, and for how to compile the whole training step. With "compiled", a
            batch runs in "waves" if a node has more than 64 children; in large batches the limit is
            higher. In a training step that XLA compiles as a whole, a node may have any number of
            children, but trees must be padded.
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
        children: The indices of each tree node's children, int `[batch, nodes, most_children]`; -1
            for none. Node 0 is the root, and padding comes last. Both `x` and `children` may be
            ragged, which saves memory where few nodes have many children. See `Recursive`.
        training: Whether dropout is on, a bool.

    Output shape:
        The root's h, `[batch, units]`. With `return_sequences` the h of all tree nodes,
        `[batch, nodes, units]`, zero and masked for padding. With `return_state` a list: this, then
        the root's h and c, `[batch, units]` each.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.ChildSumTreeLSTM(4)(x, children).shape
    TensorShape([1, 4])
    """

    cell_class = ChildSumTreeLSTMCell

    def __init__(
        self,
        units: int,
        *,
        activation: Activation = "tanh",
        recurrent_activation: Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        arity: None = None,
        read_inner_inputs: bool | None = True,
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
