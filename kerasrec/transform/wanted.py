"""Which values need a cotangent."""

from __future__ import annotations

import tensorflow as tf

from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.nodes import Argument, Shared, SumCotangent
from kerasrec.graph.values import Value


def wanted_values(graph: TaggedGraph) -> set[Value]:
    """Values of a float or complex dtype that depend on an argument or on something shared.

    Constants need none, nor does what is computed from integers alone, nor `tf.stop_gradient`.
    """
    wanted: set[Value] = set()
    nodes = graph.nodes
    size = -1
    while size != len(wanted):
        size = len(wanted)
        for node in nodes:
            if node.op == "StopGradient":
                continue
            is_source = isinstance(node, Shared | SumCotangent | Argument)
            if is_source or any(value in wanted for value in node.inputs):
                wanted.update(
                    value
                    for value in node.outputs
                    if value.type.is_differentiable or value.type.dtype in (tf.resource, tf.variant)
                )
    return {value for value in wanted if value.type.is_differentiable}
