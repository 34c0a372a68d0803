"""TreeGRU: the N-ary tree-structured gated recurrent unit."""

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
    KernelCell,
    Regularizer,
    of_each_gate,
)
from kerasrec._src.layers.recursive import CellLayer, Engine


@keras.saving.register_keras_serializable("kerasrec")
class TreeGRUCell(KernelCell):
    """A tree-structured gated recurrent unit at one tree node.

    This is the Tree-GRU of Zhou, Liu and Pan 2016, Modelling Sentence Pairs with Tree-structured
    Attentive Encoder, https://aclanthology.org/C16-1274/. It has a reset gate for each child, and
    the sum of the children where a GRU has the previous state. Unlike there, each child has its own
    matrices, as in the N-ary Tree-LSTM (Tai et al. 2015, section 3.2). U, W and b are parts of
    `recurrent_kernel`, `kernel` and `bias`:

        z   = sigmoid([h_1, .., h_arity] U_z + x W_z + b_z)
        r_k = sigmoid([h_1, .., h_arity] U_rk + x W_r + b_r)
        u   = tanh([r_1 * h_1, .., r_arity * h_arity] U_u + x W_u + b_u)
        h   = (1 - z) * u + z * (h_1 + .. + h_arity)

    A leaf has no children, so its gates depend only on x. An inner node has an x only with
    `read_inner_inputs`.

    Weights: `kernel` `[features, 2 * units]` in the order u, z (with `read_inner_inputs`
    `[features, 3 * units]`, r last); `recurrent_kernel` `[arity * units, (2 + arity) * units]` in
    the order u, z, r_1 .. r_arity; `bias` `[3 * units]` in the order u, z, r. The only state is the
    output.

    Args:
        units: The size of the output, a positive int.
        activation: The activation of the new state, in any form that `keras.layers.Activation`
            accepts; None for no activation.
        recurrent_activation: The activation of the gates z and r.
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

    >>> cell = kerasrec.layers.TreeGRUCell(4)
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
        recurrent_activation: Activation = "sigmoid",
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
        super().__init__(**arguments(locals(), "recurrent_activation"))
        self.recurrent_activation = keras.activations.get(recurrent_activation)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 3 if self.read_inner_inputs else 2
        self.add_kernels(
            input_shape[-1], gates * self.units, (2 + self.arity) * self.units, 3 * self.units
        )

    def call(self, inputs: Any, states: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        """Computes inner nodes; see `RecursiveCell.call`."""
        units = self.units
        below = [child[0] for child in states]
        hidden = ops.concatenate(below, -1)
        kernel, gate_kernel = tf.split(self.recurrent_kernel, [units, -1], -1)
        own, own_gates = 0.0, 0.0
        from_inputs = self._of_inputs(inputs)
        if from_inputs is not None:
            own, own_update, own_reset = tf.split(from_inputs, 3, -1)
            own_gates = ops.concatenate([own_update] + [own_reset] * self.arity, -1)
        gates = ops.matmul(hidden, gate_kernel) + own_gates
        gates = of_each_gate(self.recurrent_activation, gates, 1 + len(states))
        update, reset = tf.split(gates, [units, -1], -1)
        new = self.activation(ops.matmul(reset * hidden, kernel) + own)
        hidden = new + update * (tf.add_n(below) - new)
        return hidden, [hidden]

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """Computes leaves; see `RecursiveCell.call_leaf`."""
        new, update = tf.split(self._of_inputs(inputs, gates=2), 2, -1)
        hidden = self.activation(new) * (1 - self.recurrent_activation(update))
        return hidden, [hidden]


@keras.saving.register_keras_serializable("kerasrec")
class TreeGRU(CellLayer):
    """A tree-structured gated recurrent unit over trees.

    The equations are in `TreeGRUCell`.

    Args:
        units: The size of the output, a positive int.
        activation: The activation of the new state, in any form that `keras.layers.Activation`
            accepts; None for no activation.
        recurrent_activation: The activation of the gates z and r.
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
    >>> kerasrec.layers.TreeGRU(4, return_sequences=True)(x, children).shape
    TensorShape([1, 3, 4])
    """

    cell_class = TreeGRUCell

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
