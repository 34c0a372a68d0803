"""Finds at which place of its body each node runs, in a program of several rounds.

A body that makes calls, and then more calls with the results, has *places*: place 0 is before its
first calls, and place j is after the calls of round j have returned. Frames of a body that are
ready for the same place run together. In the gradient, they go through the same places in reverse,
in the same blocks.

Frames are done at the place of their tail region (`tails.py`), and their results are read from
there. MERGEs of tail regions that only pass results on never run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kerasrec._src.graph.graph import Body, CallSite, TaggedGraph, present
from kerasrec._src.graph.nodes import Call, Check, Effect, Entrance, Result, Return
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.schedule.instructions import Instruction, Item, Select, items_through
from kerasrec._src.schedule.linkage import Together, alternating
from kerasrec._src.schedule.stages import Stages, first_stage, linkage_stages, rounds_of
from kerasrec._src.schedule.tails import Tail, readers_of, results_of, tail_of, whole
from kerasrec._src.schedule.translate import instructions_of, regions_of

_WAITED_FOR = (Entrance, Call, Return, Result, Check, Effect)


@dataclass(frozen=True)
class Places:
    """When each node of a program of several rounds runs.

    Args:
        stages: The stages of all nodes.
        tails: Where the frames of each body are done, by body.
        passed_on: The nodes that never run, since they only pass results on.
    """

    stages: Stages
    tails: dict[str, Tail]
    passed_on: frozenset[Node]

    def of(self, body: str) -> range:
        """Returns the places of a body that frames come to."""
        return range(self.tails[body].last + 1)

    def place(self, body: str, node: Node) -> int:
        """Returns the place at which a node runs."""
        return place_of(self.stages.of[node], self.stages.rounds, len(self.stages.groups[body]))

    def calls(self, body: str, place: int) -> list[Together]:
        """Returns the call sites of a body in a round, in groups; none if it has no such round."""
        sites = self.stages.groups[body].get(place, [])
        return [
            group
            for callee in dict.fromkeys(site.callee for site in sites)
            for group in alternating(site for site in sites if site.callee == callee)
        ]

    def known(self, body: str, place: int) -> Iterator[Tail]:
        """Returns the parts that frames are known to be in after a place."""
        tail = self.tails[body]
        predicates = {part.predicate for part in tail.parts if part.branches}
        return tail.known({value: self.place(body, value.node) for value in predicates}, place)


def places_of_program(graph: TaggedGraph, is_bounded: bool = False) -> Places:
    """Returns the places of a program with any number of rounds.

    Args:
        graph: An extended or tagged graph.
        is_bounded: Whether the run forgets frames when they have returned. Then nothing is hoisted,
          and there are no tail calls. With memo there are none either, since a call returns to
          several callers.
    """
    groups = rounds_of(graph)
    rounds = max(1, *(len(own_groups) for own_groups in groups.values()))
    bodies = {
        name: _BodyPlaces(graph, body, groups[name], rounds, is_bounded)
        for name, body in graph.bodies.items()
    }
    stages = {node: stage for body in bodies.values() for node, stage in body.stages.items()}
    return Places(
        Stages(graph, rounds, groups, stages),
        {name: body.tail for name, body in bodies.items()},
        frozenset(node for body in bodies.values() for node in body.passed_on),
    )


def place_of(stage: int, rounds: int, own_rounds: int) -> int:
    """Returns the place at which nodes of a stage run.

    Args:
        stage: The stage, as `stages.py` counts them.
        rounds: The number of rounds of the program.
        own_rounds: The number of rounds of the body.
    """
    sweep, passed = divmod(stage, rounds + 2)
    return min(rounds - passed if sweep % 2 else passed, own_rounds)


@dataclass(eq=False)
class _BodyPlaces:
    """The places of one body.

    Args:
        graph: The program.
        body: The body.
        groups: Its call sites by round.
        rounds: The number of rounds of the program.
        is_bounded: The same as for `places_of_program`.
    """

    graph: TaggedGraph
    body: Body
    groups: dict[int, list[CallSite]]
    rounds: int
    is_bounded: bool

    def __post_init__(self) -> None:
        graph, body = self.graph, self.body
        self.made = {node: instructions_of(body.name, node) for node in body.nodes}
        selects = [Select(siblings) for siblings in regions_of(body)]
        self.selectors = [select.regions[0].selector for select in selects]
        makers = [maker for made in self.made.values() for maker in made if maker.at_use]
        self.at_use: dict[Item, Instruction] = {
            item: maker for maker in (*makers, *selects) for item in maker.writes
        }
        self.stages: dict[Node, int] = {}
        may_hand_on = not self.is_bounded and not graph.memo
        sites = itertools.chain(*self.groups.values()) if may_hand_on else []
        callees = [(site, graph.bodies[site.callee]) for site in sites]
        self.tail = tail_of(body, callees, readers_of(body))
        if not self._try():
            self.tail = whole(body)
            self._try()

    def _try(self) -> bool:
        """Places all nodes; returns whether frames come to them before they are done."""
        passing = [node for part in self.tail.parts for node in part.passing]
        calls = [leaf.call for leaf in self.tail.leaves if leaf.call]
        passing += [
            node
            for call in calls
            for linkage in call.linkages[1::2]
            for node in present(linkage.calls)
        ]
        self.passed_on = {*passing, *itertools.chain(*results_of(self.body))}
        self.stages = {}
        for index in range(len(self.body.sweeps)):
            self._place_sweep(index)
            if index == 0 and not self._end_tails(self._in_loops()):
                return self._try()
        return not self.tail.branches or all(map(self._is_reached, self._in_loops()))

    def _place_sweep(self, index: int) -> None:
        """Sets the stages of a sweep's nodes: as early as their inputs allow."""
        sweep, first = self.body.sweeps[index], first_stage(index, self.rounds)
        fixed = linkage_stages(self.body, self.groups, self.rounds, index)
        for node in sweep.nodes:
            earliest = first
            is_at_use = any(instruction.at_use for instruction in self.made[node])
            if index % 2 and not is_at_use:  # Frames begin at the place where they were done.
                place = min(leaf.place for leaf in self.tail.around(node.region).leaves)
                earliest += self.rounds - place
            inputs = [self.stages.get(value.node, 0) for value in node.inputs]
            self.stages[node] = fixed.get(node, max([earliest, *inputs]))

    def _end_tails(self, loop: Iterable[Node]) -> bool:
        """Sets where the frames of each tail region are done; False if it gave up a tail call."""
        for leaf in self.tail.leaves:
            around = [node for node in loop if leaf in self.tail.around(node.region).leaves]
            places = map(self._place, [*around, *self._sources(leaf.returned[0])])
            leaf.place = max(places, default=0)
            if leaf.call and leaf.place != self._place(leaf.call.calls[0]):
                leaf.call = None  # Its tokens make other calls later.
                return False
        return True

    def _is_reached(self, node: Node) -> bool:
        """Whether all frames of a node come to its place; arguments can be read at any place."""
        if isinstance(node, Entrance):
            return True
        ends = [leaf.place for leaf in self.tail.around(node.region).leaves]
        sources = self._sources(self._reads(node))
        is_late = any(self.stages[source] > self.stages[node] for source in sources)
        return self._place(node) <= min(ends) and not is_late

    def _in_loops(self) -> list[Node]:
        """Returns the nodes that calls, returns and the selectors of all regions wait for."""
        waiting = [
            node
            for node in self.body.nodes
            if node in self.stages
            and (self.is_bounded or isinstance(node, _WAITED_FOR))
            and node not in self.passed_on
        ]
        ends = [value for leaf in self.tail.leaves for value in itertools.chain(*leaf.returned)]
        waiting += self._sources([*ends, *self.selectors])
        in_loops: dict[Node, None] = {}
        while waiting:
            node = waiting.pop()
            if node not in in_loops and node in self.stages:
                in_loops[node] = None
                sources = self._sources(self._reads(node))
                waiting += [item for item in sources if self._sweep(item) == self._sweep(node)]
        return list(in_loops)

    def _reads(self, node: Node) -> list[Item]:
        if isinstance(node, Return | Entrance):
            return []
        made = self.made[node]
        return [item for reader in made for item in reader.reads] if made else list(node.inputs)

    def _sources(self, items: Iterable[Item]) -> Iterator[Node]:
        """Yields the nodes that items come from, through what is materialised at use."""
        for item in items_through(items, self.at_use):
            if isinstance(item, Value) and not item.is_shared and item not in self.at_use:
                yield item.node

    def _place(self, node: Node) -> int:
        return place_of(self.stages[node], self.rounds, len(self.groups))

    def _sweep(self, node: Node) -> int:
        return self.stages[node] // (self.rounds + 2) if node in self.stages else -1
