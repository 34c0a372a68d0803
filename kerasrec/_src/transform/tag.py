"""The stage `tag`: function graphs to one static tagged graph.

Kostopoulou et al., section 3: call site i becomes CALL_i for each argument and RETURN_i for each
output. The arguments of a function become MERGEs, which gather values from all its call sites. A
control edge goes from CALL_i to RETURN_i. If the function is a loop, the nodes are called ENTER_i,
NEXT_i and EXIT_i. Call sites are numbered in the order of the program, and the call from outside
comes last (as in Vasilakopoulos 2024, figure 4.6).

With `memo`, equal calls are one call. Arguments that all calls of a root have in common are then
not passed to the calls, but become tables that all calls share (`per_root.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kerasrec._src.errors import SignatureError
from kerasrec._src.graph.carried import FOR_ERRORS
from kerasrec._src.graph.graph import (
    Body,
    CallSite,
    FunctionGraph,
    FunctionGraphs,
    Linkage,
    Memo,
    Sweep,
    TaggedGraph,
    Traced,
    present,
)
from kerasrec._src.graph.nodes import (
    Argument,
    Call,
    CallOf,
    Collect,
    Computed,
    Entrance,
    LoopEnter,
    LoopExit,
    LoopNext,
    Parameter,
    Primitive,
    Result,
    Return,
    RowsOfRoots,
)
from kerasrec._src.graph.values import Node, Region, Value
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.private import has_own_gradient
from kerasrec._src.transform.per_root import (
    PerRoot,
    TableRows,
    differs_by_root,
    per_root_of,
    table_type,
)
from kerasrec._src.transform.primitives import PrimitiveWriter


def tag(graphs: FunctionGraphs, memo: bool = False, across_roots: bool = False) -> TaggedGraph:
    """Returns one graph in which each function has one body, however often it is called.

    Args:
        graphs: The graphs of all functions.
        memo: Whether equal calls of a root token are one call.
        across_roots: Whether equal calls of different root tokens are also one call.

    Raises:
        TraceError: If `memo` is on, and calls cannot be told apart.
        SignatureError: If values collected under one name do not fit into one table.
    """
    per_root = per_root_of(graphs) if memo else None
    if per_root and across_roots:
        raise differs_by_root(graphs, per_root)
    tagging = _Tagging(graphs, per_root, across_roots)
    for function in graphs:
        tagging.place(function)
    for function in graphs:
        tagging.connect(function)
    graph = TaggedGraph(tagging.bodies, graphs.entry, tagging.call_sites, tagging.shared)
    label = max(graph.call_sites, default=-1) + 1
    graph.call_sites[label] = CallSite(label, None, graphs.entry, linkages=(Linkage(),))
    call_from_outside(graph, 0)
    if per_root is not None:
        graph.memo = Memo(across_roots)
    taken = set(tagging.taken(graphs.functions[graphs.entry]))
    graph.left_out = graphs.left_out | {
        place for node, place in graphs.places.items() if node not in taken
    }
    _check_tables(graph)
    graph.check()
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
                f"kerasrec.collect is given two types for {name!r}: {types[0]} at {other.source}, "
                f"{types[1]} at {node.source}. Use a separate name for each type."
            )
        if len(other.inputs) != len(node.inputs):
            pair = sorted((other, node), key=lambda item: len(item.inputs))
            places = [str(item.source) for item in pair]
            raise SignatureError(
                f"kerasrec.collect is given {name!r} without an index at {places[0]} and with one "
                f"at {places[1]}. Use a separate name for each."
            )


def _root_of(body: Body) -> Value:
    """The value of a body that holds the number of each token's root token."""
    (root,) = [node for node in body.parameters if node.is_root]
    return root.output()


