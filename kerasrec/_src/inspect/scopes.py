"""The scope of each node in a picture: its function, gradient, and branch of a conditional.

A scope is a path such as `("power", "cond", "false")`, which TensorBoard and Graphviz draw as boxes
inside each other. The SWITCHes and MERGEs of a conditional are in its scope, next to its branches.
Nodes that run for each entry of rows are in a scope `rows`. The gradient repeats the scopes of its
function below `("power", "gradient")`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import tensorflow as tf

from kerasrec._src.graph.nodes import CallOf, Merge, Primitive, Switch
from kerasrec._src.graph.values import Branch, Each, Node, Region, Value

Scope = tuple[str, ...]

# No function can have these names, because they contain a space.
SHARED: Scope = ("shared values",)
OUTSIDE: Scope = ("call from outside",)


def scopes_of(parts: Iterable[tuple[Scope, Iterable[Node]]]) -> dict[Node, Scope]:
    """Returns the scope of every node, in order.

    Args:
        parts: For each function, or sweep of one, its scope and its nodes.
    """
    conditionals: dict[str, _Conditionals] = defaultdict(_Conditionals)
    return {
        node: (*scope, *conditionals[scope[0]].around(node))
        for scope, nodes in parts
        for node in nodes
    }


def names_in(scopes: dict[Node, Scope]) -> dict[Node, str]:
    """Returns a name for each node that TensorFlow accepts for an op: `power/cond/false/Mul_1`."""
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


class _Conditionals:
    """Names for conditionals and rows of a body, in the order in which its nodes meet them."""

    def __init__(self) -> None:
        self._names: dict[tuple[Region | None, Value], str] = {}

    def around(self, node: Node) -> list[str]:
        """The conditionals, branches and rows that a node is in, the outermost first."""
        parts: list[str] = []
        for region in node.region.path() if node.region else ():
            parts.append(self._name(region.parent, region.selector, isinstance(region, Each)))
            if isinstance(region, Branch):
                parts.append(region.name)
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
    if isinstance(node, Merge):
        return node.predicate
    return node.inputs[1] if isinstance(node, Switch) else None


def _short(node: Node) -> str:
    """`CALL_0`, `MERGE_n`, `AddV2`."""
    return node.op if isinstance(node, CallOf | Primitive) else node.title


def _valid(part: str) -> str:
    """Replaces the characters of a scope that TensorFlow does not allow in names."""
    text = re.sub(r"[^A-Za-z0-9_.\-]", "_", part)
    return text if re.match(r"[A-Za-z0-9.]", text) else f"f{text}"
