"""TreeLSTM: the N-ary tree-structured LSTM."""

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
    LSTMCell,
    Regularizer,
    of_each_gate,
)
from kerasrec._src.layers.recursive import CellLayer, Engine


@keras.saving.register_keras_serializable("kerasrec")
class TreeLSTMCell(LSTMCell):
    """The N-ary Tree-LSTM of Tai et al. 2015, section 3.2, at one tree node.

    With z = [h_1, .., h_arity] recurrent_kernel + x kernel + bias, whose columns are the gates i,
    o, u and one forget gate f_k for each child:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    A leaf has no children, so its gates depend only on x. An inner node has an x only with
    `read_inner_inputs` (in a constituency tree, words stand at the leaves). All forget gates share
    one kernel and one bias, as in equation 10.

    Weights: `kernel` `[features, 3 * units]` in the order i, o, u (with `read_inner_inputs`
    `[features, 4 * units]`, f last); `recurrent_kernel` `[arity * units, (3 + arity) * units]` in
    the order i, o, u, f_1 .. f_arity; `bias` `[4 * units]` in the order i, o, u, f. The states are
    h and c.

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
        arity: The largest number of children of a tree node, a positive int. A missing child has
            zero states.
        read_inner_inputs: Whether inner nodes also read inputs. False ignores the inputs of inner
            nodes. None requires that inner nodes have no inputs, where that can be checked: a word
            other than 0 at an inner node is an error, and so is the output of another tree layer.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of h to drop in training where the parent reads it.
        seed: The seed of the dropout, an int.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs, float `[nodes, features]`, or None without `read_inner_inputs`.
        states: A list with an entry for each child: its h and c, `[nodes, units]` each.

    Output shape:
        The output h, `[nodes, units]`, and a list of the states h and c.

    Example:

    >>> cell = kerasrec.layers.TreeLSTMCell(4)
    >>> cell.build((None, 8))
    >>> _, leaf = cell.call_leaf(keras.random.normal([3, 8]))
    >>> output, states = cell.call(None, [leaf, leaf])  # three parents of two leaves each
    >>> output.shape
    TensorShape([3, 4])
    """

    forget_place = 3

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
        gates = 4 if self.read_inner_inputs else 3
        self.add_kernels(
            input_shape[-1], gates * self.units, (3 + self.arity) * self.units, 4 * self.units
        )

    def call(self, inputs: Any, states: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        """Computes inner nodes; see `RecursiveCell.call`."""
        units = self.units
        hidden = ops.concatenate([child[0] for child in states], -1)
        total = ops.matmul(hidden, self.recurrent_kernel)
        if inputs is not None:
            total = total + self._for_each_child(ops.matmul(inputs, self.kernel))
        if self.bias is not None:
            total = total + self._for_each_child(self.bias)
        out_in, update, forget = tf.split(total, [2 * units, units, self.arity * units], -1)
        memories = ops.concatenate([child[1] for child in states], -1)
        forget = of_each_gate(self.recurrent_activation, forget, self.arity)
        carry = tf.split(forget * memories, self.arity, -1)
        return self._new_state(out_in, update, carry)

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """Computes leaves; see `RecursiveCell.call_leaf`."""
        units = self.units
        out_in, update = tf.split(self._of_inputs(inputs, gates=3), [2 * units, units], -1)
        return self._new_state(out_in, update, [])

    def _new_state(self, out_in: Any, update: Any, carry: list[Any]) -> tuple[Any, list[Any]]:
        out_in = of_each_gate(self.recurrent_activation, out_in, 2)
        in_gate, out_gate = tf.split(out_in, 2, -1)
        memory = tf.add_n([in_gate * self.activation(update), *carry])
        hidden = out_gate * self.activation(memory)
        return hidden, [hidden, memory]

    def _for_each_child(self, gates: Any) -> Any:
        """Repeats f for each child in columns i, o, u, f."""
        others, forget = tf.split(gates, [3 * self.units, self.units], -1)
        return ops.concatenate([others] + [forget] * self.arity, -1)


@keras.saving.register_keras_serializable("kerasrec")
class TreeLSTM(CellLayer):
    """The N-ary Tree-LSTM of Tai et al. 2015, section 3.2, over trees.

    The equations are in `TreeLSTMCell`.

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
        arity: The largest number of children of a tree node, a positive int. A missing child has
            zero states.
        read_inner_inputs: Whether inner nodes also read inputs. False ignores the inputs of inner
            nodes. None requires that inner nodes have no inputs, where that can be checked: a word
            other than 0 at an inner node is an error, and so is the output of another tree layer.
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
        The root's h, `[batch, units]`. With `return_sequences` the h of all tree nodes,
        `[batch, nodes, units]`, zero and masked for padding. With `return_state` a list: this, then
        the root's h and c, `[batch, units]` each.

    Example:

    >>> words = keras.Input([None], dtype="int32")
    >>> children = keras.Input([None, 2], dtype="int32")
    >>> embedding = keras.layers.Embedding(1000, 50)
    >>> layer = kerasrec.layers.TreeLSTM(150, embedding=embedding, return_sequences=True)
    >>> model = keras.Model([words, children], keras.layers.Dense(5)(layer(words, children)))
    >>> model.output_shape
    (None, None, 5)
    """

    cell_class = TreeLSTMCell

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
