"""Finds in which stage of a run each node of an extended graph is ready.

Calls of a body are ready in rounds: round j + 1 needs values that round j returned. Between rounds
are stages. With `rounds` = K, the stages of a body are

    0 .. K          forward; stage j knows what rounds 1 .. j have returned
    K + 1           gradient nodes that need no cotangent of the body's outputs
    K + 2 .. 2K + 2 gradient; stage K + 2 + j knows what the gradients of rounds K .. K + 1 - j
                    have returned

and so on for the sweeps of further derivatives, K + 2 stages each. Sweeps of even number take the
rounds in order, and sweeps of odd number in reverse, as the gradient does.

A recursion over trees has one round: stage 0 goes down the tree, stage 1 up, stage 3 down again
and stage 4 up.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerasrec._src.graph.graph import Body, CallSite, TaggedGraph, present
from kerasrec._src.graph.nodes import Call, Entrance, Return
from kerasrec._src.graph.values import Node


@dataclass(frozen=True)
class Stages:
    """The stages of a program.

    Args:
        graph: The extended graph.
        rounds: The largest number of rounds of calls that a body has, at least 1.
        groups: For each body, its call sites by round.
        of: The stage of each node of the bodies.
    """

    graph: TaggedGraph
    rounds: int
    groups: dict[str, dict[int, list[CallSite]]]
    of: dict[Node, int]

    @property
    def calls_nobody(self) -> bool:
        """Whether all tokens come from outside."""
        return not any(self.groups.values())

    def first(self, sweep: int) -> int:
        """Returns the stage in which the inputs of a sweep are known."""
        return first_stage(sweep, self.rounds)

    def last(self, sweep: int) -> int:
        """Returns the stage in which a sweep returns."""
        return self.first(sweep) + self.rounds


def stages_of(graph: TaggedGraph) -> Stages:
    """Returns the stages of an extended graph in which every body has at most one round."""
    groups = rounds_of(graph)
    of: dict[Node, int] = {}
    for body in graph.bodies.values():
        for index, sweep in enumerate(body.sweeps):
            fixed = linkage_stages(body, groups[body.name], 1, index)
            earliest = max(0, first_stage(index, 1) - 1)
            for node in sweep.nodes:
                before = (of.get(item.node, 0) for item in node.inputs)
                of[node] = fixed.get(node, max([earliest, *before]))
    return Stages(graph, 1, groups, of)


def rounds_of(graph: TaggedGraph) -> dict[str, dict[int, list[CallSite]]]:
    """Returns the call sites of each body, by round."""
    rounds = {}
    for name, body in graph.bodies.items():
        depths = call_depths(body)
        rounds[name] = {
            place: [graph.call_sites[label] for label in sorted(depths) if depths[label] == place]
            for place in sorted(set(depths.values()))
        }
    return rounds


def linkage_stages(
    body: Body, groups: dict[int, list[CallSite]], rounds: int, index: int
) -> dict[Node, int]:
    """Returns the stages of nodes that pass values from body to body, in a sweep.

    Args:
        body: The body of the nodes.
        groups: Its call sites by round.
        rounds: The number of rounds of the program.
        index: The number of the sweep.
    """
    sweep, first = body.sweeps[index], first_stage(index, rounds)
    stages: dict[Node, int] = {}
    for place, sites in groups.items():
        called = first + (rounds - place if index % 2 else place - 1)
        for site in sites:
            stages.update(dict.fromkeys(present(site.linkages[index].calls), called))
            stages.update(dict.fromkeys(present(site.linkages[index].returns), called + 1))
    stages.update(dict.fromkeys(present(sweep.parameters), first))
    stages.update(dict.fromkeys(present(sweep.outputs), first + rounds))
    return stages


def first_stage(sweep: int, rounds: int) -> int:
    """Returns the stage in which the inputs of a sweep are known."""
    return sweep * (rounds + 2)


def call_depths(body: Body) -> dict[int, int]:
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
