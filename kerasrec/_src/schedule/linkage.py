"""Call linkage in schedules: the instructions by which segments pass values to each other.

Call sites that call for the same tokens alternate: first all calls of the first token, then all
calls of the second. Thus the results of a token's calls are side by side, as most cells read them:
the states of a tree node's children are one row. Other call sites follow each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kerasrec._src.graph.graph import CallSite, TaggedGraph, present
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.schedule.instructions import (
    Fetch,
    Instruction,
    Interleave,
    InTurns,
    NoValue,
    Receive,
    Return,
    Returned,
    Send,
    Separate,
    TokenCount,
    Zeros,
)

Together = tuple[CallSite, ...]
"""Call sites that call for the same tokens."""


def alternating(sites: Iterable[CallSite]) -> list[Together]:
    """Returns call sites in groups that call for the same tokens."""
    groups = itertools.groupby(sites, lambda site: (site.caller, site.region))
    return [tuple(group) for _, group in groups]


def groups_of(graph: TaggedGraph) -> list[Together]:
    """Returns all call sites of a program, in groups that call for the same tokens."""
    return [group for name in graph.bodies for group in alternating(graph.sites_to(name))]


def received(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """Returns the instructions with which a body begins a sweep."""
    parameters = present(graph.bodies[name].sweeps[sweep].parameters)
    tokens = None if sweep else TokenCount(name)
    return [Receive(tokens, tuple(node.output() for node in parameters))]


def sent(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """Returns the instructions by which a body passes values to all that it calls.

    Zeros replace values that a call site does not send.
    """
    # If equal calls are one call, it must be known who makes a call.
    by_frame = graph.memo is not None and not sweep
    instructions: list[Instruction] = []
    for group in _groups_in(graph, name):
        instructions += _sent(graph, group, sweep, by_frame)
    return instructions


def returned(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """Returns the instructions by which a body receives the results of all its calls."""
    instructions: list[Instruction] = []
    for group in _groups_in(graph, name):
        taken = list(_taken_of(graph, group, sweep))
        instructions += itertools.chain(*(after for after, _ in taken))
        is_shared = len(alternating(graph.sites_to(group[0].callee))) > 1
        tokens = TokenCount(name, group[0].region) if is_shared else None
        instructions.append(Returned(group, tuple(value for _, value in taken), tokens))
    return instructions


def _groups_in(graph: TaggedGraph, name: str) -> list[Together]:
    return [group for group in groups_of(graph) if group[0].caller == name]


def results(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    """Returns the instructions with which a body ends a sweep."""
    outputs = present(graph.bodies[name].sweeps[sweep].outputs)
    return [Return(tuple(node.inputs[0] for node in outputs), tuple(outputs))]


def read_from_rows(graph: TaggedGraph, name: str, groups: Sequence[Together]) -> list[Instruction]:
    """Returns instructions, for queues, that read values passed to the frames of a body.

    They are materialized at use, at any place of the body.

    Args:
        graph: The graph of the program.
        name: The name of the body.
        groups: The call sites of the body, in groups.
    """
    instructions: list[Instruction] = []
    for index, sweep in enumerate(graph.bodies[name].sweeps):
        for node in present(sweep.parameters) if index else ():
            instructions.append(Receive(None, (node.output(),), at_use=True))
        for group in groups:
            for number, (after, value) in enumerate(_taken_of(graph, group, index)):
                if value is not None:
                    instructions += [*after, Fetch(group, index, number, value, at_use=True)]
    return instructions


def sent_by_frame(graph: TaggedGraph, group: Together, sweep: int) -> list[Instruction]:
    """Returns the instructions by which frames pass values to those that they call.

    Returns an empty list if no call site passes anything.
    """
    if not any(site.linkages[sweep].calls for site in group):
        return []
    return _sent(graph, group, sweep, True)


def _sent(graph: TaggedGraph, group: Together, sweep: int, by_frame: bool) -> list[Instruction]:
    instructions: list[Instruction] = []
    values = []
    for place, parameter in enumerate(graph.bodies[group[0].callee].sweeps[sweep].parameters):
        if parameter:
            *before, value = _passed(group, sweep, place, parameter.types[0])
            instructions += before
            values.append(value)
    return [*instructions, Send(group, tuple(values), by_frame)]


def _passed(group: Sequence[CallSite], sweep: int, place: int, kind: Type) -> list[Any]:
    """Returns instructions that make the values sent to one parameter, then its value."""
    region = group[0].region
    calls = [site.linkages[sweep].calls for site in group]
    nodes = [item[place] if item else None for item in calls]
    instructions: list[Any] = []
    zeros = NoValue([], [kind], region).output()
    if None in nodes:
        tokens = TokenCount(group[0].caller or "", region)
        instructions.append(Zeros(zeros, (tokens,), at_use=True))
    values = tuple(node.inputs[0] if node else zeros for node in nodes)
    if len(values) == 1:
        return [*instructions, values[0]]
    rows = _in_turns([values[0].type] * len(values), group[0].calls[0])
    return [*instructions, Interleave(rows, values, at_use=True), rows]


def _taken_of(
    graph: TaggedGraph, group: Together, sweep: int
) -> Iterator[tuple[list[Instruction], Value | None]]:
    """Yields, for each output of a callee, what separates the returned rows, and the rows."""
    returns = [site.linkages[sweep].returns for site in group]
    for place, output in enumerate(graph.bodies[group[0].callee].sweeps[sweep].outputs):
        if output:
            nodes = [of_site[place] if of_site else None for of_site in returns]
            values = tuple(node.output() if node else None for node in nodes)
            if len(values) == 1 or not any(values):
                yield [], values[0]
            else:
                (first, *_) = present(nodes)
                rows = _in_turns([first.types[0]] * len(values), first)
                yield [Separate(values, rows, at_use=True)], rows


def _in_turns(types: Sequence[Type], origin: Node) -> Value:
    """Returns a value for the interleaved rows of several values."""
    rows = types[0].as_rows()
    return InTurns([], [rows], origin.region, origin.source, of=list(types)).output()
