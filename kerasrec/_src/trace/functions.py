"""Ops that hold functions, such as loops and calls of a `tf.function`.

TensorFlow's gradient of such an op changes the op, and finds its functions through attributes that
Python keeps next to the op. A plain copy lacks these attributes, so it has no gradient. Therefore
an op becomes a function that is called, which has gradients of every order, wherever it is called.

Or the ops of a called function are copied into the graph that calls it. There an assertion of the
function is an op like any other: it is checked for the tokens that reach the call, and its error
names its own line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.fire import copy_of
from kerasrec._src.ops.table import Holds, Is, has, is_given, op_named
from kerasrec._src.private import (
    copy_gradient,
    copy_held_function,
    graph_held,
    has_own_gradient,
)
from kerasrec._src.trace.custom_gradient import Differentiated, custom_gradient


def is_call(name: str) -> bool:
    """Whether an op calls a function."""
    return op_named(name).holds is Holds.CALLEE


def is_loop(name: str) -> bool:
    """Whether an op is a loop."""
    return op_named(name).holds is Holds.TURN


def is_control_flow(name: str) -> bool:
    """Whether an op is a loop or a conditional."""
    return op_named(name).holds not in (None, Holds.CALLEE)


def held_functions(node_def: tf.compat.v1.NodeDef) -> set[str]:
    """Returns the names of the functions that an op holds: a loop's body, branches, a callee."""
    found: set[str] = set()
    for attribute in node_def.attr.values():
        found.update(function.name for function in (attribute.func, *attribute.list.func))
    return found - {""}


def function_bodies(operation: tf.Operation) -> dict[str, Any]:
    """Returns the definitions of all functions that the graph of an op knows, by name."""
    library = operation.graph.as_graph_def().library.function
    return {function.signature.name: function for function in library}


def copy_with_held(operation: tf.Operation, inputs: Sequence[tf.Tensor]) -> tf.Operation:
    """Copies an op, with the functions that it holds, into the default graph on other inputs."""
    copy = copy_of(operation, inputs)
    copy_gradient(operation, copy)
    for name in held_functions(operation.node_def):
        copy_held_function(name, operation, copy)
    for tensor, original in zip(copy.outputs, operation.outputs, strict=True):
        tensor.set_shape(original.shape)
    return copy


def as_function(
    operation: tf.Operation, variables: Sequence[tf.Variable | None]
) -> tf.types.experimental.ConcreteFunction:
    """Returns a function that computes the outputs of an op from its inputs.

    Args:
        operation: An op of a graph that is being traced.
        variables: For each input, the variable whose handle it is, or None.
    """

    def run(*inputs: tf.Tensor) -> list[tf.Tensor]:
        copy = copy_with_held(operation, inputs)
        if is_loop(operation.type):
            return _with_known_handles(copy.outputs, inputs, variables)
        return list(copy.outputs)

    # Tensors, not specs: the handles among them know their variables.
    return tf.function(run, autograph=False).get_concrete_function(*operation.inputs)


def _with_known_handles(
    outputs: Sequence[tf.Tensor],
    inputs: Sequence[tf.Tensor],
    variables: Sequence[tf.Variable | None],
) -> list[tf.Tensor]:
    """Returns the outputs of a copied loop, changed so that its gradient can be taken.

    A loop returns each handle that it reads. The handles that a copy returns do not know their
    variables, but TensorFlow asks a handle without a cotangent for its variable. Therefore each
    handle gets a cotangent, which is zero.
    """
    results = list(outputs)
    reads = []
    for place, variable in enumerate(variables):
        if variable is not None:
            results[place] = inputs[place]
            read = tf.raw_ops.ReadVariableOp(resource=outputs[place], dtype=variable.dtype)
            reads.append(tf.ensure_shape(read, variable.shape))
    floats = [place for place, tensor in enumerate(results) if tensor.dtype.is_floating]
    if reads and floats:
        (results[floats[0]],) = _first(results[floats[0]], *reads)
    return results


@custom_gradient
def _first(tensor: tf.Tensor, *others: tf.Tensor) -> Differentiated:
    """Returns the first tensor only; the others get cotangents of zero."""

    def gradient(cotangent: tf.Tensor) -> list[tf.Tensor]:
        return [cotangent, *map(tf.zeros_like, others)]

    return [tf.identity(tensor)], gradient


@dataclass(frozen=True)
class Inlined:
    """The ops and tensors that replace a call.

    Args:
        operations: The new ops, in order, each with the op of the function that it copies.
        outputs: The tensors that replace the outputs of the call.
    """

    operations: list[tuple[tf.Operation, tf.Operation]]
    outputs: list[tf.Tensor]


