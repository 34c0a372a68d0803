"""Finds tail calls: those whose results their caller returns as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kerasrec.graph.graph import Body, CallSite
from kerasrec.graph.nodes import Merge
from kerasrec.graph.values import Branch, Node, Region, Value


def tail_calls(body: Body, sites: Iterable[CallSite]) -> set[int]:
    """The labels of the tail calls of a body.

    Args:
        body: of a program; its gradient, if it has one, does not matter.
        sites: all call sites of the program.
    """
    readers = Counter(value for node in body.sweeps[0].nodes for value in node.inputs)
    found = set()
    for site in sites:
        if site.caller == body.name:
            region = site.calls[0].region
            returned = [_returned(node.inputs[0], region, readers) for node in body.outputs]
            if returned == [node.output() for node in site.returns]:
                found.add(site.label)
    return found


def _returned(value: Value, region: Region | None, readers: Mapping[Value, int]) -> Value | None:
    """What the tokens of a region give for a value of the body; None if others read it, too."""
    path = region.path() if region else ()
    while readers[value] == 1:
        branch = _branch_of(value.node, path)
        if branch is None:
            return value
        value = value.node.inputs[branch]
    return None


def _branch_of(node: Node, path: Sequence[Region]) -> int | None:
    """Which branch of the conditional that a MERGE gathers lies on a path; None for other nodes."""
    if not isinstance(node, Merge):
        return None
    around = (node.region, node.predicate)
    branches = (one for one in path if isinstance(one, Branch))
    return next((one.branch for one in branches if (one.parent, one.selector) == around), None)
