"""Call linkage: the instructions by which the segments of a loop pass values to each other.

Call sites that call for the same tokens alternate: all that the first token calls, then all that
the second does. So what a token's calls return lies side by side, as most cells read it: the states
of a tree node's children are one row. Other call sites follow each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from kerasrec.graph.graph import CallSite, TaggedGraph, present
from kerasrec.graph.types import Type
from kerasrec.graph.values import Node, Region, Value
from kerasrec.schedule.instructions import (
    Instruction,
    Interleave,
    InTurns,
    NoValue,
    Receive,
    Return,
    Returned,
    Send,
    Separate,
    Tokens,
    Zeros,
)


def alternating(sites: Sequence[CallSite]) -> list[tuple[CallSite, ...]]:
    """Call sites in groups that call for the same tokens."""
    groups = itertools.groupby(sites, lambda site: (site.caller, region_of_call(site)))
    return [tuple(group) for _, group in groups]


def region_of_call(site: CallSite) -> Region | None:
    """The region whose tokens call."""
    return site.calls[0].region


def received(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """What a body begins a sweep with."""
    parameters = present(graph.bodies[name].sweeps[sweep].parameters)
    tokens = None if sweep else Tokens(name)
    return [Receive(tokens, tuple(node.output() for node in parameters))]


def sent(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """What a body passes to all that it calls; zeros stand for what a call site does not send."""
    found: list[Instruction] = []
    for callee, body in graph.bodies.items():
        for group in _groups_of(graph, name, callee):
            values = []
            for place, parameter in enumerate(body.sweeps[sweep].parameters):
                if parameter:
                    *before, value = _passed(group, sweep, place, parameter.types[0])
                    found += before
                    values.append(value)
            found.append(Send(group, tuple(values)))
    return found


def returned(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """What all that a body calls returns to it."""
    found: list[Instruction] = []
    for callee, body in graph.bodies.items():
        is_shared = len(alternating(graph.sites_to(callee))) > 1
        for group in _groups_of(graph, name, callee):
            values = []
            for place, output in enumerate(body.sweeps[sweep].outputs):
                if output:
                    returns = [site.trips[sweep].returns for site in group]
                    *after, value = _taken([item[place] if item else None for item in returns])
                    found += after
                    values.append(value)
            tokens = Tokens(name, region_of_call(group[0]))
            found.append(Returned(group, tuple(values), tokens if is_shared else None))
    return found


def results(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """What a body ends a sweep with."""
    outputs = present(graph.bodies[name].sweeps[sweep].outputs)
    return [Return(tuple(node.inputs[0] for node in outputs))]


def _groups_of(graph: TaggedGraph, caller: str, callee: str) -> list[tuple[CallSite, ...]]:
    groups = alternating(graph.sites_to(callee))
    return [group for group in groups if group[0].caller == caller]


def _passed(group: Sequence[CallSite], sweep: int, place: int, found: Type) -> list[Any]:
    """Instructions that make what call sites send to one parameter, and then its value."""
    region = region_of_call(group[0])
    calls = [site.trips[sweep].calls for site in group]
    nodes = [item[place] if item else None for item in calls]
    instructions: list[Any] = []
    zeros = NoValue([], [found], region).output()
    if None in nodes:
        tokens = Tokens(group[0].caller or "", region)
        instructions.append(Zeros(zeros, (tokens,), at_use=True))
    values = tuple(node.inputs[0] if node else zeros for node in nodes)
    if len(values) == 1:
        return [*instructions, values[0]]
    rows = _in_turns([values[0].type] * len(values), group[0].calls[0])
    return [*instructions, Interleave(rows, values, at_use=True), rows]


def _taken(nodes: Sequence[Node | None]) -> list[Any]:
    """Instructions that take apart what calls return for one output, and then what they return."""
    values = tuple(node.output() if node else None for node in nodes)
    if len(values) == 1 or not any(values):
        return [values[0]]
    (first, *_) = present(nodes)
    rows = _in_turns([first.types[0]] * len(values), first)
    return [Separate(values, rows, at_use=True), rows]


def _in_turns(types: Sequence[Type], origin: Node) -> Value:
    """A value for the rows of several values in turns."""
    rows = types[0].as_rows()
    return InTurns([], [rows], origin.region, origin.source, of=list(types)).output()
