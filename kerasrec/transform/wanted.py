"""Which values need a cotangent."""

from __future__ import annotations

from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.nodes import Argument, RowsOfRoots, Shared, SumCotangent
from kerasrec.graph.values import Value
from kerasrec.transform.connected import passes_cotangents


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
            is_source = isinstance(node, Shared | RowsOfRoots | SumCotangent | Argument)
            if is_source or any(value in wanted for value in node.inputs):
                wanted.update(filter(passes_cotangents, node.outputs))
    return {value for value in wanted if value.type.is_differentiable}
