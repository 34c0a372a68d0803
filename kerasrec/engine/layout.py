"""What a machine of queues keeps for each frame, and where.

A frame is a call of a body; frames are numbered in the order in which they were called. What is
kept of it stands in buffers, in the row of its number: what it was called with and has returned, by
whom it was called, and values that several of its places read. An entry of a ragged row has a
number and rows of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.engine.buffers import Room
from kerasrec.engine.places import QueuePlan
from kerasrec.engine.tails import Tail
from kerasrec.errors import GraphError
from kerasrec.graph.graph import CallSite, present
from kerasrec.graph.types import Type
from kerasrec.graph.values import Each, Node, Region, Value
from kerasrec.schedule.linkage import alternating, region_of_call

# What is kept of each frame: the frame that called it, by which call site, and how many calls it is
# nested in. In a body with tail calls also where to return to, and what the frame stands for there.
FRAME = ("caller", "label", "depth")
TAIL_FRAME = (*FRAME, "returns_to", "return_label", "stands_for")
Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Link:
    """Call sites that call for the same tokens: the frames they call have numbers in a row.

    Args:
        region: whose tokens call.
        sites: the call sites; that many frames are called for each token.
    """

    region: Region | None
    sites: tuple[CallSite, ...]

    @property
    def key(self) -> Key:
        """Under which the number of the first frame is kept, for each token."""
        return ("link", self)


@dataclass(frozen=True)
class Group:
    """What a body calls of one callee in one round.

    Args:
        callee: its name.
        links: the call sites, in the order of the tokens that they send.
    """

    callee: str
    links: tuple[Link, ...]

    @property
    def sites(self) -> list[CallSite]:
        """All call sites."""
        return [site for link in self.links for site in link.sites]


@dataclass(frozen=True)
class Returned:
    """Where a RETURN finds its value: output `number` of a sweep, of frame `place` of a link."""

    sweep: int
    number: int
    link: Link
    place: int


@dataclass(frozen=True)
class Calls:
    """How many frames a token calls in a round.

    Args:
        fixed: how many every token does.
        varied: links by which only some tokens call, or each another number.
    """

    fixed: int
    varied: list[Link]


class Layout:
    """What is kept for a program.

    Args:
        plan: of the program.
    """

    def __init__(self, plan: QueuePlan):
        self.plan = plan
        self.groups: dict[tuple[str, int], list[Group]] = {}
        self.entrances: dict[Node, Key] = {}
        self.returned: dict[Node, Returned] = {}
        for name, body in plan.graph.bodies.items():
            for index, sweep in enumerate(body.sweeps):
                for number, node in enumerate(present(sweep.parameters) if index else ()):
                    self.entrances[node] = ("input", name, index, number)
            for place, sites in plan.groups[name].items():
                self.groups[(name, place)] = [_group(callee, sites) for callee in _callees(sites)]
        for groups in self.groups.values():
            for link in (link for group in groups for link in group.links):
                self._note_returns(link)
        self.rows = {value for values in plan.rows.values() for value in values}
        self.entries = self._entries()

    def _note_returns(self, link: Link) -> None:
        for place, site in enumerate(link.sites):
            for index, trip in enumerate(site.trips):
                for number, node in enumerate(present(trip.returns)):
                    self.returned[node] = Returned(index, number, link, place)

    def calls(self, body: str, place: int) -> list[Group]:
        """What a body calls in a round; nothing in rounds that it does not have."""
        return self.groups.get((body, place), [])

    def callers(self, body: str) -> dict[tuple[str, int], list[int]]:
        """The places to which a body returns, and the labels of the calls that wait there."""
        found: dict[tuple[str, int], list[int]] = {}
        for (caller, place), groups in self.groups.items():
            labels = [
                site.label
                for group in groups
                for site in group.sites
                if group.callee == body and not self.plan.tails[caller].hands_on(site)
            ]
            if labels:
                found[(caller, place)] = labels
        return found

    def is_tail_call(self, body: str, link: Link) -> bool:
        """Whether what a body returns is what a link returns."""
        return any(self.plan.tails[body].hands_on(site) for site in link.sites)

    def has_tail_calls(self, body: str) -> bool:
        """Whether a body hands on to itself where it is to return to."""
        return any(leaf.call for leaf in self.plan.tails[body].leaves)

    def calls_of(self, part: Tail, body: str, place: int) -> Calls:
        """How many frames each token of a part calls after a place."""
        tail, path = self.plan.tails[body], part.region.path() if part.region else ()
        fixed, varied = 0, []
        for link in (link for group in self.calls(body, place + 1) for link in group.links):
            if link.region is None or link.region in path:
                fixed += len(link.sites)
            elif part in tail.around(link.region).parts or tail.around(link.region) in part.parts:
                varied.append(link)
        return Calls(fixed, varied)

    def counts_calls(self, body: str, place: int) -> bool:
        """Whether frames that wait at a place may have made no call or several."""
        return any(item.fixed != 1 or item.varied for item in self._calls_before(body, place))

    def awaited(self, body: str, place: int) -> int:
        """How many calls all frames make before a place, if frames count calls nowhere else."""
        counting = [other for other in self.plan.places(body)[1:] if self.counts_calls(body, other)]
        calls = self._calls_before(body, place)
        is_fixed = not any(item.varied for item in calls)
        numbers = {item.fixed for item in calls}
        return numbers.pop() if counting == [place] and is_fixed and len(numbers) == 1 else 0

    def _calls_before(self, body: str, place: int) -> list[Calls]:
        parts = self.plan.tails[body].known(self.plan.decided, place - 1)
        return [self.calls_of(part, body, place - 1) for part in parts if part.last >= place]

    @property
    def goes_back(self) -> bool:
        """Whether there is a gradient."""
        sweeps = [sweep for body in self.plan.graph.bodies.values() for sweep in body.sweeps[1:]]
        return any(present(sweep.parameters) for sweep in sweeps)

    def space(self, region: Region | None, body: str) -> Hashable:
        """What the rows of a region's values stand for: entries of ragged rows, or frames."""
        for item in reversed(region.path() if region else ()):
            if isinstance(item, Each):
                return item
        return body

    def _entries(self) -> dict[str, list[Each]]:
        """By body, the ragged rows whose entries have rows in buffers, from the outermost."""
        found: dict[str, list[Each]] = {}
        for name in self.plan.graph.bodies:
            regions = [value.region for value in self.plan.rows[name]]
            regions += [link.region for _, link in self._links(name)]
            each = [
                item
                for region in regions
                for item in (region.path() if region else ())
                if isinstance(item, Each)
            ]
            found[name] = sorted(dict.fromkeys(each), key=lambda item: len(item.path()))
        return found

    def _links(self, body: str) -> Iterator[tuple[Group, Link]]:
        for (name, _), groups in self.groups.items():
            for group in groups if name == body else ():
                for link in group.links:
                    yield group, link

    def rooms(self, sweep: int) -> dict[Key, Room]:
        """The buffers that the loop of a sweep fills."""
        rooms: dict[Key, Room] = {}
        for name, body in self.plan.graph.bodies.items():
            for number, node in enumerate(present(body.sweeps[sweep].parameters) if sweep else ()):
                rooms[("input", name, sweep, number)] = _room(name, node.types[0])
            for number, output in enumerate(present(body.sweeps[sweep].outputs)):
                rooms[("output", name, sweep, number)] = _room(name, output.types[0])
            for value in self.plan.rows[name]:
                if self.plan.parts[value.node] in self._loops(name, sweep):
                    rooms[("value", value)] = _room(self.space(value.region, name), value.type)
            if sweep == 0:
                tails = self.has_tail_calls(name)
                rooms[("frame", name)] = Room(
                    name, tf.int32, (len(TAIL_FRAME if tails else FRAME),)
                )
                if tails and self.goes_back:
                    rooms[("result", name)] = Room(name, tf.int32, ())
                if any(self.counts_calls(name, place) for place in self.plan.places(name)[1:]):
                    rooms[("pending", name)] = Room(name, tf.int32, ())
                for _, link in self._links(name):
                    rooms[link.key] = Room(self.space(link.region, name), tf.int32, ())
                for each in self.entries[name]:
                    rooms[("entries", each)] = Room(self.space(each.parent, name), tf.int32, ())
        return rooms

    def room(self, value: Value, body: str) -> Room:
        """The buffer of a value."""
        return _room(self.space(value.region, body), value.type)

    def _loops(self, body: str, sweep: int) -> set[object]:
        places = range(len(self.plan.groups[body]) + 1)
        return {part for place in places for part in self.plan.part(body, sweep, place)}


def _callees(sites: list[CallSite]) -> list[str]:
    return list(dict.fromkeys(site.callee for site in sites))


def _group(callee: str, sites: list[CallSite]) -> Group:
    found = alternating([site for site in sites if site.callee == callee])
    return Group(callee, tuple(Link(region_of_call(group[0]), group) for group in found))


def _room(space: Hashable, found: Type) -> Room:
    if found.shape is None:
        raise GraphError(f"A value of type {found} is kept for other calls, without a known rank.")
    return Room(space, found.dtype, found.shape)
