"""When each node runs in a program of several rounds.

A body that calls, and calls again with what was returned, has *places*: place 0 is before its first
calls, place j after those of round j have returned. A machine (`queues.py`) runs one place of one
body at a time, on all tokens that are ready for it. In the gradient, tokens go through the same
places in the reverse order, in the same company.

Tokens are done at the place of their tail region (`tails.py`). What they return is read from there,
by the MERGEs of tail regions that do nothing else; so these never run.

What nothing waits for runs once for all tokens, when a sweep is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import tensorflow as tf

from kerasrec.engine.plan import (
    NO_CHANGES,
    Changes,
    Part,
    Plan,
    bytes_of,
    needs_of_placeless,
    sources,
)
from kerasrec.engine.print_places import Nodes, print_places
from kerasrec.engine.tails import Tail, tail_of, whole
from kerasrec.graph.graph import Body, CallSite, TaggedGraph, present
from kerasrec.graph.nodes import Call, Check, Effect, Entrance, Result, Return
from kerasrec.graph.values import Node, Region, Value
from kerasrec.schedule.build import regions_of
from kerasrec.schedule.stages import call_depths

_WAITED_FOR = (Entrance, Call, Return, Result, Check, Effect)
_Key = TypeVar("_Key", bound=Hashable)


@dataclass
class QueuePlan(Plan):
    """A plan for a machine of queues.

    A value that another part reads is kept in one of two ways: with the block of tokens that
    computed it, if only the same place reads it, in later sweeps; otherwise in a row for each
    frame, from where any tokens can be gathered.

    Args:
        tails: by body, where its tokens are done.
        rows: by body, values that are kept by frame.
        blocks: by body and part, values that are kept by block.
        decided: the places at which selectors are known.
        circles: places of the program, a body and a place each, in circles of those that feed each
          other; the circles that feed others come first.
    """

    tails: dict[str, Tail]
    rows: dict[str, list[Value]]
    blocks: dict[tuple[str, Part], list[Value]]
    decided: dict[Value, int]
    circles: list[list[tuple[str, int]]]

    @property
    def order(self) -> list[tuple[str, int]]:
        """The places of all circles."""
        return [place for circle in self.circles for place in circle]

    def part(self, body: str, sweep: int, place: int) -> list[Part]:
        """The parts of a sweep that run at a place of a body."""
        last = len(self.groups[body])
        first = self.first_stage(sweep)
        places = range(place, self.rounds + 1 if place == last else place + 1)
        stages = [first + (self.rounds - item if sweep % 2 else item) for item in places]
        return [Part(stage, False) for stage in sorted(stages)]

    def places(self, body: str) -> range:
        """The places of a body that frames come to."""
        return range(self.tails[body].last + 1)

    def computed(self, body: str, sweep: int, place: int) -> Iterator[Node]:
        """What runs at a place, without what only passes values between callers and callees."""
        for part in self.part(body, sweep, place):
            for node in self.nodes.get((body, part), ()):
                if not isinstance(node, Entrance | Call | Return):
                    yield node

    def fired(self, body: str, place: int) -> Iterator[tuple[Node, Region | None]]:
        """The nodes that fire at a place in sweep 0, and of which region's tokens.

        A node that passes on what tokens return fires at several places, for other tokens at each.
        """
        for part in self.part(body, 0, place):
            for node in self.nodes.get((body, part), ()):
                yield node, node.region
        tail = self.tails[body]
        for leaf in tail.leaves:
            if leaf.place == place:
                outputs = self.graph.bodies[body].outputs
                for around in tail.parts_around(leaf):
                    yield from ((node, leaf.region) for node in around.passing)
                yield from ((node, leaf.region) for node in outputs)

    def hoisted(self, sweep: int) -> Part:
        """The part of a sweep that runs once for all tokens."""
        return Part(self.last_stage(sweep), True)

    def bytes_kept(self, body: str, num_tokens: tf.Tensor) -> tf.Tensor:
        """int64 scalar: how many bytes the frames of a body keep in the forward pass, at least."""
        returned = sum(bytes_of(node.output()) for node in self.graph.bodies[body].outputs)
        return super().bytes_kept(body, num_tokens) + returned * tf.cast(num_tokens, tf.int64)

    def __str__(self) -> str:
        sweeps = [self._shown(sweep) for sweep in range(self.graph.num_sweeps)]
        return print_places(self.circles, sweeps, self.tails)

    def _shown(self, sweep: int) -> tuple[Nodes, Nodes]:
        """The nodes that each place fires in a sweep, and those of the values that it keeps."""
        fired: dict[tuple[str, int], list[Node]] = {}
        kept: dict[tuple[str, int], list[Node]] = {}
        for name in self.graph.bodies:
            places = self.places(name)
            for place in reversed(places) if sweep % 2 else places:
                parts = self.part(name, sweep, place)
                nodes = [node for part in parts for node in self.nodes.get((name, part), ())]
                values = [value for part in parts for value in self.kept.get((name, part), ())]
                if nodes:
                    fired[name, place] = nodes
                    kept[name, place] = list(dict.fromkeys(value.node for value in values))
            hoisted = self.nodes.get((name, self.hoisted(sweep)), [])
            if hoisted:
                fired[name, -1] = hoisted
        return fired, kept


def plan_places(
    graph: TaggedGraph, changes: Changes = NO_CHANGES, is_bounded: bool = False
) -> QueuePlan:
    """Plans an extended graph with any number of rounds.

    Args:
        graph: extended, or tagged.
        changes: what passes change.
        is_bounded: for a run that forgets frames when they have returned: nothing is hoisted, and
          no call is handed on.
    """
    groups = {name: _rounds(body, graph) for name, body in graph.bodies.items()}
    rounds = max(1, *(len(found) for found in groups.values()))
    parts: dict[Node, Part] = {}
    nodes: dict[tuple[str, Part], list[Node]] = defaultdict(list)
    tails, rows, blocks, decided = {}, {}, {}, {}
    for name, body in graph.bodies.items():
        found = _BodyPlaces(body, groups[name], rounds, changes, is_bounded)
        tails[name] = found.tail
        decided.update(found.decided())
        parts.update(found.parts)
        for node in body.nodes:
            if node in parts:
                nodes[(name, parts[node])].append(node)
        rows[name], of_blocks = found.kept()
        blocks.update({(name, part): values for part, values in of_blocks.items()})
    kept = {key: list(values) for key, values in blocks.items()}
    for name, values in rows.items():
        for value in values:
            kept.setdefault((name, parts[value.node]), []).append(value)
    circles = _circles(graph, groups, tails)
    return QueuePlan(
        graph, False, rounds, groups, parts, dict(nodes), kept, {}, changes, tails, rows, blocks,
        decided, circles,
    )  # fmt: skip


def _rounds(body: Body, graph: TaggedGraph) -> dict[int, list[CallSite]]:
    depths = call_depths(body)
    return {
        place: [graph.call_sites[label] for label in sorted(depths) if depths[label] == place]
        for place in sorted(set(depths.values()))
    }


class _BodyPlaces:
    """The places of one body."""

    def __init__(
        self,
        body: Body,
        groups: dict[int, list[CallSite]],
        rounds: int,
        changes: Changes,
        is_bounded: bool,
    ):
        self.body = body
        self.groups = groups
        self.rounds = rounds
        self.changes = changes
        self.is_bounded = is_bounded
        self.readers: dict[Value, list[Node]] = defaultdict(list)
        for node in body.nodes:
            for value in node.inputs:
                self.readers[value].append(node)
        sites = [] if is_bounded else [site for found in groups.values() for site in found]
        # Higher derivatives merge in other places, too.
        self.tail = tail_of(body, sites, self.readers) if len(body.sweeps) <= 2 else whole(body)
        if not self._try():
            self.tail = whole(body)
            self._try()

    def _try(self) -> bool:
        """Places all nodes; returns whether tokens come to them before they are done."""
        passing = [node for part in self.tail.parts for node in part.passing]
        calls = [leaf.call for leaf in self.tail.leaves if leaf.call]
        passing += [
            node for call in calls for trip in call.trips[1:] for node in present(trip.calls)
        ]
        self.passed_on = {*passing, *present(self.body.sweeps[0].outputs)}
        self.stages: dict[Node, int] = {}
        for index in range(len(self.body.sweeps)):
            self._place_sweep(index)
            if index == 0:
                self.loop = self._loop_nodes()
                if not self._end_tails():
                    return self._try()
        self.loop = self._loop_nodes()
        self.parts = {
            node: self._part(node)
            for node in self.body.nodes
            if node not in self.passed_on and not self.changes.is_placeless(node)
        }
        return not self.tail.branches or all(map(self._is_reached, self.loop))

    def _place_sweep(self, index: int) -> None:
        """Sets the stages of a sweep's nodes: as early as what they read allows."""
        sweep, first = self.body.sweeps[index], self._first(index)
        fixed: dict[Node, int] = {}
        for place, sites in self.groups.items():
            called = first + (self.rounds - place if index % 2 else place - 1)
            for site in sites:
                fixed.update(dict.fromkeys(present(site.trips[index].calls), called))
                fixed.update(dict.fromkeys(present(site.trips[index].returns), called + 1))
        fixed.update(dict.fromkeys(present(sweep.parameters), first))
        fixed.update(dict.fromkeys(present(sweep.outputs), first + self.rounds))
        for node in sweep.nodes:
            earliest = first
            if index % 2:  # A token comes first to the place where it was done.
                place = min(leaf.place for leaf in self.tail.around(node.region).leaves)
                earliest += self.rounds - place
            inputs = [self.stages.get(value.node, 0) for value in node.inputs]
            self.stages[node] = fixed.get(node, max([earliest, *inputs]))

    def _end_tails(self) -> bool:
        """Sets where the tokens of each tail region are done; False if it has found new ones."""
        for leaf in self.tail.leaves:
            around = {
                node
                for node in self.body.sweeps[0].nodes
                if node in self.loop and leaf in self.tail.around(node.region).leaves
            }
            values = [node for value in leaf.returned for node in self._nodes_of(value)]
            leaf.place = max([self._place(node) for node in (*around, *values)], default=0)
            if leaf.call and leaf.place != self._place(leaf.call.calls[0]):
                leaf.call = None  # It makes other calls, too.
                return False
        return True

    def _is_reached(self, node: Node) -> bool:
        """Whether all tokens of a node come to its place; what callers pass is read anywhere."""
        if isinstance(node, Entrance):
            return True
        ends = [leaf.place for leaf in self.tail.around(node.region).leaves]
        late = [value for value in sources(node, self.changes) if not self._is_before(value, node)]
        return self._place(node) <= min(ends) and not late

    def _is_before(self, value: Value, node: Node) -> bool:
        return self.stages[value.node] <= self.stages[node]

    def _loop_nodes(self) -> set[Node]:
        """Nodes that calls and returns wait for, and the selectors of all regions."""
        waiting = [
            node
            for node in self.body.nodes
            if node in self.stages
            and (self.is_bounded or isinstance(node, _WAITED_FOR))
            and node not in self.passed_on
        ]
        waiting += [node for value in self._ends_and_selectors() for node in self._nodes_of(value)]
        loop: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node not in loop and node in self.stages:
                loop.add(node)
                waiting += [
                    value.node
                    for value in sources(node, self.changes)
                    if self._sweep_of(value.node) == self._sweep_of(node)
                ]
        return loop

    def _ends_and_selectors(self) -> Iterator[Value]:
        for leaf in self.tail.leaves:
            yield from leaf.returned
        for siblings in regions_of(self.body):
            yield siblings[0].selector

    def _nodes_of(self, value: Value) -> list[Node]:
        """The nodes that are not placeless that a value comes from."""
        return [item.node for item in self._sources_of(value)]

    def _sources_of(self, value: Value) -> Iterator[Value]:
        """The TOKEN values to keep for a value that is read elsewhere."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if item.is_shared:
                continue
            if self.changes.is_placeless(item.node):
                waiting += needs_of_placeless(item.node, self.changes)
            else:
                yield item

    def decided(self) -> dict[Value, int]:
        """The place at which each selector is known."""
        selectors = [siblings[0].selector for siblings in regions_of(self.body)]
        return {
            value: max(map(self._place, self._nodes_of(value)), default=0) for value in selectors
        }

    def kept(self) -> tuple[list[Value], dict[Part, list[Value]]]:
        """Values to keep by frame, and values to keep by block, by the part that computes them."""
        rows: dict[Value, None] = {}
        blocks: dict[Value, None] = {}
        for value, part in self._reads():
            other = self.parts[value.node]
            if other != part and not _is_passed(value.node, self._sweep_of(value.node)):
                is_block = not part.is_bulk and not other.is_bulk
                is_block = is_block and self._place_of(part) == self._place_of(other)
                (blocks if is_block else rows)[value] = None
        found: dict[Part, list[Value]] = defaultdict(list)
        for value in blocks:
            if value not in rows:
                found[self.parts[value.node]].append(value)
        return list(rows), dict(found)

    def _reads(self) -> Iterator[tuple[Value, Part]]:
        """What each part reads: values, and the selectors of the regions that it works in."""
        for node, part in self.parts.items():
            for value in sources(node, self.changes):
                yield value, part
            for selector in self._selectors(node.region, part):
                yield selector, part
        for leaf in self.tail.leaves:
            part = Part(leaf.place, False)
            for value in leaf.returned:
                for item in self._sources_of(value):
                    yield item, part
            for selector in self._selectors(leaf.region, part):
                yield selector, part

    def _selectors(self, region: Region | None, part: Part) -> Iterator[Value]:
        for item in region.path() if region else ():
            place = self._place_of(part)
            if part.is_bulk or all(self.tail.is_open(one, place) for one in item.siblings):
                yield from self._sources_of(item.selector)

    def _part(self, node: Node) -> Part:
        if node in self.loop:
            return Part(self.stages[node], False)
        return Part(self._first(self._sweep_of(node)) + self.rounds, True)

    def _place(self, node: Node) -> int:
        """The place that a node runs at."""
        return self._place_of(Part(self.stages[node], False))

    def _place_of(self, part: Part) -> int:
        sweep = part.stage // (self.rounds + 2)
        passed = part.stage - self._first(sweep)
        return min(self.rounds - passed if sweep % 2 else passed, len(self.groups))

    def _sweep_of(self, node: Node) -> int:
        return self.stages[node] // (self.rounds + 2)

    def _first(self, sweep: int) -> int:
        return sweep * (self.rounds + 2)


def _is_passed(node: Node, sweep: int) -> bool:
    """Whether a value stands where callers and callees pass it; it is read there again."""
    return isinstance(node, Return) or (isinstance(node, Entrance) and sweep > 0)


def _circles(
    graph: TaggedGraph, groups: dict[str, dict[int, list[CallSite]]], tails: dict[str, Tail]
) -> list[list[tuple[str, int]]]:
    """Places in circles of those that feed each other, in the order in which the machine fires.

    A place feeds another if tokens may stand there once it has fired. What cannot feed a place
    waits for it, so that more tokens come together. In a circle places take turns: those of
    functions that call fewer others first, and of a body the later places first, the entrance last.
    """
    feeds: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for name, rounds in groups.items():
        leaves = list(tails[name].leaves)
        for place in range(1 + max(leaf.place for leaf in leaves)):
            found = {(site.callee, 0) for site in rounds.get(place + 1, ())}
            if any(leaf.place > place for leaf in leaves):
                found.add((name, place + 1))
            if any(leaf.place == place and not leaf.call for leaf in leaves):
                found |= {
                    (caller, number)
                    for caller, of_caller in groups.items()
                    for number, sites in of_caller.items()
                    for site in sites
                    if site.callee == name and not tails[caller].hands_on(site)
                }
            feeds[(name, place)] = found
    calls = {
        name: {site.callee for sites in rounds.values() for site in sites}
        for name, rounds in groups.items()
    }
    reaches = {key: _reached(key, feeds) for key in feeds}
    circles = dict.fromkeys(  # In the order of `feeds`, since that of sets is not always the same.
        tuple(
            other
            for other in feeds
            if other == key or (other in reaches[key] and key in reaches[other])
        )
        for key in feeds
    )
    return [
        sorted(circle, key=lambda key: (len(_reached(key[0], calls)), -key[1]))
        # What feeds a circle reaches more.
        for circle in sorted(circles, key=lambda circle: -_most(circle, reaches))
    ]


def _most(
    circle: Iterable[tuple[str, int]], reaches: dict[tuple[str, int], set[tuple[str, int]]]
) -> int:
    return max(len(reaches[key] | {key}) for key in circle)


def _reached(key: _Key, feeds: Mapping[_Key, set[_Key]]) -> set[_Key]:
    """What can be reached from a key, in one step or more."""
    found: set[_Key] = set()
    waiting = [key]
    while waiting:
        for other in feeds[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found
