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
    TYPE      := f32[2,3] for a token; the other kinds have "shared " or "wave " in front

Names are given while printing: %0, %1 and so on, in the order of the lines. The indented lines
below a branch are for the tokens that take it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Branch, Node, Region, Source, Value


class Section(NamedTuple):
    """A part of a printed graph: a line, the nodes below it, and what a function returns."""

    head: str
    nodes: Sequence[Node]
    returns: Sequence[Value] | None = None


def print_sections(sections: Sequence[Section]) -> str:
    """Returns the text of the sections of a graph."""
    values = [value for section in sections for node in section.nodes for value in node.outputs]
    names = {value: f"%{place}" for place, value in enumerate(values)}
    blocks = []
    for section in sections:
        lines = [section.head, *_lines(section.nodes, names)]
        if section.returns is not None:
            lines.append(f"  return {_all(section.returns, names)}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def comment(source: Source | None) -> str:
    """Returns the user's line as a comment, for the end of a line."""
    return f"  # {source}" if source else ""


def sweep_name(index: int) -> str:
    """Returns the name of a sweep after sweep 0: "gradient" for 1, then "sweep" and its number."""
    return "gradient" if index == 1 else f"sweep {index}"


def _all(values: Iterable[Value], names: dict[Value, str]) -> str:
    return ", ".join(names[value] for value in values)


def _lines(nodes: Iterable[Node], names: dict[Value, str]) -> list[str]:
    """Returns a line for each node, and one wherever a branch begins or continues."""
    lines: list[str] = []
    open_branches: tuple[Region, ...] = ()
    for node in nodes:
        path = node.region.path() if node.region else ()
        for depth, region in enumerate(path):
            if region not in open_branches:
                text = branch_text(region, names[region.selector])
                lines.append("  " * (depth + 1) + text + ":")
        open_branches = path
        lines.append("  " * (len(path) + 1) + _line(node, names))
    return lines


def branch_text(region: Region, selector: str) -> str:
    """Returns text that says which tokens a region has.

    Args:
        region: A region of a graph.
        selector: The name of the value that decides.
    """
    if not isinstance(region, Branch):
        return f"for each of {selector} entries"
    is_bool, is_last = region.selector.type.dtype.is_bool, region.siblings[-1] == region
    choice = "another" if is_last and not is_bool else region.name
    return f"where {selector} is {choice}"


def _line(node: Node, names: dict[Value, str]) -> str:
    text = ""
    if node.outputs:
        types = ", ".join(type_text(value) for value in node.outputs)
        text += f"{_all(node.outputs, names)}: {types} = "
    text += node.title + node.rest(names.__getitem__)
    if node.control:
        text += f" after {node.control[0].title}"
    return text + comment(node.source)


def type_text(value: Value) -> str:
    """Returns the type of a value, with its kind if it is not a TOKEN."""
    kind = value.type.kind
    return str(value.type) if kind is Kind.TOKEN else f"{kind.value} {value.type}"