class _Tagging:
    def __init__(
        self, graphs: FunctionGraphs, per_root: PerRoot | None, across_roots: bool
    ) -> None:
        self._has_roots = per_root is not None and not across_roots
        self._graphs = graphs
        self._per_root = per_root
        self.bodies: dict[str, Body] = {}
        self.call_sites: dict[int, CallSite] = {}
        self.shared: list[Node] = []
        self._moved: dict[Value, Value] = {}
        self._rows: dict[Value, TableRows] = {}
        self._tables: dict[int, RowsOfRoots] = {}

    def place(self, function: FunctionGraph) -> None:
        """Makes a function's body, as yet with its entrances and exits only."""
        taken = self.taken(function)
        parameters = [
            Entrance([], node.types, None, node.source, name=node.name, is_carried=node.is_carried)
            for node in taken
        ]
        if self._has_roots and not any(node.is_root for node in parameters):
            parameters.append(
                Entrance([], [FOR_ERRORS["root"]], None, None, name="root", is_carried=True)
            )
        outputs = [Result([], [value.type], None, function.source) for value in function.outputs]
        self.bodies[function.name] = Body(
            function.name,
            [Sweep([*parameters], [*outputs], [*parameters], [])],
            (Traced(function.traced.concrete, {}),),
            function.source,
        )
        for old, new in zip(taken, parameters, strict=False):
            self._moved[old.output()] = new.output()

    def connect(self, function: FunctionGraph) -> None:
        """Copies a function's nodes into its body; each call becomes CALL and RETURN nodes."""
        body = self.bodies[function.name]
        self._writer = GraphWriter(body.sweeps[0].nodes)
        if self._per_root is not None:
            self._primitives = PrimitiveWriter(body.traced, self._writer, self.shared)
        nodes = function.nodes
        for node in nodes:
            if isinstance(node, CallOf):
                self._call(body, node)
            elif isinstance(node, Parameter):
                self._parameter(body, node)
            elif not self._is_of_rows(node):
                self._copy(body, node)
        # The gradient of a `tf.custom_gradient` may read any tensor of the trace.
        if any(isinstance(node, Primitive) and has_own_gradient(node.operation) for node in nodes):
            for value in filter(self._rows.__contains__, function.traced.values.values()):
                self._value(value)
        for node, value in zip(body.outputs, function.outputs, strict=True):
            node.inputs.append(self._value(value))
        body.sweeps[0].nodes += body.outputs
        (traced,) = body.traced
        if self._rows:
            body.traced = (traced, self._primitives.scratch)
        for name, value in function.traced.values.items():
            if value in self._moved:
                traced.values[name] = self._moved[value]

    def taken(self, function: FunctionGraph) -> list[Parameter]:
        """The arguments that the body takes: all but those that become tables."""
        per_root = self._per_root or {}
        return [node for node in function.parameters if node not in per_root]

    def _parameter(self, body: Body, node: Parameter) -> None:
        """Lets a body read an argument from its table, if it has one."""
        if self._per_root is None or node not in self._per_root:
            return
        place = self._per_root[node]
        if place not in self._tables:
            types = [table_type(node)]
            table = RowsOfRoots([], types, None, node.source, name=node.name, place=place)
            self._tables[place] = table
            self.shared.append(table)
        table_of_all = self._tables[place].output()
        self._rows[node.output()] = TableRows(table_of_all, (_root_of(body),), None, node.source)

    def _is_of_rows(self, node: Node) -> bool:
        """Whether a node only passes on rows of a table, or takes entries out of them.

        Such a node is left out: rows are read from the table where another node needs them.
        """
        rows = self._rows.get(node.inputs[0]) if node.inputs else None
        indices = None if rows is None else rows.within(node, self._value)
        if rows is None or indices is None:
            return False
        for output in node.outputs:
            region = self._region(output.region)
            self._rows[output] = TableRows(rows.table, indices, region, node.source)
        return True

    def _value(self, value: Value) -> Value:
        """The value of the body that corresponds to a value of the function."""
        if value not in self._moved and value in self._rows:
            self._moved[value] = self._rows[value].read(self._writer, self._primitives)
        return self._moved[value]

    def _copy(self, body: Body, node: Node) -> None:
        copy = node.copy(self._value, self._region(node.region))
        is_shared = isinstance(copy, Computed) and not copy.types  # An assignment; it runs once.
        is_shared |= bool(copy.types) and copy.output().is_shared
        (self.shared if is_shared else body.sweeps[0].nodes).append(copy)
        if isinstance(copy, Collect):
            body.sweeps[0].sinks.append(copy)
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            self._moved[old] = new

    def _call(self, body: Body, node: CallOf) -> None:
        region = self._region(node.region)
        callee = self._graphs.functions[node.callee]
        taken = self.taken(callee)
        arguments = [
            self._value(value)
            for value, parameter in zip(node.inputs, callee.parameters, strict=True)
            if parameter in taken
        ]
        if len(arguments) < len(self.bodies[node.callee].parameters):
            arguments.append(self._writer.into(_root_of(body), region))
        site = CallSite(node.label, body.name, node.callee, region, node.source, callee.is_loop)
        first = new_linkage(site, arguments, self.bodies[node.callee].sweeps[0])
        site = self.call_sites[node.label] = replace(site, linkages=(first,))
        body.sweeps[0].nodes += [*site.calls, *site.returns]
        for old, new in zip(node.outputs, site.returns, strict=True):
            self._moved[old] = new.output()

    def _region(self, region: Region | None) -> Region | None:
        return region and region.copy(self._value)


def new_linkage(site: CallSite, values: Sequence[Value | None], callee: Sweep) -> Linkage:
    """Makes a CALL for each value, and a RETURN for each output of a sweep of the callee.

    The MERGEs of the sweep's parameters become readers of the CALLs. If the callee is a loop, the
    nodes are ENTER, NEXT and EXIT. If no values are passed, the control edges of the RETURNs come
    from the CALLs of the first linkage.

    Args:
        site: The call site. Its other linkages stay as they are.
        values: The value for each parameter of the sweep; None if nothing is passed to it.
        callee: The sweep of the callee.
    """
    enters: type[Call] = Call
    if site.is_loop:
        enters = LoopNext if site.caller == site.callee else LoopEnter
    leaves = LoopExit if site.is_loop else Return
    where = (site.region, site.source)
    name: dict[str, Any] = {"label": site.label, "callee": site.callee}
    calls: list[Call | None] = []
    for value, parameter in zip(values, callee.parameters, strict=True):
        if value is None or parameter is None:
            calls.append(None)
            continue
        call = enters([value], [value.type], *where, **name)
        parameter.inputs.append(call.output())
        calls.append(call)
    before = present(calls) or site.calls
    returns = [
        None
        if out is None
        else leaves([out.output()], out.types, *where, control=[*before], **name)
        for out in callee.outputs
    ]
    return Linkage(tuple(calls), tuple(returns))


def set_linkage(graph: TaggedGraph, label: int, index: int, found: Linkage) -> None:
    """Replaces the linkage of a call site for the sweep at `index`."""
    site = graph.call_sites[label]
    linkages = (*site.linkages[:index], found, *site.linkages[index + 1 :])
    graph.call_sites[label] = replace(site, linkages=linkages)


def call_from_outside(graph: TaggedGraph, index: int) -> None:
    """Adds a call from outside into the sweep of the entry at `index`, under the root's label."""
    sweep = graph.bodies[graph.entry].sweeps[index]
    values: list[Value | None] = []
    for parameter in sweep.parameters:
        if parameter is None:
            values.append(None)
        else:
            source = None if index else parameter.source
            argument = Argument([], parameter.types, None, source, name=parameter.name)
            values.append(argument.output())
    set_linkage(graph, graph.root.label, index, new_linkage(graph.root, values, sweep))
