"""Values that all tokens share, computed once, before them."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.graph.fire import fire, read_shared
from kerasrec.graph.graph import Node, TaggedGraph, Value


def shared_tensors(graph: TaggedGraph) -> dict[Value, tf.Tensor]:
    """Tensors of the shared values that need no cotangent, computed once, before all tokens."""
    return _compute_shared(graph.shared, {})


def with_cotangents(
    graph: TaggedGraph, shared: dict[Value, tf.Tensor], sums: dict[tuple, tf.Tensor]
) -> dict[Value, tf.Tensor]:
    """The shared values again, with those that depend on the cotangents of sums over all tokens."""
    known = dict(shared)
    for node in graph.shared:
        key = node.attributes.get("cotangent_of")
        if key in sums:
            known[node.output()] = sums[key]
    return _compute_shared(graph.shared, known)


def _compute_shared(nodes: Sequence[Node], known: dict[Value, tf.Tensor]) -> dict[Value, tf.Tensor]:
    found = dict(known)
    for node in nodes:
        # What has no outputs changes something, and has done so where anything is known.
        is_done = node.output() in found if node.outputs else bool(known)
        if "cotangent_of" in node.attributes or is_done:
            continue
        if node.op == "SHARED":
            found[node.output()] = read_shared(node)
        elif node.op == "ReadVariableOp" and node.inputs[0].node.op == "SHARED":
            variable = node.inputs[0].node.attributes["variable"]
            found[node.output()] = variable.read_value()
        elif all(value in found for value in node.inputs):
            found.update(
                zip(node.outputs, fire(node, [found[item] for item in node.inputs]), strict=True)
            )
    return found
