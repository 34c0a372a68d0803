"""Finds which results of a call are read, if one call ignores a result that another call reads.

A value has a cotangent for a token if the call that made the token reads a result that depends on
the value. If all calls of a function read the same results, this holds for all tokens or for none.
Otherwise tokens carry the answer: for such a result, the function takes one more argument, a bool
that says whether the result is read, and calls pass it on. If only such results depend on an op,
its gradient is in a branch, for the tokens with a cotangent. So no infinite derivative is
multiplied by a zero in place of a missing cotangent, not even in the sums over tokens for weights.

The outside counts as reading all results; `dependence.py` handles those that it does not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.graph.graph import Body, CallSite, Linkage, TaggedGraph
from kerasrec._src.graph.nodes import Argument, Computed, Entrance
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Branch, Node, Region, Value
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.ops.table import Is, has
from kerasrec._src.transform.dependence import grown, passes_cotangents
from kerasrec._src.transform.primitives import PrimitiveWriter
from kerasrec._src.transform.recompute import Group, in_groups

Output = tuple[str, int]
"""An output of a body: the body's name and the output's place."""
Readers = frozenset[Output | None]
"""The outputs of a body that depend on a value; None means a table, which every call keeps."""

_BOOL = Type(tf.bool, ())


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
    """Returns the entrances to add: for each output to know, a bool that says if it is read."""
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

    def run(self, asked: dict[str, dict[Node, Readers]]) -> TaggedGraph:
        """Returns the graph with the entrances, and with branches for the gradients of `asked`."""
        where_read: dict[Node, Branch] = {}
        bodies = {
            name: self._body(body, asked[name], where_read)
            for name, body in self.graph.bodies.items()
        }
        entrances = self._entrances(self.graph.entry).values()
        arguments = [Argument([], node.types, name=node.name).output() for node in entrances]
        self._pass(self.graph.root, arguments)
        return TaggedGraph(bodies, self.graph.entry, self.sites, self.shared, where_read=where_read)

    def _entrances(self, name: str) -> dict[Output, Entrance]:
        return {output: node for output, node in self.carried.items() if output[0] == name}

    def _body(self, body: Body, asked: dict[Node, Readers], where_read: dict[Node, Branch]) -> Body:
        sweep = body.sweeps[0]
        entrances = list(self._entrances(body.name).values())
        writer = GraphWriter([*body.parameters, *entrances])
        choices = _Choices(body, writer, self.shared, self.carried)
        calls = {site.calls[0]: site for site in self.graph.inner_sites if site.caller == body.name}
        for node in sweep.nodes:
            if node in calls:
                self._call(calls[node], choices)
            if node not in body.parameters:
                writer.add(node)
        for node, readers in asked.items():
            where_read[node] = Branch(node.region, choices.of(readers, node.region), 0, 2)
        sweeps = [replace(sweep, parameters=[*sweep.parameters, *entrances], nodes=writer.nodes)]
        return replace(body, sweeps=sweeps)

    def _call(self, site: CallSite, choices: _Choices) -> None:
        values = []
        for _, place in self._entrances(site.callee):
            readers = self.reads.of(site.returns[place].output())
            answer = readers if self.reads.is_for_some(readers) else bool(readers)
            values.append(choices.of(answer, site.region))
        self._pass(site, values)
        choices.writer.nodes += self.sites[site.label].calls[len(site.calls) :]

    def _pass(self, site: CallSite, values: Iterable[Value]) -> None:
        """Adds CALLs that pass values to the new entrances of the callee."""
        first = site.calls[0]
        calls = list(site.linkages[0].calls)
        for value, entrance in zip(values, self._entrances(site.callee).values(), strict=True):
            call = replace(first, inputs=[value], types=[_BOOL])
            entrance.inputs.append(call.output())
            calls.append(call)
        linkage = Linkage(tuple(calls), site.linkages[0].returns)
        self.sites[site.label] = replace(site, linkages=(linkage,))


@dataclass(eq=False)
class _Choices:
    """Makes the values of a body that say whether results are read.

    Args:
        body: The body.
        writer: Takes the nodes that depend on tokens.
        shared: Takes the nodes that do not.
        carried: The new entrances of all bodies.
    """

    body: Body
    writer: GraphWriter
    shared: list[Node]
    carried: dict[Output, Entrance]

    def __post_init__(self) -> None:
        self._primitives = PrimitiveWriter((), self.writer, self.shared)
        self._known: dict[Readers | bool, Value] = {}

    def of(self, readers: Readers | bool, region: Region | None) -> Value:
        """Returns, for the tokens of a region, whether one of the readers is read.

        If `readers` is a bool, this is the answer for all tokens.
        """
        if readers not in self._known:
            self._known[readers] = self._of_body(readers)
        return self.writer.as_tokens(self._known[readers], region, self.body.parameters[0].output())

    def _of_body(self, readers: Readers | bool) -> Value:
        apply, source = self._primitives.apply, self.body.source
        if isinstance(readers, bool):
            return apply(lambda: tf.constant(readers), [], None, source, Kind.SHARED)
        is_read, *others = [self.carried[place].output() for place in sorted(filter(None, readers))]
        for value in others:
            is_read = apply(tf.logical_or, [is_read, value], None, source)
        return is_read
