"""The Child-Sum Tree-LSTM over data of a schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.datatypes.field import Field
from kerasrec._src.datatypes.kinds import Kind
from kerasrec._src.public import DataType, map_fn, match


class KindLSTM(keras.layers.Layer):
    """The Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1, at tree nodes of one kind.

    The children to which one field refers are summed. Each child k has a forget gate of its own,
    and each field r its own recurrent kernel. Let x be the features from the fields that refer to
    no tree nodes, and z = x kernel + bias + sum over r of (sum over k in r of h_k)
    recurrent_kernel_r, whose columns are the gates i, o, u. Let z_k = x kernel + bias + h_k
    recurrent_kernel_r, of which only the columns f_k are used:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    Weights: `kernel` `[units, 4 * units]` in the order i, o, u, f, and `bias` `[4 * units]`, where
    f begins at one; both without f if no field refers to tree nodes. For each field that does,
    `recurrent_kernel_<place>` `[units, 4 * units]`.

    Args:
        kind: The kind of the tree nodes.
        units: The size of x, h and c.
    """

    def __init__(self, kind: Kind, units: int, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.fields = [item for item in kind.fields if item.is_reference]
        self._units = units
        gates = 4 if self.fields else 3
        self.kernel = self.add_weight(shape=(units, gates * units), name="kernel")
        self.bias = self.add_weight(
            shape=(gates * units,), initializer=self._open_forget_gates, name="bias"
        )
        self.recurrent_kernels = [
            self.add_weight(shape=(units, 4 * units), name=f"recurrent_kernel_{place}")
            for place, _ in enumerate(self.fields)
        ]
        self.built = True

    def _open_forget_gates(self, shape: Sequence[int], dtype: Any = None) -> Any:
        zeros, ones = keras.ops.zeros([3 * self._units], dtype), keras.ops.ones(shape, dtype)
        return keras.ops.concatenate([zeros, ones[3 * self._units :]], axis=0)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns what x, `[rows, units]`, adds to the gates, `[rows, 4 * units]` or 3 * units."""
        dtype = self.compute_dtype
        return tf.matmul(x, tf.cast(self.kernel, dtype)) + tf.cast(self.bias, dtype)

    def states(
        self, gates: tf.Tensor, read: Callable[[str], Any], encode: Callable[..., Any]
    ) -> list[tf.Tensor]:
        """Returns the states h and c of tree nodes, `[tokens, units]` each.

        Args:
            gates: The result of `call`, with a row for each token.
            read: Returns the field of a name.
            encode: The recursive function, which returns h and c.
        """
        total, forget = gates[:, : 3 * self._units], gates[:, 3 * self._units :]
        carries = []
        for field, weight in zip(self.fields, self.recurrent_kernels, strict=True):
            kernel = tf.cast(weight, self.compute_dtype)
            kernels = tf.split(kernel, [3 * self._units, self._units], axis=1)
            hidden, carry = self._of_field(field, read(field.name), encode, forget, kernels[1])
            total = total + tf.matmul(hidden, kernels[0])
            carries.append(carry)
        in_gate, out_gate, update = tf.split(total, 3, axis=1)
        memory = tf.add_n([tf.sigmoid(in_gate) * tf.tanh(update), *carries])
        return [tf.sigmoid(out_gate) * tf.tanh(memory), memory]

    def _of_field(
        self, field: Field, found: Any, encode: Any, forget: tf.Tensor, kernel: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The sums of the children's h and of the kept part of their c; zero without children."""

        def kept(states: Sequence[Any]) -> tf.Tensor:
            hidden, memory = states
            return tf.sigmoid(forget + tf.matmul(hidden, kernel)) * memory

        if field.is_list:
            states = encode(found)
            return tf.reduce_sum(states[0], axis=1), tf.reduce_sum(map_fn(kept, states), axis=1)
        if field.is_optional:
            zeros = tf.zeros([self._units], self.compute_dtype)
            states = match(found, {None: lambda: [zeros, zeros], DataType: encode})
        else:
            states = encode(found)
        return states[0], kept(states)
