"""Call linkage in graphs: CALL and RETURN nodes, into a sweep of a callee and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kerasrec._src.graph.graph import CallSite, Linkage, Sweep, TaggedGraph, present
from kerasrec._src.graph.nodes import Argument, Call, LoopEnter, LoopExit, LoopNext, Return
from kerasrec._src.graph.values import Value


def new_linkage(site: CallSite, values: Sequence[Value | None], callee: Sweep) -> Linkage:
    """Makes a CALL for each value, and a RETURN for each output of a sweep of the callee.

    The MERGEs of the sweep's parameters become readers of the CALLs. If the callee is a loop, the
    nodes are ENTER, NEXT and EXIT. If no values are passed, the control edges of the RETURNs come
    from the CALLs of the first linkage.

    Args:
        site: The call site. Its other linkages stay as they are.
        values: The value for each parameter of the sweep; None if nothing is passed to it.
        callee: The sweep of the callee.
    """
    where = (site.region, site.source)
    enters, leaves = _kinds(site)
    name: dict[str, Any] = {"label": site.label, "callee": site.callee}
    calls: list[Call | None] = []
    for value, parameter in zip(values, callee.parameters, strict=True):
        if value is None or parameter is None:
            calls.append(None)
            continue
        call = enters([value], [value.type], *where, **name)
        parameter.inputs.append(call.output())
        calls.append(call)
    before = present(calls) or site.calls
    returns = [
        None
        if out is None
        else leaves([out.output()], out.types, *where, control=[*before], **name)
        for out in callee.outputs
    ]
    return Linkage(tuple(calls), tuple(returns))


def _kinds(site: CallSite) -> tuple[type[Call], type[Return]]:
    """The classes of the nodes into the callee and of the nodes back."""
    if not site.is_loop:
        return Call, Return
    return (LoopNext if site.caller == site.callee else LoopEnter), LoopExit


def set_linkage(graph: TaggedGraph, label: int, index: int, found: Linkage) -> None:
    """Replaces the linkage of a call site for the sweep at `index`."""
    site = graph.call_sites[label]
    linkages = (*site.linkages[:index], found, *site.linkages[index + 1 :])
    graph.call_sites[label] = replace(site, linkages=linkages)


def call_from_outside(graph: TaggedGraph, index: int) -> None:
    """Adds a call from outside into the sweep of the entry at `index`, under the root's label."""
    sweep = graph.bodies[graph.entry].sweeps[index]
    values = [
        None if parameter is None else Argument([], parameter.types, name=parameter.name).output()
        for parameter in sweep.parameters
    ]
    set_linkage(graph, graph.root.label, index, new_linkage(graph.root, values, sweep))