def inlined(call: tf.Operation, takes_loops: bool) -> Inlined | None:
    """Copies the ops of a called `tf.function` into the graph of the call.

    Args:
        call: The op that calls the function.
        takes_loops: Whether to copy loops and conditionals. After a gradient of the copy,
            TensorFlow cannot take one of the function itself any more.

    Returns:
        The copies; None if the function has a loop or conditional that is not to be copied, or a
        gradient of the user's own (`tf.custom_gradient`), which reads tensors of the function's
        graph.
    """
    (body,) = graph_held(call, "f")
    found = {inner.ref(): outer for inner, outer in zip(body.inputs, call.inputs, strict=True)}
    originals = [
        original
        for original in body.get_operations()
        if not (is_given(original) and original.outputs[0].ref() in found)
    ]
    if any(
        has_own_gradient(source) and not held_functions(source.node_def) for source in originals
    ):
        return None
    if not takes_loops and any(is_control_flow(original.type) for original in originals):
        return None
    copies = []
    with call.graph.as_default():
        for original in _in_order(originals):
            with tf.device(original.device or call.device):
                copy = copy_with_held(original, [found[tensor.ref()] for tensor in original.inputs])
            pairs = zip(original.outputs, copy.outputs, strict=True)
            found.update((old.ref(), new) for old, new in pairs)
            copies.append((copy, original))
    # After a call under a tape, the function has more outputs, for its gradient.
    outputs = body.outputs[: len(call.outputs)]
    return Inlined(copies, [found[tensor.ref()] for tensor in outputs])


def _in_order(operations: Sequence[tf.Operation]) -> list[tf.Operation]:
    """The ops, each after those that make its inputs, and otherwise in the given order.

    A gradient may have given a loop inputs from ops that come later in the graph.
    """
    found: dict[tf.Operation, None] = {}
    among = set(operations)
    pending = list(reversed(operations))
    while pending:
        operation = pending[-1]
        makers = {tensor.op for tensor in operation.inputs}
        before = [maker for maker in makers if maker in among and maker not in found]
        if before:
            pending += before
        else:
            found[pending.pop()] = None
    return list(found)


def unrepeatable_op(operations: Sequence[tf.Operation]) -> str | None:
    """Returns the type of an op that may give another result when it runs again, or None.

    Random ops are an example.

    Args:
        operations: The ops of one graph; the functions that they hold are also searched.
    """
    for definition in definitions(operations):
        if definition.is_stateful and not has(definition.name, Is.REPEATABLE):
            return definition.name
    return None


def definitions(operations: Sequence[tf.Operation]) -> list[tf.compat.v1.OpDef]:
    """Returns TensorFlow's definitions of ops, and of the ops in functions that they hold.

    Args:
        operations: The ops of one graph.
    """
    own = [operation.op_def for operation in operations]
    held = [node for function in definitions_held(operations) for node in function.node_def]
    if not held:
        return own
    graph_def = tf.compat.v1.GraphDef()
    for node in held:
        graph_def.node.add().CopyFrom(node)
        graph_def.node[-1].name = f"op_{len(graph_def.node)}"
        del graph_def.node[-1].input[:]
    # This is the public way to get the definitions of ops that functions hold.
    meta = tf.compat.v1.train.export_meta_graph(graph_def=graph_def, graph=tf.Graph())
    return own + list(meta.meta_info_def.stripped_op_list.op)


def random_op(operations: Sequence[tf.Operation]) -> str | None:
    """Returns the type of an op that draws random numbers or changes something, or None.

    This includes draws with a given seed.

    Args:
        operations: The ops of one graph; the functions that they hold are also searched.
    """
    of_seed = (node.op for node in with_held(operations) if has(node.op, Is.SEEDED))
    return next(of_seed, None) or unrepeatable_op(operations)


def hides_a_variable(operation: tf.Operation) -> bool:
    """Whether a loop or conditional inside a loop or conditional reads a variable.

    TensorFlow makes the inner op again from its definition, which does not contain the variables
    that its handles belong to. It then takes the variable's gradient to be zero.
    """
    return is_control_flow(operation.type) and any(
        is_control_flow(node.op) and tf.resource.as_datatype_enum in _input_dtypes(node)
        for node in with_held([operation])[1:]
    )


def _input_dtypes(node: tf.compat.v1.NodeDef) -> Sequence[int]:
    return node.attr["T" if is_loop(node.op) else "Tin"].list.type


def with_held(operations: Sequence[tf.Operation]) -> list[tf.compat.v1.NodeDef]:
    """Returns ops of one graph and the ops in functions that they hold, at any depth."""
    found = [operation.node_def for operation in operations]
    for function in definitions_held(operations):
        found += function.node_def
    return found


def definitions_held(operations: Sequence[tf.Operation]) -> list[Any]:
    """Returns the definitions of the functions that ops of one graph hold, at any depth."""
    kinds = {attribute.type for operation in operations for attribute in operation.op_def.attr}
    if kinds.isdisjoint(("func", "list(func)")):
        return []  # To make the definition of each op takes longer.
    nodes = [operation.node_def for operation in operations]
    functions = function_bodies(operations[0])
    found: dict[str, Any] = {}
    for node in nodes:
        for name in sorted(held_functions(node) - set(found)):
            found[name] = functions[name]
            nodes += functions[name].node_def
    return list(found.values())
