"""Finds dependencies: the values that need a cotangent, and the results that are read.

A value has a cotangent for a token if a result that depends on the value is read. If none is, it
has no cotangent, which is not the same as a cotangent of zero: where a derivative is infinite, zero
times infinity is NaN, also in the sums over tokens for weights.

The outside may ignore results; this is known when a gradient is asked for, and before that it
counts as reading all of them. One call of a function may ignore a result that another call reads.
If all calls read the same results, a value has a cotangent for all tokens or for none. Otherwise
tokens carry the answer: for such a result, the function takes one more argument, a bool for whether
the result is read, and calls pass it on. If only such results depend on an op, its gradient is in a
branch, for the tokens with a cotangent.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import tensorflow as tf

from kerasrec._src.graph.graph import Body, CallSite, TaggedGraph
from kerasrec._src.graph.nodes import (
    Argument,
    Call,
    Computed,
    Entrance,
    Put,
    RowsOfRoots,
    Shared,
    SumCotangent,
)
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Branch, Node, Region, Value, reached
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.ops.table import Is, has
from kerasrec._src.transform.primitives import PrimitiveWriter
from kerasrec._src.transform.recompute import Group, in_groups

Output = tuple[str, int]
"""An output of a body: the body's name and the output's place."""
Readers = frozenset[Output | None]
"""The outputs of a body that depend on a value; None means a table, which every call keeps, or
a made row, which any call may read."""

_BOOL = Type(tf.bool, ())

_Item = TypeVar("_Item")


def output_result(place: int) -> str:
    """The name, as a result, of the program's flat output at `place`."""
    return f"output {place}"


def table_result(name: str) -> str:
    """The name, as a result, of a table."""
    return f"table {name}"


def connected_results(graph: TaggedGraph) -> dict[Value, frozenset[str]]:
    """Returns for each value of a tagged graph the names of the results that depend on it.

    This does not distinguish between the call sites of a function; `Reads` does.
    """
    ends: dict[str, list[Value]] = defaultdict(list)
    for place, node in enumerate(graph.bodies[graph.entry].outputs):
        ends[output_result(place)].append(node.output())
    for collect in graph.collects:
        if collect.has_gradient:  # Rows without an index have no gradient.
            ends[table_result(collect.name)].append(collect.inputs[0])
    dependents: dict[Value, set[str]] = defaultdict(set)
    sources = graph.sources()
    for result, values in ends.items():
        for value in reached(
            filter(passes_cotangents, values),
            lambda value: filter(passes_cotangents, sources(value.node)),
        ):
            dependents[value].add(result)
    return {value: frozenset(results) for value, results in dependents.items()}


def passes_cotangents(value: Value) -> bool:
    """Whether cotangents flow from a value to the inputs of its op."""
    is_list = value.type.dtype in (tf.resource, tf.variant)
    return (value.type.is_differentiable or is_list) and not has(value.node.op, Is.STOPPING)


def wanted_values(graph: TaggedGraph) -> set[Value]:
    """Returns the float and complex values that depend on arguments or on tensors from outside.

    Constants, values computed only from integers, and `tf.stop_gradient` need no cotangent.
    """
    wanted: set[Value] = set()
    nodes, sources = graph.nodes, graph.sources()
    size = -1
    while size != len(wanted):
        size = len(wanted)
        for node in nodes:
            is_source = isinstance(node, Shared | RowsOfRoots | SumCotangent | Argument)
            if is_source or any(value in wanted for value in sources(node)):
                wanted.update(filter(passes_cotangents, node.outputs))
    return {value for value in wanted if value.type.is_differentiable}


def grown(items: set[_Item], more: Callable[[set[_Item]], set[_Item]]) -> set[_Item]:
    """Adds to a set all that follows from it, until nothing new follows, and returns the result.

    Args:
        items: The set to begin with.
        more: Returns the items that follow from a set.
    """
    while not more(items) <= items:
        items = items | more(items)
    return items


def only_adds_or_moves(nodes: Iterable[Node]) -> bool:
    """Whether the gradients of all these ops map a cotangent of zero to zeros for certain."""
    return all(has(node.op, Is.SLOPE_ONE) for node in nodes)


