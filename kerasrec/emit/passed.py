"""What a wave without tokens passes on, and the shapes of what any wave does."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.emit.barriers import hidden
from kerasrec.emit.results import Tensors
from kerasrec.errors import GraphError
from kerasrec.graph.values import Node


def empty(nodes: Sequence[Node]) -> Tensors:
    """A tensor without tokens, `[0, ...]`, for each node."""
    for node in nodes:
        if not node.types[0].is_static:
            raise GraphError(f"{node.op} of type {node.types[0]} has no static shape.")
    none = hidden(0)
    zeros = [tf.zeros([none, *(node.types[0].shape or ())], node.types[0].dtype) for node in nodes]
    for node, tensor in zip(nodes, zeros, strict=True):
        tensor.set_shape(node.types[0].tensor_shape())
    return zeros


def shapes(nodes: Sequence[Node]) -> list[tf.TensorShape]:
    """Shapes with an open number of tokens, for each node."""
    return [node.types[0].tensor_shape() for node in nodes]
