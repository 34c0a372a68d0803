"""Ops that hide values from TensorFlow's graph optimizer.

In a graph with loops the optimizer assumes that what it knows of one iteration holds for all, and
it may move an op to the wrong side of a loop (both seen with TensorFlow 2.21). These ops prevent
that.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.errors import GraphError
from kerasrec._src.graph.values import Node


def with_open_tokens(tensors: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Hides the number of tokens of tensors `[tokens, ...]` that enter or leave a loop.

    The optimizer takes a static number of tokens at the entrance or the exit for that of all
    iterations, and folds sizes and ranges accordingly. A slice whose end it does not know hides the
    number. A placeholder with a default does not: the optimizer assumes that it has the shape of
    the default.
    """
    all_tokens = hidden(-1)
    return [None if tensor is None else _sliced(tensor, all_tokens) for tensor in tensors]


def hidden(number: int) -> tf.Tensor:
    """An int32 scalar whose value the optimizer does not know."""
    return tf.compat.v1.placeholder_with_default(tf.constant(number), [])


def empty(nodes: Sequence[Node]) -> Tensors:
    """Makes a tensor without tokens, `[0, ...]`, for each node; the optimizer sees no size."""
    size, tensors = hidden(0), []
    for node in nodes:
        if not node.types[0].is_static:
            raise GraphError(f"{node.op} of type {node.types[0]} has no static shape.")
        shape = node.types[0].tensor_shape()
        tensors.append(tf.zeros([size, *shape[1:]], node.types[0].dtype))
        tensors[-1].set_shape(shape)
    return tensors


def no_numbers() -> tf.Tensor:
    """Makes an int32 tensor `[0]` whose size the optimizer does not know."""
    numbers = tf.zeros([hidden(0)], tf.int32)
    numbers.set_shape([None])
    return numbers


def apart(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Separates the tensors that a loop or conditional passes to its body from the loop's own op.

    The optimizer rewrites `(x + 1) + x` to `2 * x + 1` and makes the new constant wait for x. If x
    comes straight from the loop's switch, or is the same in all of its iterations, the constant
    waits for the end of the loop by mistake. Then the op is dead, and the loop returns an empty
    tensor without an error: `tf.map_fn(lambda x: x + y + y, tensor)` does.
    """
    return [tf.compat.v1.placeholder_with_default(tensor, tensor.shape) for tensor in tensors]


def _sliced(tensor: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    rest = tensor.shape[1:]
    tokens = tf.slice(tensor, [0] * tensor.shape.rank, [size, *([-1] * rest.rank)])
    tokens.set_shape([None, *rest])
    return tokens
