"""Finds what depends on what: which results on a value, and which values on what is differentiated.

The cotangent of a value comes from these results. If none of them is read, the value has no
cotangent, which is not the same as a cotangent of zero: where a derivative is infinite, zero times
infinity is NaN.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Argument, RowsOfRoots, Shared, SumCotangent
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has

_Item = TypeVar("_Item")


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
    dependents: dict[Value, set[str]] = defaultdict(set)
    for result, waiting in ends.items():
        while waiting:
            value = waiting.pop()
            if result not in dependents[value] and passes_cotangents(value):
                dependents[value].add(result)
                waiting += value.node.inputs
    return {value: frozenset(results) for value, results in dependents.items()}


def passes_cotangents(value: Value) -> bool:
    """Whether cotangents flow from a value to the inputs of its op."""
    is_list = value.type.dtype in (tf.resource, tf.variant)
    return (value.type.is_differentiable or is_list) and not has(value.node.op, Is.STOPPING)


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


def grown(items: set[_Item], more: Callable[[set[_Item]], set[_Item]]) -> set[_Item]:
    """Adds to a set what follows from it, until nothing new follows, and returns the result.

    Args:
        items: The set to begin with.
        more: Returns the items that follow from a set.
    """
    while not more(items) <= items:
        items = items | more(items)
    return items
