"""Makes the sections of a program of several rounds: queues and what is hoisted, by sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kerasrec._src.graph.graph import CallSite, present
from kerasrec._src.schedule.instructions import HandOn, Instruction, Return, Wait
from kerasrec._src.schedule.linkage import (
    read_from_rows,
    received,
    results,
    sent_by_frame,
)
from kerasrec._src.schedule.places import BodyPlaces
from kerasrec._src.schedule.sections import AllTokens, Direction, Queues, Section, Segment
from kerasrec._src.schedule.tails import Tail


def in_queues(
    bodies: Sequence[BodyPlaces], change: Callable[[Instruction], Instruction]
) -> Iterator[Section]:
    """Yields queues for each sweep, each followed by a section for all tokens.

    Args:
        bodies: The places of each body of the program.
        change: Returns an instruction as it runs in these sections.
    """
    for sweep in range(bodies[0].graph.num_sweeps):
        own = [_BodySweep(places, change, sweep) for places in bodies]
        if not any(body.passes_values for body in own):
            yield AllTokens(sweep, sweep, tuple(body.alone() for body in own))
            continue
        direction = Direction.BACK if sweep % 2 else Direction.AGAIN
        segments = tuple(segment for body in own for segment in body.segments())
        yield Queues(sweep, sweep, segments, direction if sweep else Direction.READY)
        yield AllTokens(sweep, sweep, tuple(Segment(body.name, ()) for body in own))


class _BodySweep:
    """Makes the segments of a body in a sweep.

    Args:
        places: The places of the body.
        change: Returns an instruction as it runs in these segments.
        sweep: The number of the sweep.
    """

    def __init__(
        self, places: BodyPlaces, change: Callable[[Instruction], Instruction], sweep: int
    ):
        self.places = places
        self.graph, self.tail, self.name = places.graph, places.tail, places.body.name
        self.number, self.sweep = sweep, places.body.sweeps[sweep]
        self.instructions = {
            place: list(map(change, own)) for place, own in places.instructions(sweep).items()
        }

    @property
    def passes_values(self) -> bool:
        """Whether values enter or leave the body in the sweep."""
        return any((*self.sweep.parameters, *self.sweep.outputs))

    def segments(self) -> Iterator[Segment]:
        """Yields a segment for each place that frames come to, in the order of the sweep."""
        places = range(self.tail.last + 1)
        for place in reversed(places) if self.number % 2 else places:
            own = self.instructions.get(place, ())
            instructions = (*self._before(place), *own, *self._after(place))
            yield Segment(self.name, instructions, place, tuple(self.tail.settled(place)))

    def alone(self) -> Segment:
        """Returns a segment for all frames, for a sweep in which nothing is passed."""
        own = (one for _, of_place in sorted(self.instructions.items()) for one in of_place)
        return Segment(self.name, tuple(own))

    def _before(self, place: int) -> Iterator[Instruction]:
        if not self.number and not place:
            yield from received(self.graph, self.name, self.number)
            groups = [group for round in self.places.rounds for group in self.places.calls(round)]
            yield from read_from_rows(self.graph, self.name, groups)

    def _after(self, place: int) -> Iterator[Instruction]:
        """Yields how frames pass values on; gradients go to the frames that were called before."""
        is_back = self.number % 2
        for group in self.places.calls(place if is_back else place + 1):
            # Gradients go to the frame that returned.
            if not (is_back and self.tail.hands_on(group[0])):
                yield from sent_by_frame(self.graph, group, self.number)
        if not is_back:
            yield from self._done(place)
        elif not place:
            yield from results(self.graph, self.name, self.number)

    def _done(self, place: int) -> Iterator[Instruction]:
        """Yields returns for frames that are done; in sweep 0, the others wait for calls."""
        for part in self.places.known(place):
            if part.last > place and not self.number:
                yield self._wait(place, part)
            elif part.last == place:
                around = [node for outer in self.tail.parts_around(part) for node in outer.passing]
                own = [node for node in around if node in self.sweep.nodes]
                passing = (*own, *present(self.sweep.outputs))
                if part.call is None:
                    values = tuple(part.values[self.number // 2])
                    yield Return(values, passing, region=part.region)
                elif not self.number:
                    yield HandOn(part.call, passing, region=part.region)

    def _wait(self, place: int, part: Tail) -> Wait:
        path = part.region.path() if part.region else ()
        sites: list[CallSite] = []
        others = []
        for group in self.places.calls(place + 1):
            region = group[0].region
            around = self.tail.around(region)
            if region is None or region in path:
                sites += group
            elif part in around.parts or around in part.parts:
                others.append(group)
        return Wait(tuple(sites), tuple(others), then=place + 1, region=part.region)
