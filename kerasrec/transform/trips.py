"""Trips: the CALL and RETURN nodes of a call site, into a sweep of its callee and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kerasrec.graph.graph import CallSite, Node, Source, Sweep, TaggedGraph, Trip, Value, present
from kerasrec.graph.region import Region


def trip(
    values: Sequence[Value | None],
    callee: Sweep,
    region: Region | None,
    source: Source | None,
    attributes: dict[str, Any],
    control: Sequence[Node] = (),
) -> Trip:
    """A CALL for each value, which its MERGE now gathers, and a RETURN for each output.

    Args:
        values: one for each parameter of the sweep; None for those that nothing is passed to.
        callee: the sweep.
        region: in which the call stands.
        source: the user's line.
        attributes: label and callee.
        control: what the RETURNs follow if there is no CALL.
    """
    calls: list[Node | None] = []
    for value, parameter in zip(values, callee.parameters, strict=True):
        if value is None or parameter is None:
            calls.append(None)
            continue
        call = Node("CALL", [value], [value.type], region, source, attributes)
        parameter.inputs.append(call.output())
        calls.append(call)
    before = present(calls) or control
    returns = [
        out and Node("RETURN", [out.output()], out.types, region, source, attributes, [*before])
        for out in callee.outputs
    ]
    return Trip(tuple(calls), tuple(returns))


def trip_like(site: CallSite, values: Sequence[Value | None], callee: Sweep) -> Trip:
    """Another trip of a call site, under the label of its first; arguments as for `trip`.

    Without anything to pass, the RETURNs follow the CALLs of the first trip.
    """
    first = site.calls[0]
    return trip(values, callee, first.region, first.source, first.attributes, site.calls)


def set_trip(graph: TaggedGraph, label: int, index: int, found: Trip) -> None:
    """Puts a trip into its place at a call site."""
    site = graph.call_sites[label]
    trips = (*site.trips[:index], found, *site.trips[index + 1 :])
    graph.call_sites[label] = replace(site, trips=trips)


def call_from_outside(graph: TaggedGraph, index: int) -> None:
    """Adds the call from outside into a sweep of the entry, under the root's label."""
    sweep = graph.bodies[graph.entry].sweeps[index]
    values = [
        None
        if parameter is None
        else Node("ARGUMENT", [], parameter.types, attributes=parameter.attributes).output()
        for parameter in sweep.parameters
    ]
    set_trip(graph, graph.root.label, index, trip_like(graph.root, values, sweep))
