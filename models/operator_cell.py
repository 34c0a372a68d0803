"""A cell that learns operators on digits."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec.layers import RecursiveCell

DIGITS = 10


@keras.saving.register_keras_serializable("models")
class OperatorCell(RecursiveCell):
    """The state of a tree node is the probability of each digit to be its value.

    A leaf has the digit that it reads. An inner node reads an operator o; from the states p_1 to
    p_n of its children it makes two rows of logits, and its state is the softmax of their sum:

        net_o(p_1 + .. + p_n), which has two hidden layers
        table_o(q_n-1, p_n), with q_1 = p_1 and q_k = softmax(table_o(q_k-1, p_k))

    where a table is bilinear: it has a row of logits for each pair of digits.

    Args:
        hidden: the size of the hidden layers.
        operators: their number.
        arity: the maximum number of arguments.
        **kwargs: `name`, `dtype` and `trainable`, as every Keras layer takes them.

    Call arguments:
        inputs: one-hot `[nodes, digits + operators]`.
        states: for each child its state `[nodes, digits]`, zeros for a missing one.
    """

    state_size = DIGITS

    def __init__(self, hidden: int, operators: int, arity: int = 5, **kwargs: Any):
        super().__init__(**{**kwargs, "arity": arity, "read_inner_inputs": True})
        self.hidden = hidden
        self.operators = operators

    def build(self, input_shape: Any) -> None:
        def weight(name: str, rows: int, columns: int, scale: float) -> keras.Variable:
            normal = keras.initializers.RandomNormal(stddev=scale)
            return self.add_weight((self.operators, rows, columns), normal, name=name)

        sizes = [DIGITS, self.hidden, self.hidden, DIGITS]
        self.kernels = [
            weight(f"kernel_{place}", rows, columns, (2 / rows) ** 0.5)
            for place, (rows, columns) in enumerate(itertools.pairwise(sizes))
        ]
        self.biases = [
            weight(f"bias_{place}", 1, size, 0.0) for place, size in enumerate(sizes[1:])
        ]
        self.table = weight("table", DIGITS * DIGITS, DIGITS, 0.1)
        self.built = True

    def call_leaf(self, inputs: Any) -> tuple[Any, list[Any]]:
        digit = inputs[:, :DIGITS]
        return digit, [digit]

    def call(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        digits, operator = [digit for (digit,) in states], inputs[:, DIGITS:]
        logits = self._of_counts(tf.add_n(digits)) + self._one_by_one(digits, operator)
        value = tf.nn.softmax(tf.einsum("onv,no->nv", logits, operator))
        return value, [value]

    def _of_counts(self, counts: Any) -> Any:
        """Logits `[operators, nodes, digits]` from the number of times that each digit occurs."""
        x = tf.matmul(counts[tf.newaxis], self.kernels[0]) + self.biases[0]
        for kernel, bias in zip(self.kernels[1:], self.biases[1:], strict=True):
            x = tf.matmul(tf.nn.relu(x), kernel) + bias
        return x

    def _one_by_one(self, digits: Sequence[Any], operator: Any) -> Any:
        """Logits `[operators, nodes, digits]` of the table, one argument after the other."""
        found, logits = digits[0], 0.0
        for digit in digits[1:]:
            pairs = tf.reshape(found[:, :, None] * digit[:, None, :], [1, -1, DIGITS * DIGITS])
            new = tf.matmul(pairs, self.table)
            is_there = tf.reduce_sum(digit, axis=1, keepdims=True) > 0.5
            logits = tf.where(is_there, new, logits)
            new = tf.nn.softmax(tf.einsum("onv,no->nv", new, operator))
            found = tf.where(is_there, new, found)
        return logits
