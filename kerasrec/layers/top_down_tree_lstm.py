"""TopDownTreeLSTM: an LSTM for each kind of edge, from parents to children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.lstm_cell import LSTMCell
from kerasrec.layers.old_order import formerly_positional
from kerasrec.layers.recursive import CellLayer
from kerasrec.layers.top_down import TopDown, TopDownCell
from kerasrec.layers.types import Activation, Constraint, Engine, Initializer, Regularizer


@keras.saving.register_keras_serializable("kerasrec")
class TopDownTreeLSTMCell(LSTMCell, TopDownCell):
    """The top-down Tree-LSTM of Zhang et al. 2016, section 3, from one tree node to a child.

    A child in slot k is reached by the LSTM number k. With
    z = x kernel_k + h recurrent_kernel_k + bias_k, its columns split into i, f, u, o:

        c' = sigmoid(f) * c + sigmoid(i) * tanh(u)
        h' = sigmoid(o) * tanh(c')

    where h and c are the parent's and x is what the parent (or, with `reads="node"`, the child)
    has for inputs.

    With the four slots of `kerasrec.datasets.encode_left_right` these are the paper's GEN-L, GEN-R,
    GEN-NX-L and GEN-NX-R: first dependents and next siblings, to the left and to the right.

    Weights: `kernel` `[arity * features, 4 * units]` and `recurrent_kernel`
    `[arity * units, 4 * units]`, rows by slot, columns in the order i, f, u, o; `bias`
    `[arity * 4 * units]`, by slot, each in this order. With `shares_weights` there is one LSTM for
    all slots, and one instead of arity here. States: h, c.

    Args:
        units: positive int, the size of h and c.
        activation: the activation of the new state, as `keras.layers.Activation` takes it; None for
            none.
        recurrent_activation: the activation of the gates i, o and f.
        use_bias: whether the cell has a bias.
        kernel_initializer: the initializer of `kernel`, which the inputs are multiplied by.
        recurrent_initializer: the initializer of `recurrent_kernel`, which the states are
            multiplied by.
        bias_initializer: the initializer of `bias`.
        unit_forget_bias: whether the bias of the forget gates begins at one, whatever
            `bias_initializer` is.
        kernel_regularizer: the regularizer of `kernel`.
        recurrent_regularizer: the regularizer of `recurrent_kernel`.
        bias_regularizer: the regularizer of `bias`.
        kernel_constraint: the constraint on `kernel`.
        recurrent_constraint: the constraint on `recurrent_kernel`.
        bias_constraint: the constraint on `bias`.
        arity: how many slots, the places of children, a tree node has; by default as many as the
            `children` that the layer is built with.
        reads: `"parent"`: the state of a tree node is made from the inputs of its ancestors alone,
            so that the node itself can be predicted from it. `"node"`: from its own inputs, too,
            except at the root.
        shares_weights: whether all slots share one LSTM; then `arity` is not needed.
        dropout: fraction of the input features to drop in training, separately for each tree node.
        recurrent_dropout: fraction of h to drop in training where a child reads it.
        seed: int, the seed of the dropout.
        **kwargs: `name`, `dtype` and `trainable`, as every Keras layer takes them.

    Call arguments:
        inputs: float `[nodes, features]`, of the parents; of the children with `reads="node"`.
        states: the parents' h and c, `[nodes, units]` each.
        slot: int, which child; 0 for all with `shares_weights`.

    Output shape:
        h `[nodes, units]`, the output, and a list of the states h and c.

    Example:

    >>> cell = kerasrec.layers.TopDownTreeLSTMCell(4, arity=2)
    >>> cell.build((None, 8))
    >>> h, states = cell(keras.random.normal([3, 8]), cell.get_initial_state(3), slot=1)
    >>> h.shape
    TensorShape([3, 4])
    """

    needs_arity = False  # It may be read from the shape of `children`.

    @formerly_positional("recurrent_activation", "unit_forget_bias")
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
        reads: Literal["parent", "node"] = "parent",
        shares_weights: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(
            units,
            activation=activation,
            recurrent_activation=recurrent_activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            arity=arity,
            reads=reads,
            shares_weights=shares_weights,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            **kwargs,
        )

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 4 * self.units
        self._num_features: Any = input_shape[-1]
        self.add_kernels(self.num_slots * self._num_features, gates, gates, self.num_slots * gates)
        self.built = True

    def _bias_with_open_forget_gates(self, shape: Any, dtype: Any = None) -> Any:
        units = self.units
        parts = []
        for _ in range(self.num_slots):
            parts += [
                self.bias_initializer((units,), dtype=dtype),
                ops.ones((units,), dtype=dtype),
                self.bias_initializer((2 * units,), dtype=dtype),
            ]
        return ops.concatenate(parts, axis=0)

    def call(self, inputs: Any, states: Sequence[Any], slot: int = 0) -> tuple[Any, list[Any]]:
        """The children in one slot; see `TopDownCell.call`."""
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

    `TopDownTreeLSTMCell` has the equations. The state of a
    tree node is made from its ancestors in the encoding alone, so it may predict the node itself.

    Args:
        units: positive int, the size of h and c.
        activation: the activation of the new state, as `keras.layers.Activation` takes it; None for
            none.
        recurrent_activation: the activation of the gates i, o and f.
        use_bias: whether the cell has a bias.
        kernel_initializer: the initializer of `kernel`, which the inputs are multiplied by.
        recurrent_initializer: the initializer of `recurrent_kernel`, which the states are
            multiplied by.
        bias_initializer: the initializer of `bias`.
        unit_forget_bias: whether the bias of the forget gates begins at one, whatever
            `bias_initializer` is.
        kernel_regularizer: the regularizer of `kernel`.
        recurrent_regularizer: the regularizer of `recurrent_kernel`.
        bias_regularizer: the regularizer of `bias`.
        kernel_constraint: the constraint on `kernel`.
        recurrent_constraint: the constraint on `recurrent_kernel`.
        bias_constraint: the constraint on `bias`.
        arity: how many slots, the places of children, a tree node has; by default as many as the
            `children` that the layer is built with.
        reads: `"parent"`: the state of a tree node is made from the inputs of its ancestors alone,
            so that the node itself can be predicted from it. `"node"`: from its own inputs, too,
            except at the root.
        shares_weights: whether all slots share one LSTM; then `arity` is not needed.
        dropout: fraction of the input features to drop in training, separately for each tree node.
        recurrent_dropout: fraction of h to drop in training where a child reads it.
        seed: int, the seed of the dropout.
        return_sequences: whether to return the outputs of all tree nodes, not of the root alone.
        return_state: whether to return the root's h and c, as given, in addition to the output.
        recompute: whether the backward pass computes the cells again instead of keeping what they
            computed: less memory, more time, the same gradients.
        engine: "waves" runs all tree nodes that are ready at once; "auto" takes it. "compiled" runs
            them in blocks, in loops that XLA compiles; results are the same up to rounding. It may
            be faster for one tree with small states on a CPU, and is slower for many trees:
            compare by `python -m benchmarks speed --peers kerasrec "kerasrec compiled"`. XLA
            compiles once for each size, rounded up to a power of two, in two to five seconds. A
            gradient without `training=True` runs the layer again. With it,
            `model.compile(jit_compile=True)` compiles the whole training step by XLA, once for each
            shape of a batch; not with `shares_weights`.
        embedding: a Keras layer such as `keras.layers.Embedding`. With it, `x` are words, and each
            different word of a batch is looked up once. See `Recursive`.
        instances: names of devices, each of which computes a part of the tree nodes that are ready
            at once. See `Recursive`.
        **kwargs: `name`, `dtype` and `trainable`, as every Keras layer takes them.

    Call arguments:
        x: float `[batch, nodes, features]`, the inputs of tree nodes; with `embedding` int `[batch,
            nodes]`, their words.
        children: int `[batch, nodes, arity]`, the indices of each tree node's children, -1 for
            none; `arity` are the slots. Node 0 is the root, and padding comes last.
        initial_state: a list of the root's h and c, `[batch, units]` each; zeros by default.
        training: bool, whether dropout is on.

    Output shape:
        `[batch, nodes, units]`, h of all tree nodes, zero and masked for padding. Without
        `return_sequences` `[batch, units]`, the root's h. With `return_state` a list: this, then
        the root's h and c, `[batch, units]` each, as given.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.TopDownTreeLSTM(4)(x, children).shape
    TensorShape([1, 3, 4])
    """

    cell_class = TopDownTreeLSTMCell

    @formerly_positional("return_sequences", "return_state")
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
        reads: Literal["parent", "node"] = "parent",
        shares_weights: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = True,
        return_state: bool = False,
        recompute: bool = False,
        engine: Engine = "auto",
        embedding: keras.layers.Layer | None = None,
        instances: Sequence[str] = (),
        **kwargs: Any,
    ):
        cell = TopDownTreeLSTMCell(
            units,
            activation=activation,
            recurrent_activation=recurrent_activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            arity=arity,
            reads=reads,
            shares_weights=shares_weights,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            dtype=kwargs.get("dtype"),
            name="cell",
        )
        super().__init__(
            cell,
            return_sequences=return_sequences,
            return_state=return_state,
            recompute=recompute,
            engine=engine,
            embedding=embedding,
            instances=instances,
            **kwargs,
        )


def _rows(weight: Any, slot: int, size: int) -> Any:
    return weight[slot * size : (slot + 1) * size]
