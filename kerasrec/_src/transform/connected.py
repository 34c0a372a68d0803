"""Finds which results of a program depend on a value.

The cotangent of a value comes from these results. If none of them is read, the value has no
cotangent, which is not the same as a cotangent of zero: where a derivative is infinite, zero times
infinity is NaN.
"""

from __future__ import annotations

from collections import defaultdict

import tensorflow as tf

from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value


def output_result(place: int) -> str:
    """The name, as a result, of the program's flat output at `place`."""
    return f"output {place}"


def table_result(name: str) -> str:
    """The name, as a result, of a table."""
    return f"table {name}"


def connected_results(graph: TaggedGraph) -> dict[Value, frozenset[str]]:
    """Returns for each value of a tagged graph the names of the results that depend on it.

    This does not distinguish between the call sites of a function; `reads.py` does.
    """
    ends: dict[str, list[Value]] = defaultdict(list)
    for place, node in enumerate(graph.bodies[graph.entry].outputs):
        ends[output_result(place)].append(node.output())
    for collect in graph.collects:
        if collect.has_gradient:  # Rows without an index have no gradient.
            ends[table_result(collect.name)].append(collect.inputs[0])
    found: dict[Value, set[str]] = defaultdict(set)
    for result, waiting in ends.items():
        while waiting:
            value = waiting.pop()
            if result not in found[value] and passes_cotangents(value):
                found[value].add(result)
                waiting += value.node.inputs
    return {value: frozenset(results) for value, results in found.items()}


def passes_cotangents(value: Value) -> bool:
    """Whether cotangents flow from a value to the inputs of its op."""
    is_list = value.type.dtype in (tf.resource, tf.variant)
    return (value.type.is_differentiable or is_list) and value.node.op != "StopGradient"
