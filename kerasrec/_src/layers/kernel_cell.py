"""The base classes of ready cells: weights named as in Keras, and gates with a memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import keras
import tensorflow as tf
from keras import ops

from kerasrec._src.layers.argument_checks import check_number
from kerasrec._src.layers.cell import RecursiveCell, is_of_keras

# Each may also be a configuration as Keras saves it, a dict.
Activation: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
Initializer: TypeAlias = str | Callable[..., Any] | dict[str, Any]
Regularizer: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
Constraint: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None

# The elementwise activations of Keras.
_ELEMENTWISE = """
    celu elu exponential gelu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear
    log_sigmoid mish relu relu6 selu sigmoid silu soft_shrink softplus softsign squareplus tanh
    tanh_shrink threshold
"""


class KernelCell(RecursiveCell):
    """A cell with `kernel`, `recurrent_kernel` and `bias`, made in the same way as in Keras.

    `recurrent_kernel` has rows for each child, so a cell needs an arity. A subclass whose children
    share these rows, or whose arity is known only later, sets `needs_arity = False`.

    Args:
        units: The size of the output, a positive int.
        activation: The activation of the new state.
        use_bias: Whether the cell has a bias.
        kernel_initializer: The initializer of `kernel`.
        recurrent_initializer: The initializer of `recurrent_kernel`.
        bias_initializer: The initializer of `bias`.
        kernel_regularizer: The regularizer of `kernel`.
        recurrent_regularizer: The regularizer of `recurrent_kernel`.
        bias_regularizer: The regularizer of `bias`.
        kernel_constraint: The constraint on `kernel`.
        recurrent_constraint: The constraint on `recurrent_kernel`.
        bias_constraint: The constraint on `bias`.
        **kwargs: The arguments of `RecursiveCell`.
    """

    needs_arity: ClassVar[bool] = True

    def __init__(
        self,
        units: int,
        *,
        activation: Activation,
        use_bias: bool,
        kernel_initializer: Initializer,
        recurrent_initializer: Initializer,
        bias_initializer: Initializer,
        kernel_regularizer: Regularizer,
        recurrent_regularizer: Regularizer,
        bias_regularizer: Regularizer,
        kernel_constraint: Constraint,
        recurrent_constraint: Constraint,
        bias_constraint: Constraint,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_jit = True
        if self.arity is None and self.needs_arity:
            raise ValueError(
                f"{type(self).__name__} has weights for each child: `arity` must be a positive "
                "integer, received None. For any number of children there is ChildSumTreeLSTM."
            )
        check_number("`units`", units)
        self.units = units
        self.state_size = units
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
            num_features: The number of input features.
            kernel: The number of columns of `kernel` `[num_features, kernel]`.
            recurrent: The number of columns of `recurrent_kernel` `[arity * units, recurrent]`, or
                `[units, recurrent]` for all children with `arity=None`.
            bias: The size of `bias`.
        """
        rows = self.num_slots * self.units
        self.kernel = self._add("kernel", (num_features, kernel), "kernel")
        self.recurrent_kernel = self._add("recurrent_kernel", (rows, recurrent), "recurrent")
        self.bias = self._add("bias", (bias,), "bias") if self.use_bias else None

    def _add(self, name: str, shape: tuple[int | None, ...], options: str) -> Any:
        """Creates a weight with the initializer, regularizer and constraint of some options."""
        return self.add_weight(
            shape=shape,
            name=name,
            initializer=getattr(self, f"{options}_initializer"),
            regularizer=getattr(self, f"{options}_regularizer"),
            constraint=getattr(self, f"{options}_constraint"),
        )

    def _of_inputs(self, inputs: Any, gates: int | None = None) -> Any:
        """The part of the gates from inputs and bias, `[nodes, gates * units]`; None if it is zero.

        Args:
            inputs: The inputs, `[nodes, features]`, or None.
            gates: The number of gates, which are the first ones; by default all.
        """
        size = self.kernel.shape[-1] if gates is None else gates * self.units
        total = None
        if inputs is not None:
            has_more = self.kernel.shape[-1] > size
            total = ops.matmul(inputs, self.kernel[:, :size] if has_more else self.kernel)
        if self.bias is None:
            return total
        bias = self.bias if gates is None else self.bias[:size]
        return bias if total is None else total + bias


class LSTMCell(KernelCell):
    """A cell with two states, h and c, whose forget gates begin open.

    `forget_place` of a subclass is the place of the forget gates among the four gates of its
    `bias`, from 0.

    Args:
        units: The size of h and c, a positive int.
        recurrent_activation: The activation of the gates.
        unit_forget_bias: Whether the bias of the forget gates begins at one.
        **kwargs: The arguments of `KernelCell`.
    """

    forget_place: ClassVar[int]

    def __init__(
        self,
        units: int,
        *,
        recurrent_activation: Activation,
        unit_forget_bias: bool,
        **kwargs: Any,
    ):
        super().__init__(units, **kwargs)
        self.recurrent_activation = keras.activations.get(recurrent_activation)
        self.unit_forget_bias = unit_forget_bias
        self.state_size = [units, units]

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        """Creates a weight; the forget gates' part of the bias begins at one."""
        if kwargs.get("name") == "bias" and self.unit_forget_bias:
            kwargs["initializer"] = self._open_forget_gates
        return super().add_weight(*args, **kwargs)

    def _open_forget_gates(self, shape: Sequence[int], dtype: Any = None) -> Any:
        """The initial value of a bias, `[slots * 4 * units]`, with ones for the forget gates."""
        before, after = self.forget_place * self.units, (3 - self.forget_place) * self.units
        parts = []
        for _ in range(shape[0] // (4 * self.units)):
            parts.append(self.bias_initializer((before,), dtype=dtype))
            parts.append(ops.ones((self.units,), dtype=dtype))
            parts.append(self.bias_initializer((after,), dtype=dtype))
        return ops.concatenate(parts, axis=0)


def of_each_gate(activation: Callable[..., Any], gates: Any, number: int) -> Any:
    """Applies an activation to gates that are joined, `[nodes, number * units]`, one by one.

    An activation that is known to be elementwise gets all gates at once.
    """
    if is_of_keras(activation) and activation.__name__ in _ELEMENTWISE.split():
        return activation(gates)
    return ops.concatenate([activation(gate) for gate in tf.split(gates, number, -1)], -1)
