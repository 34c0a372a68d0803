"""Fires one op of TensorFlow, in whatever graph is being built."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import tensorflow as tf

from kerasrec.graph.graph import Node


def fire(node: Node, inputs: Sequence[tf.Tensor], has_gradient: bool = True) -> list[tf.Tensor]:
    """The outputs of a primitive node, for the given inputs.

    The op is made anew, with the attributes it was traced with, in the default graph. One that
    holds functions of its own, such as a loop, is called as the function that does what it does.

    Args:
        node: a primitive node.
        inputs: tensors for its inputs, in order.
        has_gradient: False hides such a function from tapes and gradients.
    """
    function = node.attributes.get("function")
    with on_device_of(node):
        if function is None:
            outputs = copy_of(node.attributes["operation"], inputs).outputs
        elif has_gradient:
            outputs = tf.nest.flatten(function(*inputs))
        else:
            dtypes = [item.dtype for item in node.types]
            outputs = tf.raw_ops.StatefulPartitionedCall(args=inputs, Tout=dtypes, f=function)
            outputs = [tf.stop_gradient(tensor) for tensor in outputs]
    # More may be known of a node than TensorFlow infers for the op.
    for tensor, item in zip(outputs, node.types, strict=True):
        tensor.set_shape(item.tensor_shape())
    return list(outputs)


def show(node: Node, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Runs an EFFECT, in whatever graph is being built; returns True when it has run."""
    function = node.attributes.get("function")
    with on_device_of(node):
        if function is None:
            operation = copy_of(node.attributes["operation"], inputs)
        else:
            operation = tf.group(*tf.nest.flatten(function(*inputs)))
    with tf.control_dependencies([operation]):
        return tf.constant(True)


def on_device_of(node: Node) -> contextlib.AbstractContextManager:
    """Where the user wants a node to run; where all else runs if it was not said."""
    device = node.attributes.get("device")
    return tf.device(device) if device else contextlib.nullcontext()


def copy_of(operation: tf.Operation, inputs: Sequence[tf.Tensor]) -> tf.Operation:
    """The same op in the default graph, on other inputs.

    Attributes of the executor's own, such as ops to be placed beside, are left out. So is XLA:
    it would compile for each number of tokens.
    """
    attributes = {
        name: value
        for name, value in operation.node_def.attr.items()
        if not name.startswith("_") or name in _OF_GRADIENTS
    }
    dtypes = [item.dtype for item in operation.outputs]
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(operation.type, list(inputs), dtypes, attrs=attributes)


# Which gradient an op was given, and how many outputs a loop had before its gradient added some.
_OF_GRADIENTS = frozenset({"_gradient_op_type", "_num_original_outputs"})


def read_shared(node: Node) -> tf.Tensor:
    """The tensor that a SHARED node stands for; a variable's handle where it is a variable."""
    variable = node.attributes["variable"]
    return node.attributes["tensor"] if variable is None else variable.handle
