"""Prints the plan of a program of several rounds.

The lines follow this grammar:

    plan     := turns {"then " turns} {sweep}
    turns    := "in turn: " place {", " place}
    sweep    := ("values" | "gradient, the backward pass" | "sweep " NUMBER) {function}
    function := {part} [hoisted]
    part     := place ": " NODE {", " NODE} ["; saved: " NODE {", " NODE}] {"; " done}
    done     := ("all" | BRANCH {"/" BRANCH}) (" done" | " returns what CALL_i returns")
    hoisted  := FUNCTION ", all frames at once: " NODE {", " NODE}
    place    := FUNCTION " place " NUMBER
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kerasrec.engine.tails import Tail
from kerasrec.graph.printer import sweep_name
from kerasrec.graph.values import Branch, Node

_NAMES = {0: "values", 1: "gradient, the backward pass"}
Places = Sequence[tuple[str, int]]
Nodes = Mapping[tuple[str, int], Sequence[Node]]


def print_places(
    circles: Sequence[Places], sweeps: Sequence[tuple[Nodes, Nodes]], tails: Mapping[str, Tail]
) -> str:
    """Text of a plan.

    Args:
        circles: places that take turns, in order.
        sweeps: for each sweep, the nodes that a place fires and those that it keeps; the place -1
          stands for all frames at once.
        tails: by function, where its tokens are done.
    """
    lines = []
    for number, circle in enumerate(circles):
        turn = ", ".join(f"{name} place {place}" for name, place in circle)
        lines.append(f"{'then ' if number else ''}in turn: {turn}")
    for index, (fired, kept) in enumerate(sweeps):
        if fired:
            lines += ["", _NAMES.get(index) or sweep_name(index)]
        for (name, place), nodes in fired.items():
            where = "all frames at once" if place < 0 else f"place {place}"
            parts = [f"  {name} {where}: {_titles(nodes)}"]
            if kept.get((name, place)):
                parts.append(f"saved: {_titles(kept[name, place])}")
            if not index:
                parts += _done(tails[name], place)
            lines.append("; ".join(parts))
    return "\n".join(lines)


def _titles(nodes: Iterable[Node]) -> str:
    return ", ".join(node.title for node in nodes)


def _done(tail: Tail, place: int) -> Iterator[str]:
    """Which tokens are done at a place."""
    for leaf in tail.leaves:
        if leaf.place == place:
            path = leaf.region.path() if leaf.region else ()
            which = "/".join(item.name for item in path if isinstance(item, Branch)) or "all"
            call = leaf.call
            yield f"{which} returns what CALL_{call.label} returns" if call else f"{which} done"
