"""Sections of a schedule: which instructions run on which tokens, and in which order.

A schedule is a list of sections in the order in which they run. A *loop* goes over the waves of a
program; in each turn it runs one segment for each body. A section for *all tokens* runs its
segments once, on the tokens of all waves together: it has the instructions hoisted out of the
loops. A *segment* is a straight list of instructions on one set of tokens of a body.

A body that makes calls, and then more calls with the results, has *places*: place 0 is before its
first calls, and place j is after the calls of round j have returned. Such a program runs by
*queues*: a loop that in each turn runs the segment of one place, on all frames that are ready for
it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from kerasrec._src.graph.values import Region, reached
from kerasrec._src.schedule.instructions import (
    HandOn,
    Instruction,
    Load,
    Observe,
    OfKind,
    Reduce,
    Return,
    Returned,
    Save,
    Send,
    Wait,
)

Place = tuple[str, int]
"""A body and the number of one of its places."""

Component = tuple[Place, ...]
"""Places of which each feeds all others, directly or through others; often a single one."""


@dataclass(frozen=True)
class Segment:
    """Instructions on one set of tokens of a body, in order.

    Args:
        body: The name of the body.
        instructions: The instructions in order.
        place: In queues, the place of the body; otherwise None.
        settled: The branches that all tokens which come to the place have taken.
    """

    body: str
    instructions: tuple[Instruction, ...]
    place: int | None = None
    settled: tuple[Region, ...] = ()

    @property
    def key(self) -> Place:
        """Its body and the number of its place."""
        return self.body, self.number

    @property
    def number(self) -> int:
        """The number of its place; 0 if it has none."""
        return self.place or 0

    @property
    def placed(self) -> list[Instruction]:
        """The instructions that run here and nowhere else; loads and saves follow from these."""
        return [
            instruction
            for instruction in self.instructions
            if not (instruction.at_use or isinstance(instruction, Load | Save))
        ]

    @property
    def at_use(self) -> list[Instruction]:
        """The instructions that are materialized at use."""
        return [instruction for instruction in self.instructions if instruction.at_use]

    def of(self, kind: type[OfKind]) -> list[OfKind]:
        """Returns its instructions of a class, in order."""
        return [instruction for instruction in self.instructions if isinstance(instruction, kind)]

    def holding(self, instructions: Iterable[Instruction]) -> Segment:
        """Returns the same segment with other instructions."""
        return replace(self, instructions=tuple(instructions))

    def without(self, left_out: Collection[Instruction]) -> Segment:
        """Returns the same segment without some of its instructions."""
        return self.holding(kept for kept in self.instructions if kept not in left_out)


class Direction(enum.Enum):
    """Which way a loop goes.

    CALLS: from the outside down, as long as tokens call; only then is the number of waves known.
    DOWN: from callers to callees.
    UP: from callees to callers.
    READY: to any place with frames that are ready.
    AGAIN: once more over the blocks of frames that were taken.
    BACK: over these blocks from the last to the first.
    """

    CALLS = "from the roots down, until no token calls"
    DOWN = "from the first wave down to the last"
    UP = "from the last wave up to the first"
    READY = "until no frame is ready"
    AGAIN = "from the first block to the last"
    BACK = "from the last block to the first"


@dataclass(frozen=True)
class Section:
    """The instructions of a stage of a sweep.

    Args:
        sweep: The number of the sweep.
        stage: Its number, by which loops over waves are known: three for each sweep, of which the
          first begins before the loops. In queues, the number of the sweep.
        segments: One segment for each body, or for each place of a body.
    """

    sweep: int
    stage: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Loop(Section):
    """Segments that run on every wave.

    Args:
        direction: The order of the waves.
    """

    direction: Direction

    @property
    def is_for_all_waves(self) -> bool:
        """False if it goes up and only the results of the first wave to the outside are read.

        Then a run without equal calls leaves out the other waves.
        """
        instructions = [one for segment in self.segments for one in segment.instructions]
        read = {item for instruction in instructions for item in instruction.reads}
        return self.direction is not Direction.UP or any(
            not read.isdisjoint(instruction.writes)
            if isinstance(instruction, Returned)
            else isinstance(instruction, Save | Reduce | Observe)
            for instruction in instructions
        )


@dataclass(frozen=True)
class Queues(Loop):
    """Segments of places, each of which runs on the frames that are ready for it.

    If frames are ready for several places of the first sweep, places take turns.
    """

    @cached_property
    def feeds(self) -> dict[Place, set[Place]]:
        """For each place, the places whose queues frames may enter once it has run."""
        resumed = self._resumed_by()
        feeds: dict[Place, set[Place]] = {}
        for segment in self.segments:
            feeds[segment.key] = {(send.sites[0].callee, 0) for send in segment.of(Send)}
            feeds[segment.key] |= {(segment.body, wait.then) for wait in segment.of(Wait)}
            if segment.of(Return):
                feeds[segment.key] |= resumed[segment.body]
        return feeds

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """The strongly connected components of the places, in topological order.

        Components wait for the components that feed them, so that more frames come together. In a
        component, places take turns: places of functions that call fewer others come first, and in
        a body later places, so the entrance last.
        """
        feeds = self.feeds
        calls: dict[str, set[str]] = {segment.body: set() for segment in self.segments}
        for segment in self.segments:
            calls[segment.body].update(send.sites[0].callee for send in segment.of(Send))
        reaches = {key: set(reached([key], feeds.__getitem__)) for key in feeds}
        called = {name: set(reached(calls[name], calls.__getitem__)) for name in calls}
        # In the order of `feeds`, since the order of sets is not always the same.
        components = dict.fromkeys(
            tuple(other for other in feeds if other in reaches[key] and key in reaches[other])
            for key in feeds
        )
        return tuple(
            tuple(sorted(component, key=lambda key: (len(called[key[0]]), -key[1])))
            # A component that feeds another one reaches more places.
            for component in sorted(components, key=lambda component: -len(reaches[component[0]]))
        )

    @property
    def order(self) -> list[Place]:
        """The places of all components, in the order in which they run."""
        return [place for component in self.components for place in component]

    def _resumed_by(self) -> dict[str, set[Place]]:
        """Returns the places to which each body may return.

        These are places of its callers; if a caller hands on to it, places of that caller's
        callers.
        """
        handed_on = [hand_on.site for segment in self.segments for hand_on in segment.of(HandOn)]
        handed_on_by: dict[str, set[str]] = {segment.body: set() for segment in self.segments}
        for site in handed_on:
            handed_on_by[site.callee].add(site.caller or "")
        waiting: dict[str, set[Place]] = {name: set() for name in handed_on_by}
        for segment in self.segments:
            for send in segment.of(Send):
                if send.sites[0] not in handed_on:
                    waiting[send.sites[0].callee].add((segment.body, segment.number + 1))
        return {
            name: set().union(*map(waiting.__getitem__, reached([name], handed_on_by.__getitem__)))
            for name in waiting
        }


@dataclass(frozen=True)
class AllTokens(Section):
    """Segments that run once, on the tokens of all waves: hoisted out of the loop before.

    Args:
        is_alone: Whether there are no loops, because nothing calls.
    """

    is_alone: bool = False