class Reads:
    """Which outputs of its body depend on a value, and whether every call reads one of them.

    Args:
        graph: A tagged graph that is not extended.
    """

    def __init__(self, graph: TaggedGraph):
        self._readers = _readers(graph)
        returns = [
            ((site.callee, place), self._readers.get(back.output(), frozenset()))
            for site in graph.inner_sites
            for place, back in enumerate(site.returns)
        ]
        entry = graph.bodies[graph.entry]
        self._read: set[Output | None] = grown(
            {None, *_outputs_of(entry)},
            lambda read: {output for output, readers in returns if readers & read},
        )
        self._dropped: set[Output | None] = grown(
            set(), lambda dropped: {output for output, readers in returns if readers <= dropped}
        )

    def of(self, *values: Value) -> Readers:
        """The readers of some values of a body; empty if no token has a cotangent for them."""
        readers = frozenset().union(*(self._readers.get(value, ()) for value in values))
        return frozenset(readers & self._read)

    def is_for_some(self, readers: Readers) -> bool:
        """Whether a value with these readers may have a cotangent for only some of the tokens."""
        return bool(readers) and readers <= self._dropped


def _outputs_of(body: Body) -> list[Output]:
    return [(body.name, place) for place in range(len(body.outputs))]


def _readers(graph: TaggedGraph) -> dict[Value, Readers]:
    """Returns the readers of each value, including outputs that no call reads.

    A result of a call depends on an argument only if the function computes it from this argument.
    """
    sites: dict[Node, tuple[CallSite, int]] = {
        back: (site, place) for site in graph.inner_sites for place, back in enumerate(site.returns)
    }
    owners: dict[Node, Output] = {
        node: (body.name, place)
        for body in graph.bodies.values()
        for place, node in enumerate(body.parameters)
    }
    readers_of: dict[Value, set[Output | None]] = defaultdict(set)
    waiting: list[tuple[Value, Output | None]] = [
        (node.output(), output)
        for body in graph.bodies.values()
        for node, output in zip(body.outputs, _outputs_of(body), strict=True)
    ]
    for collect in graph.collects:
        if collect.has_gradient:  # Rows without an index have no gradient.
            waiting.append((collect.inputs[0], None))
    # Made rows may be read anywhere.
    waiting += [(node.inputs[0], None) for node in graph.nodes if isinstance(node, Put)]
    while waiting:
        value, reader = waiting.pop()
        if value.is_shared or reader in readers_of[value] or not passes_cotangents(value):
            continue
        readers_of[value].add(reader)
        node = value.node
        if node in sites:
            site, place = sites[node]
            for call, parameter in zip(
                site.calls, graph.bodies[site.callee].parameters, strict=True
            ):
                if (site.callee, place) in readers_of[parameter.output()]:
                    waiting.append((call.inputs[0], reader))
        elif node in owners:
            callee, argument = owners[node]
            for site in graph.sites_to(callee):
                results = {None} if reader is None else readers_of[site.returns[reader[1]].output()]
                waiting += [(site.calls[argument].inputs[0], item) for item in results]
        else:
            waiting += [(item, reader) for item in node.inputs]
    return {value: frozenset(readers) for value, readers in readers_of.items()}


def with_reads(graph: TaggedGraph, reads: Reads, wanted: set[Value]) -> TaggedGraph:
    """Returns the graph with tokens that carry which results are read, if any gradient needs it.

    Args:
        graph: A tagged graph that is not extended.
        reads: The `Reads` of the graph.
        wanted: The values that need a cotangent.
    """
    asked = {name: _asked(body, reads, wanted) for name, body in graph.bodies.items()}
    carried = _carried(graph, reads, asked)
    if not carried:
        return graph
    return _Carrying(graph, reads, carried).run(asked)


def _asked(body: Body, reads: Reads, wanted: set[Value]) -> dict[Node, Readers]:
    """The ops whose gradient must know which results are read; for a group, its last op."""
    asked = {}
    for part in in_groups(body.sweeps[0]):
        nodes = part.nodes if isinstance(part, Group) else (part,)
        if not all(isinstance(node, Computed) for node in nodes) or only_adds_or_moves(nodes):
            continue
        results = [value for node in nodes for value in node.outputs if value in wanted]
        readers = reads.of(*results)
        ends = [*results, *(value for value in part.inputs if value in wanted)]
        is_of_tokens = all(value.is_shared or value.type.kind is Kind.TOKEN for value in ends)
        if reads.is_for_some(readers) and is_of_tokens:
            asked[nodes[-1]] = readers
    return asked


