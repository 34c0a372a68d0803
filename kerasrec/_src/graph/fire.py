"""Fires one op of TensorFlow in the graph that is being built."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import tensorflow as tf

from kerasrec._src.errors import GraphError, scope_of_line
from kerasrec._src.graph.nodes import Computed, Effect, Primitive, Shared
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Node
from kerasrec._src.half_precision import in_float32
from kerasrec._src.ops.table import Holds, Is, adds_halves, op_named
from kerasrec._src.ops.xla import OUTSIDE, opaque
from kerasrec._src.private import OF_GRADIENTS


def fire(node: Node, inputs: Sequence[tf.Tensor], has_gradient: bool = True) -> list[tf.Tensor]:
    """Computes the outputs of a node for the given inputs.

    The op is made again in the default graph, with the attributes that it was traced with. An op
    that holds functions, such as a loop, runs as a call of a function instead
    (`trace/functions.py`).

    Args:
        node: A `Computed` node.
        inputs: Tensors for its inputs, in order.
        has_gradient: False hides the call of a function from tapes and gradients.

    Raises:
        GraphError: If it is a node of another kind.
    """
    if not isinstance(node, Computed):
        raise GraphError(f"{node.op} was not given a value before it was read.")
    with on_device_of(node), _scope_of_line(node):
        if node.function is not None and has_gradient:
            outputs = tf.nest.flatten(node.function(*inputs))
        elif node.function is not None:
            run = partial(_run_without_gradient, node, inputs)
            outputs = _run_if_any(node, inputs, run) if node.has_effect else run()
        elif isinstance(node, Primitive):
            outputs = _run_primitive(node.operation, inputs)
    # The types of a node may be narrower than those that TensorFlow infers for the op.
    for tensor, item in zip(outputs, node.types, strict=True):
        tensor.set_shape(item.tensor_shape())
    return list(outputs)


def fire_in_xla(
    node: Node, inputs: Sequence[tf.Tensor], may_merge: bool = False
) -> list[tf.Tensor]:
    """Computes the outputs of a node in XLA, with the results of TensorFlow's own kernels.

    Args:
        node: A `Computed` node.
        inputs: Tensors for its inputs, in order.
        may_merge: Whether XLA may merge the op with others if no digit is lost.
    """
    op = op_named(node.op)

    def kernel(*inputs: tf.Tensor) -> tf.Tensor:
        return fire(node, inputs, has_gradient=False)[0]

    if op.formula:
        found = [op.formula(kernel, *inputs)]
    else:
        found = fire(node, inputs, has_gradient=False)
    if node.is_constant or (may_merge and not op.facts & Is.OVERFLOWING):
        return found
    return [opaque(tensor) if tensor.dtype.is_floating else tensor for tensor in found]


def _run_primitive(operation: tf.Operation, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Runs an op of TensorFlow; long sums of half-precision numbers are computed in float32."""
    if not adds_halves(operation):
        return list(copy_of(operation, inputs).outputs)
    (found,) = copy_of(operation, list(map(in_float32, inputs)), tf.float32).outputs
    return [tf.cast(found, operation.outputs[0].dtype)]


