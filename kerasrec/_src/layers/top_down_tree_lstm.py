"""TopDownTreeLSTM: an LSTM for each kind of edge, from parents to children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

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
)
from kerasrec._src.layers.recursive import CellLayer, Engine
from kerasrec._src.layers.top_down import TopDown, TopDownCell


@keras.saving.register_keras_serializable("kerasrec")
class TopDownTreeLSTMCell(LSTMCell, TopDownCell):
    """The top-down Tree-LSTM of Zhang et al. 2016, section 3, from one tree node to a child.

    A child in slot k is computed by LSTM number k. With z = x kernel_k + h recurrent_kernel_k +
    bias_k, whose columns are the gates i, f, u, o:

        c' = sigmoid(f) * c + sigmoid(i) * tanh(u)
        h' = sigmoid(o) * tanh(c')

    where h and c are the parent's states and x the parent's inputs (with `input_from="self"`, the
    child's).

    With the four slots of `kerasrec.datasets.encode_left_right` these are the paper's GEN-L, GEN-R,
    GEN-NX-L and GEN-NX-R: first dependents and next siblings, to the left and to the right.

    Weights: `kernel` `[arity * features, 4 * units]` and `recurrent_kernel`
    `[arity * units, 4 * units]`, rows by slot, columns in the order i, f, u, o; `bias`
    `[arity * 4 * units]`, by slot, each in this order. With `share_weights` there is one LSTM for
    all slots, and arity is one in these shapes. The states are h and c.

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
        arity: The number of slots (places of children) of a tree node; by default that of the
            `children` with which the layer is built.
        input_from: The inputs from which a node's state is computed. `"parent"`: only those of its
            ancestors, so that the node itself can be predicted from its state. `"self"`: also its
            own, except at the root, which reads no inputs. `"all"`: also those of the root, which
            is computed as a child in slot 0 of a node with the states `initial_state`.
        share_weights: Whether all slots share one LSTM; then `arity` is not needed.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of h to drop in training where a child reads it.
        seed: The seed of the dropout, an int.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs of the parents, float `[nodes, features]`; of the children with
            `input_from="self"`.
        states: The parents' h and c, `[nodes, units]` each.
        slot: The slot, an int; 0 for all slots with `share_weights`.

    Output shape:
        The output h, `[nodes, units]`, and a list of the states h and c.

    Example:

    >>> cell = kerasrec.layers.TopDownTreeLSTMCell(4, arity=2)
    >>> cell.build((None, 8))
    >>> h, states = cell(keras.random.normal([3, 8]), cell.get_initial_state(3), slot=1)
    >>> h.shape
    TensorShape([3, 4])
    """

    needs_arity = False  # It may be read from the shape of `children`.
    forget_place = 1

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
        arity: int | None = None,
        input_from: Literal["parent", "self", "all"] = "parent",
        share_weights: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**arguments(locals()))

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 4 * self.units
        self._num_features: Any = input_shape[-1]
        self.add_kernels(self.num_slots * self._num_features, gates, gates, self.num_slots * gates)

    def call(self, inputs: Any, states: Sequence[Any], slot: int = 0) -> tuple[Any, list[Any]]:
        """Computes the children in one slot; see `TopDownCell.call`."""
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

    The equations are in `TopDownTreeLSTMCell`. The state of a tree node is made only from its
    ancestors in the encoding, so it can be used to predict the node itself.

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
        arity: The number of slots (places of children) of a tree node; by default that of the
            `children` with which the layer is built.
        input_from: The inputs from which a node's state is computed. `"parent"`: only those of its
            ancestors, so that the node itself can be predicted from its state. `"self"`: also its
            own, except at the root, which reads no inputs. `"all"`: also those of the root, which
            is computed as a child in slot 0 of a node with the states `initial_state`.
        share_weights: Whether all slots share one LSTM; then `arity` is not needed.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of h to drop in training where a child reads it.
        seed: The seed of the dropout, an int.
        return_sequences: Whether to return the outputs of all tree nodes, not only those of roots.
        return_state: Whether to return the root's h and c in addition to the output: those given,
            unless the layer has `input_from="all"`.
        recompute: Whether the backward pass computes the values inside cells again instead of
            keeping them. That takes less memory and more time; gradients are the same.
        engine: The way to run the recursion: "waves", which "auto" chooses, or "compiled", in loops
            that XLA compiles. Results are the same up to rounding. See `Recursive` for when
            "compiled" is faster, and for how to compile the whole training step.
        embedding: A Keras layer such as `keras.layers.Embedding`. If it is given, `x` contains
            words, and each distinct word of a batch is looked up once. See `Recursive`.
        devices: Names of devices. Each computes a part of the tree nodes that are ready at once.
            See `Recursive`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The inputs of tree nodes, float `[batch, nodes, features]`; with `embedding` their words,
            int `[batch, nodes]`.
        children: The indices of each tree node's children, int `[batch, nodes, arity]`, where
            `arity` is the number of slots; -1 for none. Node 0 is the root, and padding comes last.
        initial_state: A list of the root's h and c, `[batch, units]` each; zeros by default.
        training: Whether dropout is on, a bool.

    Output shape:
        The h of all tree nodes, `[batch, nodes, units]`, zero and masked for padding. Without
        `return_sequences` the root's h, `[batch, units]`. With `return_state` a list: this, then
        the root's h and c, `[batch, units]` each.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.TopDownTreeLSTM(4)(x, children).shape
    TensorShape([1, 3, 4])
    """

    cell_class = TopDownTreeLSTMCell

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
        arity: int | None = None,
        input_from: Literal["parent", "self", "all"] = "parent",
        share_weights: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = True,
        return_state: bool = False,
        recompute: bool = False,
        engine: Engine = "auto",
        embedding: keras.layers.Layer | None = None,
        devices: Sequence[str] = (),
        **kwargs: Any,
    ):
        super().__init__(**arguments(locals()))


def _rows(weight: Any, slot: int, size: int) -> Any:
    return weight[slot * size : (slot + 1) * size]
