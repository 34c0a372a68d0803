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

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Branch, Node, Region, Source, Value

_Part = TypeVar("_Part")


class GraphPart(NamedTuple):
    """A part of a printed graph: a line, the nodes below it, and the results of a function."""

    head: str
    nodes: Sequence[Node]
    returns: Sequence[Value] | None = None


class Names:
    """Names of values, given while printing: %0, %1 and so on."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}

    def of(self, value: Value) -> str:
        """Returns the name of a value."""
        return self._names.setdefault(value, f"%{len(self._names)}")

    def all(self, values: Iterable[Value]) -> str:
        """Returns the names of some values."""
        return ", ".join(map(self.of, values))

    def outputs(self, values: Sequence[Value]) -> str:
        """Returns the text in front of an op: the names and types of the values it computes."""
        return f"{self.all(values)}: {', '.join(map(type_text, values))} = " if values else ""

    def region(self, region: Region | None) -> str:
        """Returns text for the tokens of a region."""
        if region is None:
            return ""
        selector = self.of(region.selector)
        if not isinstance(region, Branch):
            return f"for each of {selector} entries"
        is_bool, is_last = region.selector.type.dtype.is_bool, region.siblings[-1] == region
        choice = "another" if is_last and not is_bool else region.name
        return f"where {selector} is {choice}"

    def lines(
        self, parts: Iterable[tuple[Region | None, _Part]], line: Callable[[_Part], str]
    ) -> list[str]:
        """Returns a line for each part of a graph, and one wherever a branch begins or continues.

        Args:
            parts: The parts, each with the region that it is in.
            line: Returns the line of a part.
        """
        lines: list[str] = []
        open_branches: tuple[Region, ...] = ()
        for region, part in parts:
            path = region.path() if region else ()
            for depth, inside in enumerate(path):
                if inside not in open_branches:
                    lines.append("  " * (depth + 1) + f"{self.region(inside)}:")
            open_branches = path
            lines.append("  " * (len(path) + 1) + line(part))
        return lines


def print_graph(parts: Sequence[GraphPart]) -> str:
    """Returns the text of the parts of a graph."""
    names = Names()
    for value in (value for part in parts for node in part.nodes for value in node.outputs):
        names.of(value)

    def line(node: Node) -> str:
        after = f" after {node.control[0].title}" if node.control else ""
        text = f"{node.title}{node.rest(names.of)}{after}{comment(node.source)}"
        return names.outputs(node.outputs) + text

    blocks = []
    for part in parts:
        lines = [part.head, *names.lines(((node.region, node) for node in part.nodes), line)]
        if part.returns is not None:
            lines.append(f"  return {names.all(part.returns)}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def comment(source: Source | None) -> str:
    """Returns the user's line as a comment, for the end of a line."""
    return f"  # {source}" if source else ""


def sweep_name(index: int) -> str:
    """Returns the name of a sweep after sweep 0: "gradient" for 1, then "sweep" and its number."""
    return "gradient" if index == 1 else f"sweep {index}"


def type_text(value: Value) -> str:
    """Returns the type of a value, with its kind if it is not a TOKEN."""
    kind = value.type.kind
    return str(value.type) if kind is Kind.TOKEN else f"{kind.value} {value.type}"
