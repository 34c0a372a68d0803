"""Checks the invariants of graphs; the result of every pass is checked before it is used."""

from __future__ import annotations

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.graph import CallSite, FunctionGraphs, Linkage, Sweep, TaggedGraph, present
from kerasrec._src.graph.nodes import CallOf
from kerasrec._src.graph.values import Node


def check_function_graphs(graphs: FunctionGraphs) -> None:
    """Raises GraphError unless every function is well formed and every callee exists."""
    for function in graphs:
        seen: set[Node] = set()
        for node in function.nodes:
            for value in node.inputs:
                if value.node not in seen:
                    raise GraphError(f"{function.name}: {node.op} stands before its input.")
            _check_node(function.name, node)
            if isinstance(node, CallOf):
                callee = graphs.functions.get(node.callee)
                if callee is None:
                    raise GraphError(f"{function.name} calls an unknown function.")
                for value, item in zip(node.inputs, callee.parameters, strict=True):
                    if not item.types[0].accepts(value.type):
                        message = f"{function.name} passes {value.type} for {item.types[0]}."
                        raise GraphError(message)
            seen.add(node)


def check_tagged_graph(graph: TaggedGraph) -> None:
    """Raises GraphError unless every edge stays in the graph and every call fits its function."""
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
        ends = [node for linkage in site.linkages for node in (*linkage.calls, *linkage.returns)]
        labels = {node.label for node in ends if node}
        if labels != {label} or site.label != label:
            raise GraphError(f"The call site {label} of {body.name} has nodes with another label.")
        for linkage, sweep in zip(site.linkages, body.sweeps, strict=True):
            if linkage.calls:
                _check_linkage(site, linkage, sweep)


def _check_linkage(site: CallSite, linkage: Linkage, sweep: Sweep) -> None:
    for call, parameter in zip(linkage.calls, sweep.parameters, strict=True):
        if call and (parameter is None or call.output() not in parameter.inputs):
            raise GraphError(f"CALL_{site.label} does not reach its MERGE.")
    calls = set(present(linkage.calls) or site.calls)
    for back, output in zip(linkage.returns, sweep.outputs, strict=True):
        if back and (output is None or back.inputs != [output.output()]):
            raise GraphError(f"RETURN_{site.label} does not read an output of its function.")
        if back and not calls & set(back.control):
            raise GraphError(f"RETURN_{site.label} has no control edge from CALL.")


def _check_node(name: str, node: Node) -> None:
    node.check(f"{name}: {node.op}{f' at {node.source}' if node.source else ''}")