def _run_without_gradient(node: Computed, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Calls the function of a node.

    A stateful call makes a loop around it stateful, and TensorFlow then keeps all that the loop
    computes, whether or not anything reads it.
    """
    assert node.function is not None
    operations = node.function.graph.get_operations()
    is_stateful = any(operation.op_def.is_stateful for operation in operations)
    call = tf.raw_ops.StatefulPartitionedCall if is_stateful else tf.raw_ops.PartitionedCall
    outputs = call(args=inputs, Tout=[item.dtype for item in node.types], f=node.function)
    return [tf.stop_gradient(tensor) for tensor in outputs]


def _run_if_any(
    node: Computed, inputs: Sequence[tf.Tensor], run: Callable[[], list[tf.Tensor]]
) -> list[tf.Tensor]:
    """Runs an op that holds an assertion, unless it has zero tokens: then no token reaches it.

    It also runs for zero tokens if its outputs are not known otherwise: for a `tf.TensorArray`, or
    an open shape that is not one value per token.
    """
    pairs = zip(node.inputs, inputs, strict=True)
    tokens = [tensor for value, tensor in pairs if value.type.kind is Kind.TOKEN]
    # A loop returns the handles that it is given.
    handles = {
        place: inputs[place]
        for place, item in enumerate(node.types)
        if item.dtype == tf.resource and op_named(node.op).holds is Holds.TURN
    }
    types = [item for place, item in enumerate(node.types) if place not in handles]
    if not tokens or not all(map(_is_known_of_none, types)):
        return run()

    def outputs_of_tokens() -> tuple[tf.Tensor, ...]:
        return tuple(item for place, item in enumerate(run()) if place not in handles)

    def outputs_of_none() -> tuple[tf.Tensor, ...]:
        return tuple(
            tf.zeros([dim or 0 for dim in item.tensor_shape()], item.dtype) for item in types
        )

    found = iter(tf.cond(tf.shape(tokens[0])[0] > 0, outputs_of_tokens, outputs_of_none))
    return [handles[place] if place in handles else next(found) for place in range(len(node.types))]


def _is_known_of_none(item: Type) -> bool:
    """Whether an output of an op for zero tokens is known without running the op."""
    is_plain = item.dtype not in (tf.resource, tf.variant)
    return is_plain and (item.shape is not None if item.kind is Kind.TOKEN else item.is_static)


def show(node: Effect, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Runs an EFFECT in the graph that is being built; returns a True that waits for it."""
    with on_device_of(node), _scope_of_line(node):
        if node.function is None:
            operation = copy_of(node.operation, inputs)
        else:
            operation = tf.group(*tf.nest.flatten(node.function(*inputs)))
    with tf.control_dependencies([operation]):
        return tf.constant(True)


def on_device_of(node: Computed | Effect) -> contextlib.AbstractContextManager[object]:
    """Returns the scope of the device that the user chose for a node; an empty one if none."""
    return tf.device(node.device) if node.device else contextlib.nullcontext()


def _scope_of_line(node: Computed | Effect) -> contextlib.AbstractContextManager[object]:
    """Returns a name scope with the line of an op that may fail, for TensorFlow's error."""
    may_fail = node.function is not None or op_named(node.op).fails in OUTSIDE
    if not may_fail or node.source is None:
        return contextlib.nullcontext()
    return tf.name_scope(scope_of_line(str(node.source)))


def copy_of(
    operation: tf.Operation, inputs: Sequence[tf.Tensor], dtype: tf.DType | None = None
) -> tf.Operation:
    """Copies an op into the default graph, with other inputs.

    Attributes of the executor, such as colocation with other ops, are left out, as is the request
    for XLA, which would compile again for each number of tokens.

    Args:
        operation: The op to copy.
        inputs: The inputs of the copy.
        dtype: The dtype of the copy's outputs and inputs; None for the same dtypes.
    """
    dtypes = [dtype or item.dtype for item in operation.outputs]
    attributes = attributes_of(operation.node_def)
    if dtype is not None:
        attributes["T"] = tf.compat.v1.AttrValue(type=dtype.as_datatype_enum)
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(operation.type, list(inputs), dtypes, attrs=attributes)


def attributes_of(definition: tf.compat.v1.NodeDef) -> dict[str, tf.compat.v1.AttrValue]:
    """Returns the attributes of an op that its copies get."""
    return {
        name: value
        for name, value in definition.attr.items()
        if not name.startswith("_") or name in OF_GRADIENTS
    }


def read_shared(node: Shared) -> tf.Tensor:
    """Returns the tensor of a SHARED node; if it is a variable, the variable's handle."""
    return node.tensor if node.variable is None else node.variable.handle


def branch_chosen(predicate: tf.Tensor, num_branches: int) -> tf.Tensor:
    """Returns the number of the branch that each predicate chooses: 0 for true, 1 for false.

    An integer chooses the branch with this number. If it is out of range, it chooses the last one,
    as in `tf.switch_case`.
    """
    if predicate.dtype == tf.bool:
        return 1 - tf.cast(predicate, tf.int32)
    inside = (predicate >= 0) & (predicate < num_branches)
    return tf.where(inside, predicate, num_branches - 1)
