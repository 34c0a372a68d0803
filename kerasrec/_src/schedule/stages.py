"""Finds in which stage of a sweep each node of a body is ready.

Calls of a body are ready in rounds: round j + 1 needs values that round j returned. Between rounds
are stages. With K rounds, a sweep of even number has stages 0 to K; stage j knows the results of
rounds 1 to j. Sweeps of odd number take the rounds in reverse, as the gradient does: stage j knows
the results of the gradients of rounds K to K + 1 - j. Nodes of a later sweep that need none of the
values that are passed to it may be ready in the stage before, -1.

A recursion over trees has one round: stage 0 of the values goes down the tree, stage 1 up, stage 0
of the gradient down again and stage 1 up.
"""

from __future__ import annotations

from collections.abc import Callable

from kerasrec._src.graph.graph import Body, CallSite, TaggedGraph, present
from kerasrec._src.graph.nodes import Call, Entrance, Return
from kerasrec._src.graph.values import Node

Rounds = dict[int, list[CallSite]]
"""The call sites of a body, by round, beginning with 1."""

Stage = tuple[int, int]
"""The number of a sweep, and of one of its stages."""


def rounds_of(graph: TaggedGraph) -> dict[str, Rounds]:
    """Returns the rounds of each body."""
    rounds: dict[str, Rounds] = {}
    for name, body in graph.bodies.items():
        depths = _call_depths(body)
        rounds[name] = {
            place: [graph.call_sites[label] for label in sorted(depths) if depths[label] == place]
            for place in sorted(set(depths.values()))
        }
    return rounds


def needs_queues(graph: TaggedGraph) -> bool:
    """Whether calls are known only as the program runs, or their order counts.

    Some depend on the results of others; or with `memo`, some belong to a loop and are never equal.
    Rows that calls make are read by others that run later.
    """
    if graph.reads_made:
        return True
    if graph.memo and not all(body.may_repeat for body in graph.bodies.values()):
        return True
    return any(len(rounds) > 1 for rounds in rounds_of(graph).values())


def find_stages(
    stages: dict[Node, Stage],
    body: Body,
    rounds: Rounds,
    last: int,
    index: int,
    earliest: Callable[[Node], int],
) -> None:
    """Finds the stages of a sweep's nodes: as early as their inputs allow.

    Args:
        stages: The stages of the nodes of earlier sweeps; those of this sweep are added.
        body: The body.
        rounds: Its call sites by round.
        last: The stage in which a sweep returns.
        index: The number of the sweep.
        earliest: Returns the first stage in which a node may be.
    """
    sweep = body.sweeps[index]
    fixed: dict[Node, int] = dict.fromkeys(present(sweep.parameters), 0)
    fixed |= dict.fromkeys(present(sweep.outputs), last)
    for place, sites in rounds.items():
        called = last - place if index % 2 else place - 1
        for linkage in (site.linkages[index] for site in sites):
            fixed |= dict.fromkeys(present(linkage.calls), called)
            fixed |= dict.fromkeys(present(linkage.returns), called + 1)
    for node in sweep.nodes:
        before = (stages[value.node] for value in node.inputs if value.node in stages)
        stages[node] = (
            (index, fixed[node]) if node in fixed else max([(index, earliest(node)), *before])
        )


def _call_depths(body: Body) -> dict[int, int]:
    """Returns the round in which each call site of a body is ready, by label."""
    depth: dict[Node, int] = {}
    rounds: dict[int, int] = {}
    for node in body.sweeps[0].nodes:
        if isinstance(node, Return):
            depth[node] = rounds[node.label]
        elif isinstance(node, Entrance):
            depth[node] = 0
        else:
            depth[node] = max((depth.get(value.node, 0) for value in node.inputs), default=0)
        if isinstance(node, Call):
            rounds[node.label] = max(rounds.get(node.label, 0), depth[node] + 1)
    return rounds
