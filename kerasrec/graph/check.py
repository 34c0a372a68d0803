"""Invariants of graphs; every pass has its result checked before it hands it on."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.errors import GraphError
from kerasrec.graph.graph import (
    CallSite,
    FunctionGraphs,
    Node,
    Sweep,
    TaggedGraph,
    Trip,
    present,
)
from kerasrec.graph.region import Each
from kerasrec.graph.types import Kind, Type


def check_function_graphs(graphs: FunctionGraphs) -> None:
    """Raises GraphError unless every function is well formed and every callee is there."""
    for function in graphs:
        seen: set[Node] = set()
        for node in function.nodes:
            for value in node.inputs:
                if value.node not in seen:
                    raise GraphError(f"{function.name}: {node.op} stands before its input.")
            _check_node(function.name, node)
            if node.op == "CALLSITE":
                callee = graphs.functions.get(node.attributes["callee"])
                if callee is None:
                    raise GraphError(f"{function.name} calls an unknown function.")
                _check_passed(function.name, node, [item.types[0] for item in callee.parameters])
            seen.add(node)


def check_tagged_graph(graph: TaggedGraph) -> None:
    """Raises GraphError unless every edge ends in the graph and every call meets its function."""
    nodes = set(graph.nodes)
    for body in graph.bodies.values():
        for node in body.nodes:
            _check_node(body.name, node)
    for node in nodes:
        for value in node.inputs:
            if value.node not in nodes:
                raise GraphError(f"{node.op} reads {value.node.op}, which is not in the graph.")
    for label, site in graph.call_sites.items():
        body = graph.bodies[site.callee]
        ends = [node for trip in site.trips for node in (*trip.calls, *trip.returns)]
        labels = {node.attributes["label"] for node in present(ends)}
        if labels != {label} or site.label != label:
            raise GraphError(f"The call site {label} of {body.name} has nodes with another label.")
        for trip, sweep in zip(site.trips, body.sweeps, strict=True):
            if trip.calls:
                _check_trip(site, trip, sweep)


def _check_trip(site: CallSite, trip: Trip, sweep: Sweep) -> None:
    for call, parameter in zip(trip.calls, sweep.parameters, strict=True):
        if call and (parameter is None or call.output() not in parameter.inputs):
            raise GraphError(f"CALL_{site.label} does not reach its MERGE.")
    calls = set(present(trip.calls) or site.calls)
    for back, output in zip(trip.returns, sweep.outputs, strict=True):
        if back and (output is None or back.inputs != [output.output()]):
            raise GraphError(f"RETURN_{site.label} does not read an output of its function.")
        if back and not calls & set(back.control):
            raise GraphError(f"RETURN_{site.label} has no control edge from CALL.")


def _check_node(name: str, node: Node) -> None:
    place = f"{name}: {node.op}{f' at {node.source}' if node.source else ''}"
    for value in node.inputs:
        if not 0 <= value.index < len(value.node.types):
            raise GraphError(f"{place} reads an output that {value.node.op} does not have.")
    if node.op == "SWITCH":
        value, predicate = node.inputs
        if predicate.type.kind is not Kind.TOKEN or predicate.type.shape != ():
            raise GraphError(f"{place}: predicate {predicate.type} is not one value per token.")
        if any(item != value.type for item in node.types):
            raise GraphError(f"{place} changes a type.")
    if node.op in ("REPEAT", "ENTER", "LEAVE", "ROWS"):
        _check_rows(place, node)
    if node.op == "MERGE" and not all(node.types[0].accepts(item.type) for item in node.inputs):
        raise GraphError(f"{place} merges different types.")
    if node.is_primitive and node.types and node.types[0].kind is not Kind.SHARED:
        for value in node.inputs:
            if not value.is_shared and value.region != node.region:
                raise GraphError(f"{place} reads a value of another branch.")


def _check_rows(place: str, node: Node) -> None:
    *values, lengths = node.inputs[:2]
    if lengths.type != Type(tf.int32, ()):
        raise GraphError(f"{place}: lengths {lengths.type} are not one number per token.")
    entries = node.region
    if node.op in ("LEAVE", "ROWS"):
        entries = values[0].region if values else Each(node.region, lengths)
        if lengths.region != node.region:
            raise GraphError(f"{place} stands in another region than its lengths.")
    if entries is None or not any(isinstance(region, Each) for region in entries.path()):
        raise GraphError(f"{place} neither reads nor makes entries of rows.")


def _check_passed(name: str, node: Node, wanted: Sequence[Type]) -> None:
    for value, item in zip(node.inputs, wanted, strict=True):
        if not item.accepts(value.type):
            raise GraphError(f"{name} passes {value.type} for {item}.")
