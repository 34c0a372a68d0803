"""Finds the values that need a cotangent."""

from __future__ import annotations

from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Argument, RowsOfRoots, Shared, SumCotangent
from kerasrec._src.graph.values import Value
from kerasrec._src.transform.connected import passes_cotangents


def wanted_values(graph: TaggedGraph) -> set[Value]:
    """Returns the float and complex values that depend on arguments or on tensors from outside.

    Constants, values computed from integers alone, and `tf.stop_gradient` need no cotangent.
    """
    wanted: set[Value] = set()
    nodes = graph.nodes
    size = -1
    while size != len(wanted):
        size = len(wanted)
        for node in nodes:
            is_source = isinstance(node, Shared | RowsOfRoots | SumCotangent | Argument)
            if is_source or any(value in wanted for value in node.inputs):
                wanted.update(filter(passes_cotangents, node.outputs))
    return {value for value in wanted if value.type.is_differentiable}
