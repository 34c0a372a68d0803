"""The stage `tag`: function graphs to one static tagged graph.

Kostopoulou et al., section 3: call site i becomes CALL_i for each argument and RETURN_i for each
output, arguments of a function become MERGEs that gather all its call sites, and a control edge
leads from CALL_i to RETURN_i. Where the function is a loop, they are called ENTER_i, NEXT_i and
EXIT_i. Call sites are numbered in the order in which they stand in the
program, the call from outside last (as in Vasilakopoulos 2024, figure 4.6).
"""

from __future__ import annotations

from dataclasses import replace

from kerasrec.errors import SignatureError
from kerasrec.graph.check import check_tagged_graph
from kerasrec.graph.graph import (
    Body,
    CallSite,
    FunctionGraph,
    FunctionGraphs,
    Sweep,
    TaggedGraph,
    Traced,
)
from kerasrec.graph.nodes import Argument, CallOf, Collect, Computed, Entrance, Parameter, Result
from kerasrec.graph.values import Node, Region, Value
from kerasrec.transform.trips import trip


def tag(graphs: FunctionGraphs) -> TaggedGraph:
    """One graph in which each function has one body, however often it is called."""
    tagging = _Tagging(frozenset(function.name for function in graphs if function.is_loop))
    for function in graphs:
        tagging.place(function)
    for function in graphs:
        tagging.connect(function)
    tagging.call_from_outside(graphs.entry)
    graph = TaggedGraph(tagging.bodies, graphs.entry, tagging.call_sites, tagging.shared)
    _check_tables(graph)
    check_tagged_graph(graph)
    return graph


def _check_tables(graph: TaggedGraph) -> None:
    """Raises SignatureError if values collected under one name do not fit into one table."""
    first: dict[str, Collect] = {}
    for node in graph.collects:
        name = node.name
        other = first.setdefault(name, node)
        types = (other.inputs[0].type, node.inputs[0].type)
        if types[0] != types[1]:
            raise SignatureError(
                f"kerasrec.collect keeps two types in the table {name!r}: {types[0]} at "
                f"{other.source}, {types[1]} at {node.source}. Use a separate table for each type."
            )
        if len(other.inputs) != len(node.inputs):
            pair = sorted((other, node), key=lambda item: len(item.inputs))
            places = [str(item.source) for item in pair]
            raise SignatureError(
                f"kerasrec.collect writes to the table {name!r} without an index at {places[0]} "
                f"and with one at {places[1]}. Use two tables, with different names."
            )


class _Tagging:
    def __init__(self, loops: frozenset[str]) -> None:
        self._loops = loops
        self.bodies: dict[str, Body] = {}
        self.call_sites: dict[int, CallSite] = {}
        self.shared: list[Node] = []
        self._moved: dict[Value, Value] = {}
        self._regions: dict[Region, Region] = {}

    def place(self, function: FunctionGraph) -> None:
        """Puts the body's entrance and exit into the graph."""
        parameters = [
            Entrance([], node.types, None, node.source, name=node.name, is_carried=node.is_carried)
            for node in function.parameters
        ]
        outputs = [Result([], [value.type], None, function.source) for value in function.outputs]
        self.bodies[function.name] = Body(
            function.name,
            [Sweep([*parameters], [*outputs], [*parameters], [])],
            (Traced(function.traced.concrete, {}),),
            function.source,
        )
        for old, new in zip(function.parameters, parameters, strict=True):
            self._moved[old.output()] = new.output()

    def connect(self, function: FunctionGraph) -> None:
        """Copies the body, each call replaced by CALL and RETURN nodes."""
        body = self.bodies[function.name]
        for node in function.nodes:
            if isinstance(node, CallOf):
                self._call(body, node)
            elif not isinstance(node, Parameter):
                self._copy(body, node)
        for node, value in zip(body.outputs, function.outputs, strict=True):
            node.inputs.append(self._moved[value])
        body.sweeps[0].nodes += body.outputs
        (traced,) = body.traced
        for name, value in function.traced.values.items():
            if value in self._moved:
                traced.values[name] = self._moved[value]

    def call_from_outside(self, entry: str) -> None:
        """Adds the last call site: ARGUMENTs of the whole program and its RETURNs."""
        arguments = [
            Argument([], node.types, None, node.source, name=node.name).output()
            for node in self.bodies[entry].parameters
        ]
        self._site(CallSite(len(self.call_sites), None, entry), arguments)

    def _copy(self, body: Body, node: Node) -> None:
        copy = node.copy(self._moved.__getitem__, self._region(node.region))
        is_shared = isinstance(copy, Computed) and not copy.types  # An assignment; it runs once.
        is_shared |= bool(copy.types) and copy.output().is_shared
        (self.shared if is_shared else body.sweeps[0].nodes).append(copy)
        if isinstance(copy, Collect):
            body.sweeps[0].sinks.append(copy)
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            self._moved[old] = new

    def _call(self, body: Body, node: CallOf) -> None:
        label, region = len(self.call_sites), self._region(node.region)
        site = self._site(
            CallSite(
                label, body.name, node.callee, region, node.source, node.callee in self._loops
            ),
            [self._moved[value] for value in node.inputs],
        )
        body.sweeps[0].nodes += [*site.calls, *site.returns]
        for old, new in zip(node.outputs, site.returns, strict=True):
            self._moved[old] = new.output()

    def _site(self, site: CallSite, arguments: list[Value]) -> CallSite:
        """Adds a call site with its first trip."""
        first = trip(site, arguments, self.bodies[site.callee].sweeps[0])
        found = self.call_sites[site.label] = replace(site, trips=(first,))
        return found

    def _region(self, region: Region | None) -> Region | None:
        if region is None:
            return None
        if region not in self._regions:
            self._regions[region] = replace(
                region,
                parent=self._region(region.parent),
                selector=self._moved[region.selector],
            )
        return self._regions[region]
