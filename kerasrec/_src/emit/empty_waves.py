"""The values that a wave without tokens passes on."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.emit.barriers import hidden
from kerasrec._src.emit.results import Tensors
from kerasrec._src.errors import GraphError
from kerasrec._src.graph.values import Node


def empty(nodes: Sequence[Node]) -> Tensors:
    """Makes a tensor without tokens, `[0, ...]`, for each node."""
    none, found = hidden(0), []
    for node in nodes:
        if not node.types[0].is_static:
            raise GraphError(f"{node.op} of type {node.types[0]} has no static shape.")
        shape = node.types[0].tensor_shape()
        found.append(tf.zeros([none, *shape[1:]], node.types[0].dtype))
        found[-1].set_shape(shape)
    return found


def no_numbers() -> tf.Tensor:
    """Makes an int32 tensor `[0]` whose size the optimizer does not know."""
    found = tf.zeros([hidden(0)], tf.int32)
    found.set_shape([None])
    return found
