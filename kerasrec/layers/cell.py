"""`RecursiveCell`: what a tree layer computes at one tree node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from kerasrec.trace.ragged import map_fn


class RecursiveCell(keras.layers.Layer):
    """Base class of cells, as a cell of `keras.layers.RNN` is for sequences.

    A cell says what a leaf makes of its inputs and what an inner node makes of its children's
    states. `kerasrec.layers.Recursive` applies it over trees, to many tree nodes at once: the
    first axis of all tensors counts tree nodes.

    A subclass sets `state_size`, creates weights in `build`, and implements `call` (and
    `call_leaf`, where a leaf is not an inner node whose children's states are zero). The first
    state of a node is its output.

    Args:
        arity: how many children a tree node has at most, where a missing child has zero states;
            None for any number of them, in rows.
        inner_inputs: whether inner nodes read inputs too; otherwise `call` gets None for them.
            False ignores the inputs of inner nodes. None, the default, accepts only trees whose
            inner nodes have no inputs, as far as that is known: a word other than 0 at an inner
            node is an error, and so are the states of another tree layer.
        dropout: fraction of the input features to drop, per tree node.
        recurrent_dropout: fraction of each first state to drop on the way to the tree node that
            reads it.
        seed: of the dropout.
        **kwargs: of `keras.layers.Layer`.

    Attributes:
        state_size: int, or a sequence of ints: the number of units of each state.
    """

    state_size: int | Sequence[int]
    goes_down: ClassVar[bool] = False
    # An int to all cells that multiply by it, which those of any number of children do not.
    arity: Any

    def __init__(
        self,
        arity: int | None = 2,
        inner_inputs: bool | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if arity is not None and (not isinstance(arity, int) or arity < 1):
            raise ValueError(
                f"`arity` must be a positive integer, received {arity!r}; None stands for any "
                "number of children."
            )
        if inner_inputs not in (None, True, False):
            raise ValueError(
                "`inner_inputs` must be True (inner nodes read inputs), False (their inputs are "
                f"left out) or None (they must have none), received {inner_inputs!r}."
            )
        for name, rate in (("dropout", dropout), ("recurrent_dropout", recurrent_dropout)):
            if not 0 <= rate < 1:
                raise ValueError(f"`{name}` must be at least 0 and below 1, received {rate}.")
        self.arity: Any = arity
        self.inner_inputs = inner_inputs
        self.dropout = dropout
        self.recurrent_dropout = recurrent_dropout
        self.seed = seed

    def call(self, inputs: Any, states: Sequence[Any]) -> list[Any]:
        """An inner node.

        Args:
            inputs: `[nodes, features]`, or None without `inner_inputs`.
            states: for each child, its states `[nodes, units]` each. With `arity=None`, for each
                state a RaggedTensor `[nodes, (children), units]`, a row for each node: reduce it by
                `tf.reduce_sum(state, axis=1)` and its like, and compute something of each child by
                `kerasrec.map_fn`.

        Returns:
            The node's states, `[nodes, units]` each; the first is its output.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `call`.")

    def call_leaf(self, inputs: Any) -> list[Any]:
        """A leaf; by default a node whose children's states are zero, or whose rows are empty.

        Args:
            inputs: `[nodes, features]`.

        Returns:
            As `call`.
        """
        own = inputs if self.inner_inputs else None
        if self.arity is None:
            rows = tf.RaggedTensor.from_tensor(inputs[:, :0])
            return self.call(own, map_fn(lambda _: self._zeros([]), rows))
        return self.call(own, [self._zeros([keras.ops.shape(inputs)[0]])] * self.arity)

    def _zeros(self, dims: Sequence[Any]) -> list[Any]:
        return [keras.ops.zeros((*dims, size), self.compute_dtype) for size in self.state_sizes]

    @property
    def num_slots(self) -> Any:
        """How many children have weights of their own; 1 where all share them."""
        return self.arity or 1

    @property
    def state_sizes(self) -> list[int]:
        """`state_size` as a list."""
        size = self.state_size
        return [size] if isinstance(size, int) else list(size)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, as Keras saves them."""
        return {
            **super().get_config(),
            "arity": self.arity,
            "inner_inputs": self.inner_inputs,
            "dropout": self.dropout,
            "recurrent_dropout": self.recurrent_dropout,
            "seed": self.seed,
        }


def check_states(cell: RecursiveCell, states: Any) -> None:
    """Raises ValueError unless a cell has returned what its `state_size` promises."""
    is_list = isinstance(states, list | tuple)
    sizes = [getattr(state, "shape", [None])[-1] for state in states] if is_list else None
    if sizes != cell.state_sizes:
        found = f"a list of states with {sizes} units" if is_list else repr(states)
        raise ValueError(
            f"{type(cell).__name__} must return a list of states with {cell.state_sizes} units, as "
            f"its `state_size` says, from `call` and `call_leaf`; it returned {found}."
        )


class KernelCell(RecursiveCell):
    """A cell with `kernel`, `recurrent_kernel` and `bias`, made as Keras' own layers make them.

    There are rows of `recurrent_kernel` for each child, so a cell needs an arity, unless a subclass
    says by `needs_arity = False` that all children share them, or that it is given the arity later.

    Args:
        units: positive int, size of the output.
        activation: of the new state.
        use_bias: whether there is a bias.
        kernel_initializer, recurrent_initializer, bias_initializer: of the weights.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: of the weights.
        kernel_constraint, recurrent_constraint, bias_constraint: of the weights.
        **kwargs: of `RecursiveCell`.
    """

    needs_arity: ClassVar[bool] = True

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if self.arity is None and self.needs_arity:
            raise ValueError(
                f"{type(self).__name__} has weights for each child: `arity` must be a positive "
                "integer, received None. For any number of children there is ChildSumTreeLSTM."
            )
        if not isinstance(units, int) or units < 1:
            raise ValueError(f"`units` must be a positive integer, received {units!r}.")
        self.units = units
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.recurrent_regularizer = keras.regularizers.get(recurrent_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.recurrent_constraint = keras.constraints.get(recurrent_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    def add_kernels(self, num_features: int | None, kernel: int, recurrent: int, bias: int) -> None:
        """Creates the weights.

        Args:
            num_features: of the inputs.
            kernel: columns of `kernel` `[num_features, kernel]`.
            recurrent: columns of `recurrent_kernel` `[arity * units, recurrent]`, or `[units,
                recurrent]` for all children with `arity=None`.
            bias: size of `bias`.
        """
        self.kernel = self.add_weight(
            shape=(num_features, kernel),
            name="kernel",
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.num_slots * self.units, recurrent),
            name="recurrent_kernel",
            initializer=self.recurrent_initializer,
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(bias,),
                name="bias",
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, as Keras saves them."""
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "recurrent_regularizer": keras.regularizers.serialize(self.recurrent_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "recurrent_constraint": keras.constraints.serialize(self.recurrent_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
        }
