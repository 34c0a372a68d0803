"""Graphs in DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterable

from kerasrec.graph.graph import FunctionGraphs, Node, TaggedGraph
from kerasrec.graph.printer import title

_SHAPES = {
    "CALL": "cds",
    "RETURN": "cds",
    "CALLSITE": "cds",
    "MERGE": "invtrapezium",
    "SWITCH": "trapezium",
    "REPEAT": "house",
    "ENTER": "house",
    "LEAVE": "invhouse",
    "SHARED": "note",
    "ARGUMENT": "plaintext",
    "PARAMETER": "plaintext",
}


def function_graphs_to_dot(graphs: FunctionGraphs) -> str:
    """DOT of function graphs, a cluster for each function."""
    writer = _Writer()
    for function in graphs:
        writer.cluster(function.name, function.nodes)
    writer.edges(node for function in graphs for node in function.nodes)
    return writer.text()


def tagged_graph_to_dot(graph: TaggedGraph) -> str:
    """DOT of a tagged or extended graph; control edges are dashed, gradient nodes grey."""
    writer = _Writer()
    for body in graph.bodies.values():
        writer.cluster(body.name, body.nodes, body.gradient_nodes)
    inside = {node for body in graph.bodies.values() for node in body.all_nodes}
    writer.nodes(node for node in graph.nodes if node not in inside)
    writer.edges(graph.nodes)
    return writer.text()


class _Writer:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._ids: dict[Node, str] = {}

    def cluster(self, name: str, nodes: Iterable[Node], gradient: Iterable[Node] = ()) -> None:
        self._lines.append(f'  subgraph "cluster_{name}" {{ label="{name}";')
        self.nodes(nodes)
        self.nodes(gradient, ' style=filled fillcolor="lightgrey"')
        self._lines.append("  }")

    def nodes(self, nodes: Iterable[Node], style: str = "") -> None:
        for node in nodes:
            label = title(node).replace("\\", "\\\\").replace('"', '\\"')
            if node.source:
                label += f"\\n{node.source}"
            shape = _SHAPES.get(node.op, "box")
            self._lines.append(f'    {self._id(node)} [label="{label}" shape={shape}{style}];')

    def edges(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            for value in node.inputs:
                label = f' [label="{value.type}"]'
                self._lines.append(f"  {self._id(value.node)} -> {self._id(node)}{label};")
            for before in node.control:
                self._lines.append(f"  {self._id(before)} -> {self._id(node)} [style=dashed];")

    def _id(self, node: Node) -> str:
        return self._ids.setdefault(node, f"n{len(self._ids)}")

    def text(self) -> str:
        return "\n".join(["digraph program {", *self._lines, "}", ""])
