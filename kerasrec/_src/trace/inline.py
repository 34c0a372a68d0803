"""Copies the ops of a `tf.function` into the graph that calls it.

There an assertion of the function is an op like any other: it is checked for the tokens that reach
the call, and its error names its own line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.private import graph_held, has_own_gradient
from kerasrec._src.trace.functions import CONTROL_FLOW, copy_with_held, held_functions


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
        item
        for item in body.get_operations()
        if not (item.type == "Placeholder" and item.outputs[0].ref() in found)
    ]
    if any(has_own_gradient(item) and not held_functions(item.node_def) for item in originals):
        return None
    if not takes_loops and any(item.type in CONTROL_FLOW for item in originals):
        return None
    copies = []
    with call.graph.as_default():
        for item in _in_order(originals):
            with tf.device(item.device or call.device):
                copy = copy_with_held(item, [found[tensor.ref()] for tensor in item.inputs])
            pairs = zip(item.outputs, copy.outputs, strict=True)
            found.update((old.ref(), new) for old, new in pairs)
            copies.append((copy, item))
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
        before = [one for one in makers if one in among and one not in found]
        if before:
            pending += before
        else:
            found[pending.pop()] = None
    return list(found)
