"""Fires one op of TensorFlow, in whatever graph is being built."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.graph.graph import Node


def fire(node: Node, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The outputs of a primitive node, for the given inputs.

    The op is made anew, with the attributes it was traced with, in the default graph.

    Args:
        node: a primitive node.
        inputs: tensors for its inputs, in order.
    """
    operation: tf.Operation = node.attributes["operation"]
    attributes = {
        name: value for name, value in operation.node_def.attr.items() if not name.startswith("_")
    }
    made = tf.compat.v1.get_default_graph().create_op(
        operation.type, list(inputs), [item.dtype for item in operation.outputs], attrs=attributes
    )
    return list(made.outputs)


def read_shared(node: Node) -> tf.Tensor:
    """The tensor that a SHARED node stands for; a variable's handle where it is a variable."""
    variable = node.attributes["variable"]
    return node.attributes["tensor"] if variable is None else variable.handle
