"""The scope of each node in a picture: its function, gradient, and branch of a conditional.

A scope is a path such as `("power", "cond", "false")`, which TensorBoard and Graphviz draw as boxes
inside each other. SWITCHes and MERGEs of a conditional stand in its scope, beside its branches;
what runs for each entry of rows stands in a scope `rows`. The gradient repeats the scopes of its
function below `("power", "gradient")`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import tensorflow as tf

from kerasrec.graph.printer import sweep_name
from kerasrec.graph.region import Branch, Each, Region

if TYPE_CHECKING:
    from kerasrec.graph.graph import FunctionGraph, Node, TaggedGraph, Value

Scope = tuple[str, ...]

# No function can have these names, because they contain a space.
SHARED: Scope = ("shared values",)
OUTSIDE: Scope = ("call from outside",)


def scopes_of_functions(functions: Iterable[FunctionGraph]) -> dict[Node, Scope]:
    """The scope of every node, function by function."""
    scopes: dict[Node, Scope] = {}
    for function in functions:
        scopes |= _scopes_in(_Conditionals(), (function.name,), function.nodes)
    return scopes


def scopes_of_tagged(graph: TaggedGraph) -> dict[Node, Scope]:
    """The scope of every node: shared values and the outside first, then body by body."""
    scopes = dict.fromkeys(graph.nodes, OUTSIDE) | dict.fromkeys(graph.shared, SHARED)
    for body in graph.bodies.values():
        conditionals = _Conditionals()
        for index, sweep in enumerate(body.sweeps):
            scope = (body.name, sweep_name(index)) if index else (body.name,)
            scopes |= _scopes_in(conditionals, scope, sweep.nodes)
    return scopes


def names_in(scopes: dict[Node, Scope]) -> dict[Node, str]:
    """A name for each node, `power/cond/false/Mul_1`, that TensorFlow accepts for an op."""
    names: dict[Node, str] = {}
    taken: set[str] = set()
    for node, scope in scopes.items():
        base = name = "/".join(_valid(part) for part in (*scope, _short(node)))
        number = 0
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names[node] = name
    return names


def _scopes_in(
    conditionals: _Conditionals, scope: Scope, nodes: Iterable[Node]
) -> dict[Node, Scope]:
    return {node: (*scope, *conditionals.around(node)) for node in nodes}


class _Conditionals:
    """Names for conditionals and rows of a body, in the order in which its nodes meet them."""

    def __init__(self) -> None:
        self._names: dict[tuple[Region | None, Value], str] = {}

    def around(self, node: Node) -> list[str]:
        """The conditionals, branches and rows that a node stands in, from the outermost."""
        parts: list[str] = []
        for region in node.region.path() if node.region else ():
            parts.append(self._name(region.parent, region.selector, isinstance(region, Each)))
            if isinstance(region, Branch):
                parts.append(branch_name(region.selector, region.branch))
        predicate = chosen_by(node)
        return parts if predicate is None else [*parts, self._name(node.region, predicate)]

    def _name(self, region: Region | None, selector: Value, is_each: bool = False) -> str:
        if (region, selector) not in self._names:
            choice = "cond" if selector.type.dtype == tf.bool else "switch"
            kind = "rows" if is_each else choice
            number = sum(
                around == region and name.startswith(kind)
                for (around, _), name in self._names.items()
            )
            self._names[(region, selector)] = f"{kind}_{number}" if number else kind
        return self._names[(region, selector)]


def chosen_by(node: Node) -> Value | None:
    """The predicate of the conditional that a SWITCH or MERGE belongs to; None for other nodes."""
    return node.inputs[1] if node.op == "SWITCH" else node.attributes.get("predicate")


def branch_name(predicate: Value, branch: int) -> str:
    """The name of a branch: true or false, or its number."""
    if predicate.type.dtype == tf.bool:
        return ("true", "false")[branch]
    return str(branch)


def _short(node: Node) -> str:
    """`CALL_0`, `MERGE_n`, `AddV2`."""
    parts = [node.op, node.attributes.get("label"), node.attributes.get("name")]
    return "_".join(str(part) for part in parts if part is not None)


def _valid(part: str) -> str:
    """A part of a scope, without the characters that TensorFlow does not allow in names."""
    text = re.sub(r"[^A-Za-z0-9_.\-]", "_", part)
    return text if re.match(r"[A-Za-z0-9.]", text) else f"f{text}"
