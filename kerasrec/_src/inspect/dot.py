"""Graphs in DOT, the language of Graphviz.

Functions, their gradients, conditionals and branches are boxes inside each other, see
`inspect/scopes.py`. Edges that enter or leave functions are blue; control edges are dashed.
"""

from __future__ import annotations

from kerasrec._src.graph.nodes import Accumulate, Call, Collect, Return, Switch
from kerasrec._src.graph.values import Branch, Node, Value
from kerasrec._src.inspect.scopes import OUTSIDE, SHARED, Scope

_HEAD = """digraph program {
  graph [fontname="Helvetica" fontsize=12 labeljust=l style=rounded];
  node [fontname="Helvetica" fontsize=11 style=filled fillcolor=white];
  edge [fontname="Helvetica" fontsize=9 arrowsize=0.7];"""
_CALL = 'shape=cds height=0.6 fillcolor="#cfe2f3"'
_CHOICE = 'margin="0,0.03" fillcolor="#fff2cc"'
_NODES = {
    "CALLSITE": _CALL,
    "MERGE": f"shape=invtrapezium {_CHOICE}",
    "SWITCH": f"shape=trapezium {_CHOICE}",
    "REPEAT": f"shape=house {_CHOICE}",
    "ENTER_ROWS": f"shape=house {_CHOICE}",
    "LEAVE_ROWS": f"shape=invhouse {_CHOICE}",
    "SHARED": "shape=note",
    "ARGUMENT": "shape=plaintext",
    "PARAMETER": "shape=plaintext",
}
_GRADIENT_BOX = 'bgcolor="#e2efda"'
_INNER_BOX = 'color="#999999"'
_BLUE = 'color="#3d85c6"'


def to_dot(scopes: dict[Node, Scope]) -> str:
    """Returns nodes and their edges in DOT, with boxes for functions and for their gradients."""
    names = {node: f"n{place}" for place, node in enumerate(scopes)}
    boxes: dict[Scope, list[Node]] = {(): []}
    for node, scope in scopes.items():
        scope = () if scope in (SHARED, OUTSIDE) else scope
        for length in range(1, len(scope) + 1):
            boxes.setdefault(scope[:length], [])
        boxes[scope].append(node)
    lines = [_HEAD, *_box((), boxes, names)]
    for node in scopes:
        for value in node.inputs:
            lines.append(f"  {names[value.node]} -> {names[node]} [{_edge(value, node, scopes)}];")
        for before in node.control:
            lines.append(f"  {names[before]} -> {names[node]} [style=dashed];")
        if isinstance(node, Collect) and node.size:
            size = node.size.node
            lines.append(f'  {names[size]} -> {names[node]} [label="size" style=dotted];')
        if isinstance(node, Accumulate):
            total = node.to.node
            lines.append(f'  {names[node]} -> {names[total]} [label="sum" style=dotted];')
    return "\n".join([*lines, "}", ""])


def _box(scope: Scope, boxes: dict[Scope, list[Node]], names: dict[Node, str]) -> list[str]:
    """Returns the lines of a box: its nodes, then the boxes inside it."""
    lines = [f"{names[node]} [{_node(node)}];" for node in boxes[scope]]
    for inner in boxes:
        if inner and inner[:-1] == scope:
            lines += _box(inner, boxes, names)
    if scope:
        name, label = _quoted("cluster_" + "/".join(scope)), _quoted(scope[-1])
        style = _style(scope)
        lines = [f"subgraph {name} {{ label={label}; {style}".rstrip(), *lines, "}"]
    return ["  " + line for line in lines]


def _style(scope: Scope) -> str:
    if len(scope) == 1:
        return ""
    is_gradient = scope[1].startswith(("gradient", "sweep ")) and len(scope) == 2
    return _GRADIENT_BOX if is_gradient else _INNER_BOX


def _node(node: Node) -> str:
    label = f"{node.title}\n{node.source}" if node.source else node.title
    return f"label={_quoted(label)} {_shape(node)}"


def _edge(value: Value, node: Node, scopes: dict[Node, Scope]) -> str:
    label = str(value.type)
    if isinstance(value.node, Switch) and isinstance(value.region, Branch):
        label = f"{value.region.name} {label}"
    elif len(value.node.types) > 1:
        label = f":{value.index} {label}"
    style = f"label={_quoted(label)}"
    if isinstance(value.node, Call) or isinstance(node, Return):
        style += f" {_BLUE}"
        if scopes[value.node][0] == scopes[node][0]:
            # An edge from a body to itself must not turn the picture upside down.
            style += " constraint=false"
    return style


def _shape(node: Node) -> str:
    if node.is_constant:
        return "shape=plaintext"
    return _CALL if isinstance(node, Call | Return) else _NODES.get(node.op, "shape=box")


def _quoted(text: str) -> str:
    """Returns the text as a quoted string of DOT."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