def _carried(
    graph: TaggedGraph, reads: Reads, asked: dict[str, dict[Node, Readers]]
) -> dict[Output, Entrance]:
    """Returns the entrances to add: for each output to know, a bool for whether it is read."""
    waiting = [
        reader for nodes in asked.values() for readers in nodes.values() for reader in readers
    ]
    entrances: dict[Output, Entrance] = {}
    while waiting:
        output = waiting.pop()
        if output is None or output in entrances:
            continue
        name, place = output
        source, label = graph.bodies[name].source, f"reads_output_{place}"
        entrances[output] = Entrance([], [_BOOL], None, source, name=label, is_carried=True)
        for site in graph.sites_to(name):
            readers = reads.of(site.returns[place].output())
            waiting += readers if reads.is_for_some(readers) else ()
    return dict(sorted(entrances.items()))


@dataclass(eq=False)
class _Carrying:
    """Adds the bools that tokens carry to sweep 0 of all bodies.

    Args:
        graph: A tagged graph that is not extended. It is not changed.
        reads: The `Reads` of the graph.
        carried: The entrances to add.
    """

    graph: TaggedGraph
    reads: Reads
    carried: dict[Output, Entrance]

    def __post_init__(self) -> None:
        self.shared = list(self.graph.shared)
        self.sites = dict(self.graph.call_sites)
        self.where_read: dict[Node, Branch] = {}

    def run(self, asked: dict[str, dict[Node, Readers]]) -> TaggedGraph:
        """Returns the graph with the entrances, and with branches for the gradients of `asked`."""
        bodies = {name: self._body(body, asked[name]) for name, body in self.graph.bodies.items()}
        entrances = self._entrances(self.graph.entry).values()
        arguments = [Argument([], node.types, name=node.name).output() for node in entrances]
        self._pass(self.graph.root, arguments)
        return replace(
            self.graph,
            bodies=bodies,
            call_sites=self.sites,
            shared=self.shared,
            where_read=self.where_read,
        )

    def _entrances(self, name: str) -> dict[Output, Entrance]:
        return {output: node for output, node in self.carried.items() if output[0] == name}

    def _body(self, body: Body, asked: dict[Node, Readers]) -> Body:
        sweep, source = body.sweeps[0], body.source
        entrances = list(self._entrances(body.name).values())
        writer = GraphWriter([*body.parameters, *entrances])
        apply = PrimitiveWriter((), writer, self.shared).apply

        @functools.cache
        def of_body(readers: Readers | bool) -> Value:
            if isinstance(readers, bool):
                return apply(lambda: tf.constant(readers), [], None, source, Kind.SHARED)
            is_read, *others = [
                self.carried[place].output() for place in sorted(filter(None, readers))
            ]
            for value in others:
                is_read = apply(tf.logical_or, [is_read, value], None, source)
            return is_read

        def are_read(readers: Readers | bool, region: Region | None) -> Value:
            """Returns, for the tokens of a region, whether one of the readers is read."""
            return writer.as_tokens(of_body(readers), region, body.parameters[0].output())

        calls = {site.calls[0]: site for site in self.graph.inner_sites if site.caller == body.name}
        for node in sweep.nodes:
            if node in calls:
                site, values = calls[node], []
                for _, place in self._entrances(site.callee):
                    readers = self.reads.of(site.returns[place].output())
                    answer = readers if self.reads.is_for_some(readers) else bool(readers)
                    values.append(are_read(answer, site.region))
                writer.nodes += self._pass(site, values)
            if node not in body.parameters:
                writer.add(node)
        for node, readers in asked.items():
            self.where_read[node] = Branch(node.region, are_read(readers, node.region), 0, 2)
        sweeps = [replace(sweep, parameters=[*sweep.parameters, *entrances], nodes=writer.nodes)]
        return replace(body, sweeps=sweeps)

    def _pass(self, site: CallSite, values: Iterable[Value]) -> list[Call]:
        """Adds CALLs that pass values to the new entrances of the callee, and returns them."""
        calls = []
        for value, entrance in zip(values, self._entrances(site.callee).values(), strict=True):
            calls.append(replace(site.calls[0], inputs=[value], types=[_BOOL]))
            entrance.inputs.append(calls[-1].output())
        (linkage,) = site.linkages
        linkage = replace(linkage, calls=(*linkage.calls, *calls))
        self.sites[site.label] = replace(site, linkages=(linkage,))
        return calls
