"""Prints graphs.

The lines follow this grammar:

    function  := NAME "(" [NAME ": " TYPE {", " ...}] ")" newline {"  " (branch | node)}
    branch    := "where " %NAME " is " ("true" | "false" | NUMBER | "another") ":"
    node      := [%NAME {", " %NAME} ": " TYPE {", " TYPE} " = "] OP ["(" inputs ")"]
                 [place] [device] [control] ["  # " FILE ":" LINE]
    inputs    := %NAME {", " %NAME}
    place     := " into " FUNCTION for CALL, " into " %NAME for ACCUMULATE, and for COLLECT
                 with an index " at " %NAME " of " %NAME, the index and the size of its table
    device    := " on " DEVICE, where the user chose one
    control   := " after " OP_LABEL
    TYPE      := f32[2,3] for a token; "shared " or "wave " stands before the other kinds

Names are given while printing: %0, %1 and so on, in the order of the lines. The indented lines
below a branch are for the tokens that take it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from kerasrec.graph.region import Branch, Region
from kerasrec.graph.types import Kind

if TYPE_CHECKING:
    from kerasrec.graph.graph import Body, FunctionGraph, FunctionGraphs, Node, TaggedGraph, Value

_MAX_CONSTANT = 6


def print_function_graphs(graphs: FunctionGraphs) -> str:
    """Text of function graphs."""
    names = _Names(node for function in graphs for node in function.nodes)
    blocks = []
    for function in graphs:
        arguments = ", ".join(
            f"{node.attributes['name']}: {node.types[0]}" for node in function.parameters
        )
        returns = ", ".join(str(value.type) for value in function.outputs)
        lines = [f"function {function.name}({arguments}) -> {returns}{_at(function)}"]
        lines += _lines(function.nodes, names)
        lines.append(f"  return {names.all(function.outputs)}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def print_tagged_graph(graph: TaggedGraph) -> str:
    """Text of a tagged or an extended graph."""
    sections = [("shared", graph.shared)] if graph.shared else []
    sections.append(("outside", graph.outside))
    for body in graph.bodies.values():
        sections.append((f"body {body.name}{_at(body)}", body.sweeps[0].nodes))
        for index, sweep in enumerate(body.sweeps[1:], start=1):
            if sweep.nodes:
                sections.append((f"{sweep_name(index)} of {body.name}", sweep.nodes))
    names = _Names(node for _, nodes in sections for node in nodes)
    return "\n\n".join("\n".join([head, *_lines(nodes, names)]) for head, nodes in sections)


def sweep_name(index: int) -> str:
    """The name of a sweep after sweep 0: "gradient", then "sweep" and its number."""
    return "gradient" if index == 1 else f"sweep {index}"


class _Names:
    """Names for values, in the order of the nodes that produce them."""

    def __init__(self, nodes: Iterable[Node]):
        values = (value for node in nodes for value in node.outputs)
        self._names = {value: f"%{place}" for place, value in enumerate(values)}

    def of(self, value: Value) -> str:
        return self._names[value]

    def all(self, values: Iterable[Value]) -> str:
        return ", ".join(self.of(value) for value in values)


def _lines(nodes: Iterable[Node], names: _Names) -> list[str]:
    """A line for each node, and one wherever a branch begins or goes on."""
    lines: list[str] = []
    open_branches: tuple[Region, ...] = ()
    for node in nodes:
        path = node.region.path() if node.region else ()
        for depth, region in enumerate(path):
            if region not in open_branches:
                lines.append("  " * (depth + 1) + _branch(region, names))
        open_branches = path
        lines.append("  " * (len(path) + 1) + _line(node, names))
    return lines


def _branch(region: Region, names: _Names) -> str:
    selector = names.of(region.selector)
    if not isinstance(region, Branch):
        return f"for each of {selector} entries:"
    if region.selector.type.dtype == tf.bool:
        choice = ("true", "false")[region.branch]
    else:
        choice = "another" if region.branch == region.num_branches - 1 else str(region.branch)
    return f"where {selector} is {choice}:"


def _line(node: Node, names: _Names) -> str:
    text = ""
    if node.outputs:
        types = ", ".join(_type(value) for value in node.outputs)
        text += f"{names.all(node.outputs)}: {types} = "
    text += title(node)
    inputs = node.inputs[:1] if node.op == "COLLECT" else node.inputs
    if inputs:
        text += f"({names.all(inputs)})"
    if node.op == "CALL":
        text += f" into {node.attributes['callee']}"
    if node.op == "ACCUMULATE":
        text += f" into {names.of(node.attributes['to'])}"
    if "size" in node.attributes:
        text += f" at {names.of(node.inputs[1])} of {names.of(node.attributes['size'])}"
    if node.attributes.get("device"):
        text += f" on {node.attributes['device']}"
    if node.control:
        text += f" after {title(node.control[0])}"
    return text + (f"  # {node.source}" if node.source else "")


def title(node: Node) -> str:
    """What a node does, in short: `AddV2`, `CALL_0`, `Const 1`, `SHARED kernel`."""
    if node.op in ("CALL", "RETURN"):
        return f"{node.op}_{node.attributes['label']}"
    if node.op == "CALLSITE":
        return f"CALLSITE {node.attributes['callee']}"
    if node.op == "Const":
        return f"Const {_constant(node)}"
    name = node.attributes.get("name")
    return f"{node.op} {name}" if name else node.op


def _constant(node: Node) -> str:
    value = tf.make_ndarray(node.attributes["operation"].get_attr("value"))
    if value.size > _MAX_CONSTANT:
        return "..."
    return np.array2string(value, separator=",").replace("\n", "")


def _type(value: Value) -> str:
    kind = value.type.kind
    return str(value.type) if kind is Kind.TOKEN else f"{kind.value} {value.type}"


def _at(part: FunctionGraph | Body) -> str:
    return f"  # {part.source}" if part.source else ""
