"""Copies the ops of a `tf.function` into the graph that calls it.

There an assertion of the function is an op like any other: it is checked for the tokens that reach
the call, and its error names its own line.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.private import graph_held, has_own_gradient
from kerasrec.trace.functions import copy_with_held, held_functions


@dataclass(frozen=True)
class Inlined:
    """The ops and tensors that replace a call.

    Args:
        operations: The new ops, in order, each with the op of the function that it copies.
        outputs: The tensors that replace the outputs of the call.
    """

    operations: list[tuple[tf.Operation, tf.Operation]]
    outputs: list[tf.Tensor]


def inlined(call: tf.Operation) -> Inlined | None:
    """Copies the ops of a called `tf.function` into the graph of the call.

    Returns:
        The copies; None if the function has a gradient of the user's own (`tf.custom_gradient`),
        which reads tensors of the function's graph.
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
    copies = []
    with call.graph.as_default():
        for item in originals:
            with tf.device(item.device):
                copy = copy_with_held(item, [found[tensor.ref()] for tensor in item.inputs])
            pairs = zip(item.outputs, copy.outputs, strict=True)
            found.update((old.ref(), new) for old, new in pairs)
            copies.append((copy, item))
    # After a call under a tape, the function has more outputs, for its gradient.
    outputs = body.outputs[: len(call.outputs)]
    return Inlined(copies, [found[tensor.ref()] for tensor in outputs])
