"""Values that all tokens share, computed once, before any token runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.schedule_run import tensor_of
from kerasrec._src.graph.fire import copy_of, fire, read_shared
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Primitive, Shared, SumCotangent
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.ops.table import is_constant, is_given, reads_variable
from kerasrec._src.private import has_own_gradient
from kerasrec._src.trace.custom_gradient import Differentiated, custom_gradient
from kerasrec._src.transform.primitives import scratch_graph


def shared_tensors(
    graph: TaggedGraph, closed_over: Mapping[Value, tf.Tensor] | None = None
) -> dict[Value, tf.Tensor]:
    """Computes the SHARED values that depend on no cotangent, and returns their tensors.

    Constants are left out: whatever reads a constant makes it, by `tensor_of`.

    Args:
        graph: The program.
        closed_over: The result of `tensors_closed_over`, if that has been called.
    """
    return _compute_shared(graph.shared, dict(closed_over or {}), has_run=False)


def tensors_closed_over(graph: TaggedGraph) -> dict[Value, tf.Tensor]:
    """Returns copies of the tensors that the functions close over, and the values of variables.

    States of Keras seeds are left out: a run reads and assigns them in order.
    """
    assigned = {id(node.inputs[0].node) for node in graph.shared if not node.outputs}
    tensors = {}
    for node in graph.shared:
        variable = _variable_read_by(node)
        if variable is not None and id(node.inputs[0].node) not in assigned:
            tensors[node.output()] = variable.read_value()
        elif isinstance(node, Shared) and node.variable is None:
            tensors[node.output()] = tf.identity(read_shared(node))
    return tensors


def with_cotangents(
    graph: TaggedGraph, shared: dict[Value, tf.Tensor], sums: Mapping[Any, tf.Tensor]
) -> dict[Value, tf.Tensor]:
    """Adds the SHARED values that depend on cotangents of sums over all tokens.

    Args:
        graph: The program.
        shared: The tensors of the other SHARED values.
        sums: The cotangents of sums, by the `key` of their nodes.
    """
    known = dict(shared)
    for node in graph.shared:
        if isinstance(node, SumCotangent) and node.key in sums:
            known[node.output()] = sums[node.key]
    return _compute_shared(graph.shared, known, has_run=True)


def _compute_shared(
    nodes: Sequence[Node], known: dict[Value, tf.Tensor], has_run: bool
) -> dict[Value, tf.Tensor]:
    """Returns the known values with those computed from them.

    Nodes without outputs change something; `has_run` is true if they have run already.
    """
    tensors = dict(known)
    for node in nodes:
        is_done = node.output() in tensors if node.outputs else has_run
        if isinstance(node, SumCotangent) or is_done or node.is_constant:
            continue
        variable = _variable_read_by(node)
        if isinstance(node, Shared):
            tensors[node.output()] = read_shared(node)
        elif variable is not None:
            tensors[node.output()] = variable.read_value()
        elif all(value in tensors or value.node.is_constant for value in node.inputs):
            inputs = [tensor_of(value, tensors) for value in node.inputs]
            if isinstance(node, Primitive) and has_own_gradient(node.operation):
                outputs = _fire_with_own_gradient(node, inputs, tensors)
            else:
                outputs = fire(node, inputs)
            tensors.update(zip(node.outputs, outputs, strict=True))
    return tensors


def _variable_read_by(node: Node) -> Any:
    """The variable that a node reads; None if it reads none."""
    handle = node.inputs[0].node if reads_variable(node.op) else None
    return handle.variable if isinstance(handle, Shared) else None


def _fire_with_own_gradient(
    node: Primitive, inputs: Sequence[tf.Tensor], known: dict[Value, tf.Tensor]
) -> Sequence[tf.Tensor]:
    """Fires an op whose gradient is a Python function that reads tensors of the traced graph.

    TensorFlow cannot call this function in the graph of a run, so the gradient is built in a
    scratch graph, which captures these tensors, and then copied.

    Args:
        node: The node of a SHARED value.
        inputs: The tensors for its inputs.
        known: The tensors of the SHARED values before it, in order.

    Returns:
        The outputs of the op.
    """
    before = dict(known)

    @custom_gradient
    def call(*tensors: tf.Tensor) -> Differentiated:
        return fire(node, tensors), lambda *cotangents: _copied_gradient(
            node.operation, tensors, cotangents, before
        )

    return call(*inputs)


def _copied_gradient(
    operation: tf.Operation,
    inputs: Sequence[tf.Tensor],
    cotangents: Sequence[tf.Tensor],
    known: dict[Value, tf.Tensor],
) -> list[tf.Tensor | None]:
    copies = {
        value.node.operation.outputs[value.index].ref(): tensor
        for value, tensor in known.items()
        if isinstance(value.node, Primitive)
    }
    read_outside = {
        value.node.tensor.ref(): tensor
        for value, tensor in known.items()
        if isinstance(value.node, Shared)
    }
    copies.update(
        (inner.ref(), read_outside[outer.ref()])
        for outer, inner in operation.graph.captures
        if outer.ref() in read_outside
    )
    scratch = scratch_graph()
    with scratch.graph.as_default():
        sources = [tf.compat.v1.placeholder(item.dtype, item.shape) for item in operation.inputs]
        given = [tf.compat.v1.placeholder(item.dtype, item.shape) for item in cotangents]
        outputs = copy_of(operation, sources).outputs
        start = len(scratch.graph.get_operations())
        results = tf.gradients(outputs, sources, given, stop_gradients=sources)
        results = [item if item is None else tf.convert_to_tensor(item) for item in results]
        added = scratch.graph.get_operations()[start:]
    for outer, inner in scratch.graph.captures:
        is_known = tf.is_symbolic_tensor(outer) and is_constant(outer.op.type)
        copy = copy_of(outer.op, []).outputs[0] if is_known else copies[outer.ref()]
        copies[inner.ref()] = copy
    read = zip((*sources, *given), (*inputs, *cotangents), strict=True)
    copies.update((old.ref(), new) for old, new in read)
    for item in added:
        if is_given(item):
            continue  # It stands for a captured tensor.
        copy = copy_of(item, [copies[tensor.ref()] for tensor in item.inputs])
        copies.update((old.ref(), new) for old, new in zip(item.outputs, copy.outputs, strict=True))
    return [item if item is None else copies[item.ref()] for item in results]
