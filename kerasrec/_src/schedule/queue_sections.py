"""Makes the sections of a program of several rounds: queues and what is hoisted, by sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kerasrec._src.graph.graph import CallSite, TaggedGraph, present
from kerasrec._src.schedule.instructions import HandOn, Instruction, Return, Wait
from kerasrec._src.schedule.linkage import (
    read_from_rows,
    received,
    results,
    sent_by_frame,
)
from kerasrec._src.schedule.places import Places, place_of
from kerasrec._src.schedule.sections import AllTokens, Direction, Queues, Section, Segment
from kerasrec._src.schedule.tails import Tail
from kerasrec._src.schedule.turns import turns

ByStage = Mapping[tuple[str, int], list[Instruction]]
"""The instructions of each body and stage, without call linkage."""


def in_queues(places: Places, by_stage: ByStage) -> Iterator[Section]:
    """Yields queues for each sweep, each followed by a section for all tokens."""
    graph, stages = places.stages.graph, places.stages
    for sweep in range(graph.num_sweeps):
        bodies = [_BodySweep(places, by_stage, name, sweep) for name in graph.bodies]
        sweeps = [body.sweeps[sweep] for body in graph.bodies.values()]
        if not any(node for own in sweeps for node in (*own.parameters, *own.outputs)):
            yield AllTokens(sweep, stages.last(sweep), tuple(body.alone() for body in bodies))
            continue
        segments = tuple(segment for body in bodies for segment in body.segments())
        direction = Direction.BACK if sweep % 2 else Direction.AGAIN
        yield Queues(
            sweep,
            stages.first(sweep),
            segments,
            direction if sweep else Direction.READY,
            () if sweep else turns(segments),
        )
        yield AllTokens(
            sweep, stages.last(sweep), tuple(Segment(name, ()) for name in graph.bodies)
        )


@dataclass(frozen=True)
class _BodySweep:
    """Makes the segments of a body in a sweep.

    Args:
        places: The places of the program.
        by_stage: The instructions of all bodies.
        name: The name of the body.
        sweep: The number of the sweep.
    """

    places: Places
    by_stage: ByStage
    name: str
    sweep: int

    @property
    def graph(self) -> TaggedGraph:
        """The program."""
        return self.places.stages.graph

    @property
    def tail(self) -> Tail:
        """Where frames are done."""
        return self.places.tails[self.name]

    def segments(self) -> Iterator[Segment]:
        """Yields a segment for each place, in the order of the sweep."""
        numbers = self.places.of(self.name)
        for place in reversed(numbers) if self.sweep % 2 else numbers:
            instructions = (*self._before(place), *self._own(place), *self._after(place))
            yield Segment(self.name, instructions, place, tuple(self.tail.settled(place)))

    def alone(self) -> Segment:
        """Returns a segment for all frames, for a sweep in which nothing is passed."""
        own = (one for place in self.places.of(self.name) for one in self._own(place))
        return Segment(self.name, tuple(own))

    def _own(self, place: int) -> Iterator[Instruction]:
        """Yields the instructions of the nodes of a place."""
        stages = self.places.stages
        num_rounds = len(stages.groups[self.name])
        for stage in range(stages.first(self.sweep), stages.last(self.sweep) + 1):
            if min(self.tail.last, place_of(stage, stages.rounds, num_rounds)) == place:
                yield from self.by_stage.get((self.name, stage), ())

    def _before(self, place: int) -> Iterator[Instruction]:
        if not self.sweep and not place:
            yield from received(self.graph, self.name, self.sweep)
            rounds = self.places.stages.groups[self.name]
            groups = [group for number in rounds for group in self.places.calls(self.name, number)]
            yield from read_from_rows(self.graph, self.name, groups)

    def _after(self, place: int) -> Iterator[Instruction]:
        """Yields how frames pass values on; gradients go to the frames that were called before."""
        is_back = self.sweep % 2
        for group in self.places.calls(self.name, place if is_back else place + 1):
            # Gradients go to the frame that returned.
            if not (is_back and self.tail.hands_on(group[0])):
                yield from sent_by_frame(self.graph, group, self.sweep)
        if not is_back:
            yield from self._done(place)
        elif not place:
            yield from results(self.graph, self.name, self.sweep)

    def _done(self, place: int) -> Iterator[Instruction]:
        """Yields returns for frames that are done; in sweep 0, the others wait for calls."""
        own = self.graph.bodies[self.name].sweeps[self.sweep]
        for part in self.places.known(self.name, place):
            if part.last > place and not self.sweep:
                yield self._wait(place, part)
            elif part.last == place:
                around = [node for outer in self.tail.parts_around(part) for node in outer.passing]
                passing = (*(node for node in around if node in own.nodes), *present(own.outputs))
                if part.call is None:
                    values = tuple(part.values[self.sweep // 2])
                    yield Return(values, passing, region=part.region)
                elif not self.sweep:
                    yield HandOn(part.call, passing, region=part.region)

    def _wait(self, place: int, part: Tail) -> Wait:
        path = part.region.path() if part.region else ()
        sites: list[CallSite] = []
        others = []
        for group in self.places.calls(self.name, place + 1):
            region = group[0].region
            around = self.tail.around(region)
            if region is None or region in path:
                sites += group
            elif part in around.parts or around in part.parts:
                others.append(group)
        return Wait(tuple(sites), tuple(others), then=place + 1, region=part.region)
