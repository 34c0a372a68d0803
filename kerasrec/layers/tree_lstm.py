"""TreeLSTM: the N-ary tree-structured LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.lstm_cell import LSTMCell
from kerasrec.layers.old_order import formerly_positional
from kerasrec.layers.recursive import CellLayer
from kerasrec.layers.types import Activation, Constraint, Engine, Initializer, Regularizer


@keras.saving.register_keras_serializable("kerasrec")
class TreeLSTMCell(LSTMCell):
    """The N-ary Tree-LSTM of Tai et al. 2015, section 3.2, at one tree node.

    With z = [h_1, .., h_arity] recurrent_kernel + x kernel + bias, its columns split into the gates
    i, o, u and one forget gate f_k for each child:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    A leaf has no children, so its gates depend on x alone. An inner node has an x only with
    `inner_inputs` (in a constituency tree words stand at the leaves). All forget gates share one
    kernel and one bias, as in equation 10.

    Weights: `kernel` `[features, 3 * units]` in the order i, o, u (with `inner_inputs`
    `[features, 4 * units]`, f last); `recurrent_kernel` `[arity * units, (3 + arity) * units]` in
    the order i, o, u, f_1 .. f_arity; `bias` `[4 * units]` in the order i, o, u, f. States: h, c.

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
        arity: positive int, how many children a tree node has at most. A missing child has zero
            states.
        inner_inputs: whether inner nodes read inputs, too. False ignores their inputs. None accepts
            only trees whose inner nodes have no inputs, as far as that is known: a word other than
            0 at an inner node is an error, and so are the states of another tree layer.
        dropout: fraction of the input features to drop in training, separately for each tree node.
        recurrent_dropout: fraction of h to drop in training where the parent reads it.
        seed: int, the seed of the dropout.
        **kwargs: `name`, `dtype` and `trainable`, as every Keras layer takes them.

    Call arguments:
        inputs: float `[nodes, features]`, or None without `inner_inputs`.
        states: a list for each child: its h and c, `[nodes, units]` each.

    Output shape:
        h `[nodes, units]`, the output, and a list of the states h and c.

    Example:

    >>> cell = kerasrec.layers.TreeLSTMCell(4)
    >>> cell.build((None, 8))
    >>> _, leaf = cell.call_leaf(keras.random.normal([3, 8]))
    >>> output, states = cell.call(None, [leaf, leaf])  # three parents of two leaves each
    >>> output.shape
    TensorShape([3, 4])
    """

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
        arity: int = 2,
        inner_inputs: bool | None = None,
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
            inner_inputs=inner_inputs,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            **kwargs,
        )

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        gates = 4 if self.inner_inputs else 3
        self.add_kernels(
            input_shape[-1], gates * self.units, (3 + self.arity) * self.units, 4 * self.units
        )
        self.built = True

    def _bias_with_open_forget_gates(self, shape: Any, dtype: Any = None) -> Any:
        others = self.bias_initializer((3 * self.units,), dtype=dtype)
        return ops.concatenate([others, ops.ones((self.units,), dtype=dtype)], axis=0)

    def call(self, inputs: Any, states: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
        """An inner node; see `RecursiveCell.call`."""
        units = self.units
        hidden = ops.concatenate([child[0] for child in states], -1)
        total = ops.matmul(hidden, self.recurrent_kernel)
        if inputs is not None:
            total = total + self._for_each_child(ops.matmul(inputs, self.kernel))
        if self.bias is not None:
            total = total + self._for_each_child(self.bias)
        out_in, update, forget = tf.split(total, [2 * units, units, self.arity * units], -1)
        memories = ops.concatenate([child[1] for child in states], -1)
        carry = tf.split(self.recurrent_activation(forget) * memories, self.arity, -1)
        return self._new_state(out_in, update, carry)

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """A leaf; see `RecursiveCell.call_leaf`."""
        units = self.units
        kernel = self.kernel[:, : 3 * units] if self.inner_inputs else self.kernel
        total = ops.matmul(inputs, kernel)
        if self.bias is not None:
            total = total + self.bias[: 3 * units]
        out_in, update = tf.split(total, [2 * units, units], -1)
        return self._new_state(out_in, update, [])

    def _new_state(self, out_in: Any, update: Any, carry: list[Any]) -> tuple[Any, list[Any]]:
        in_gate, out_gate = tf.split(self.recurrent_activation(out_in), 2, -1)
        memory = tf.add_n([in_gate * self.activation(update), *carry])
        hidden = out_gate * self.activation(memory)
        return hidden, [hidden, memory]

    def _for_each_child(self, gates: Any) -> Any:
        """Columns i, o, u, f as i, o, u and f once for each child."""
        others, forget = tf.split(gates, [3 * self.units, self.units], -1)
        return ops.concatenate([others] + [forget] * self.arity, -1)


@keras.saving.register_keras_serializable("kerasrec")
class TreeLSTM(CellLayer):
    """The N-ary Tree-LSTM of Tai et al. 2015, section 3.2, over trees.

    `TreeLSTMCell` has the equations.

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
        arity: positive int, how many children a tree node has at most. A missing child has zero
            states.
        inner_inputs: whether inner nodes read inputs, too. False ignores their inputs. None accepts
            only trees whose inner nodes have no inputs, as far as that is known: a word other than
            0 at an inner node is an error, and so are the states of another tree layer.
        dropout: fraction of the input features to drop in training, separately for each tree node.
        recurrent_dropout: fraction of h to drop in training where the parent reads it.
        seed: int, the seed of the dropout.
        return_sequences: whether to return the outputs of all tree nodes, not of the root alone.
        return_state: whether to return the root's states in addition to the output.
        recompute: whether the backward pass computes the cells again instead of keeping what they
            computed: less memory, more time, the same gradients.
        engine: "waves" runs all tree nodes that are ready at once; "auto" takes it. "compiled" runs
            them in blocks, in loops that XLA compiles; results are the same up to rounding. It may
            be faster for one tree with small states on a CPU, and is slower for many trees:
            compare by `python -m benchmarks speed --peers kerasrec "kerasrec compiled"`. XLA
            compiles once for each size, rounded up to a power of two, in two to five seconds. A
            gradient without `training=True` runs the layer again. With it,
            `model.compile(jit_compile=True)` compiles the whole training step by XLA, once for each
            shape of a batch.
        embedding: a Keras layer such as `keras.layers.Embedding`. With it, `x` are words, and each
            different word of a batch is looked up once. See `Recursive`.
        instances: names of devices, each of which computes a part of the tree nodes that are ready
            at once. See `Recursive`.
        shared_nodes: whether a tree node may have several parents, as in syntax trees with equal
            subtrees merged. It is computed once, and the gradients from its parents are added up.
            See `Recursive`.
        **kwargs: `name`, `dtype` and `trainable`, as every Keras layer takes them.

    Call arguments:
        x: float `[batch, nodes, features]`, the inputs of tree nodes; with `embedding` int `[batch,
            nodes]`, their words.
        children: int `[batch, nodes, arity]`, the indices of each tree node's children, -1 for
            none. Node 0 is the root, and padding comes last. See `Recursive`.
        training: bool, whether dropout is on.

    Output shape:
        `[batch, units]`, the root's h. With `return_sequences` `[batch, nodes, units]`, h of all
        tree nodes, zero and masked for padding. With `return_state` a list: this, then the root's h
        and c, `[batch, units]` each.

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
        arity: int = 2,
        inner_inputs: bool | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        recompute: bool = False,
        engine: Engine = "auto",
        embedding: keras.layers.Layer | None = None,
        instances: Sequence[str] = (),
        shared_nodes: bool = False,
        **kwargs: Any,
    ):
        cell = TreeLSTMCell(
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
            inner_inputs=inner_inputs,
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
            shared_nodes=shared_nodes,
            **kwargs,
        )
