"""ChildSumTreeLSTM: the tree-structured LSTM of any number of children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec.layers.old_order import formerly_positional
from kerasrec.layers.recursive import CellLayer
from kerasrec.layers.tree_lstm import TreeLSTMCell
from kerasrec.layers.types import Activation, Constraint, Engine, Initializer, Regularizer
from kerasrec.public import map_fn


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
        arity: None, since tree nodes may have any number of children.
        inner_inputs: whether inner nodes read inputs, too, as all words of a dependency tree do.
            False ignores their inputs. None accepts only trees whose inner nodes have none.
        dropout: fraction of the input features to drop in training, separately for each tree node.
        recurrent_dropout: fraction of h to drop in training where the parent reads it.
        seed: int, the seed of the dropout.
        **kwargs: `name`, `dtype` and `trainable`, as every Keras layer takes them.

    Call arguments:
        inputs: float `[nodes, features]`, or None without `inner_inputs`.
        states: h and c of the children, RaggedTensors `[nodes, (children), units]`.

    Output shape:
        h `[nodes, units]`, the output, and a list of the states h and c.

    Example:

    >>> cell = kerasrec.layers.ChildSumTreeLSTMCell(4)
    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.Recursive(cell, return_state=True)(x, children)[2].shape
    TensorShape([1, 4])
    """

    needs_arity = False

    @formerly_positional("recurrent_activation", "unit_forget_bias", "inner_inputs")
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
        inner_inputs: bool | None = True,
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
            arity=arity,  # type: ignore[arg-type]  # `needs_arity` is False here.
            inner_inputs=inner_inputs,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
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

    `ChildSumTreeLSTMCell` has the equations.

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
        arity: None, since tree nodes may have any number of children.
        inner_inputs: whether inner nodes read inputs, too, as all words of a dependency tree do.
            False ignores their inputs. None accepts only trees whose inner nodes have none.
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
            gradient without `training=True` runs the layer again. A batch runs by waves if a node
            has more than 64 children, or more than that in large batches.
            `model.compile(jit_compile=True)` is not supported.
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
        children: int `[batch, nodes, most_children]`, the indices of each tree node's
            children, -1 for none. Node 0 is the root, and padding comes last. Both may be ragged,
            which saves memory where few nodes have many children. See `Recursive`.
        training: bool, whether dropout is on.

    Output shape:
        `[batch, units]`, the root's h. With `return_sequences` `[batch, nodes, units]`, h of all
        tree nodes, zero and masked for padding. With `return_state` a list: this, then the root's h
        and c, `[batch, units]` each.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.ChildSumTreeLSTM(4)(x, children).shape
    TensorShape([1, 4])
    """

    cell_class = ChildSumTreeLSTMCell

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
        arity: None = None,
        inner_inputs: bool | None = True,
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
        cell = ChildSumTreeLSTMCell(
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
