"""The base class of LSTM cells, which have gates and a memory."""

from __future__ import annotations

from typing import Any

import keras

from kerasrec._src.layers.cell import KernelCell
from kerasrec._src.layers.types import Activation


class LSTMCell(KernelCell):
    """A cell with two states, h and c, whose forget gates begin open.

    A subclass implements `_bias_with_open_forget_gates`, which returns the bias with ones for the
    forget gates.

    Args:
        units: The size of h and c, a positive int.
        recurrent_activation: The activation of the gates.
        unit_forget_bias: Whether the bias of the forget gates begins at one.
        **kwargs: The arguments of `KernelCell`.
    """

    def __init__(
        self,
        units: int,
        *,
        recurrent_activation: Activation = "sigmoid",
        unit_forget_bias: bool = True,
        **kwargs: Any,
    ):
        super().__init__(units, **kwargs)
        self.recurrent_activation = keras.activations.get(recurrent_activation)
        self.unit_forget_bias = unit_forget_bias
        self.state_size = [units, units]

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        """Creates a weight; the forget gates' part of the bias begins at one."""
        if kwargs.get("name") == "bias" and self.unit_forget_bias:
            kwargs["initializer"] = self._bias_with_open_forget_gates
        return super().add_weight(*args, **kwargs)

    def _bias_with_open_forget_gates(self, shape: Any, dtype: Any = None) -> Any:
        """The initial value of a bias of this shape."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_bias_with_open_forget_gates`."
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, as Keras saves them."""
        return {
            **super().get_config(),
            "recurrent_activation": keras.activations.serialize(self.recurrent_activation),
            "unit_forget_bias": self.unit_forget_bias,
        }
