"""The pass `hoist_by_place`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kerasrec._src.graph.values import Region
from kerasrec._src.schedule.instructions import HandOn, Instruction, Return, Wait, items_through
from kerasrec._src.schedule.loads_and_saves import linked
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Queues, Section, Segment


def hoist_by_place(schedule: Schedule) -> Schedule:
    """Divides what is hoisted among the places whose frames have taken its branch.

    The frames of a place stand in a list, and what their blocks have kept lies in the same order.
    So no row is computed for frames of other branches, and none is looked up by its number. It must
    be the last pass that moves instructions.
    """
    if not schedule.in_queues:
        return schedule

    def divided(section: Section, segment: Segment) -> Iterable[Segment]:
        if not isinstance(section, AllTokens):
            return [segment]
        return _divided(segment, schedule.queues)

    return linked(schedule.with_segments(divided))


def _divided(segment: Segment, queues: Queues) -> Iterator[Segment]:
    """A segment for each place, and for all frames, as often as one needs what another computes."""
    places = {other.place: other for other in queues.segments if other.body == segment.body}
    settled = dict(settled_places(list(places.values())))
    at_use = {item: maker for maker in segment.at_use for item in maker.writes}
    makers = {item: maker for maker in segment.placed for item in maker.writes}
    waiting = {one: _place_of(one, settled) for one in segment.placed}
    while waiting:
        for place in (None, *places):
            taken: list[Instruction] = []
            for instruction in [one for one, of in waiting.items() if of == place]:
                sources = (makers.get(item) for item in items_through(instruction.reads, at_use))
                if waiting.keys().isdisjoint(filter(None, sources)):
                    taken.append(instruction)
                    del waiting[instruction]
            if taken:
                branches = places[place].settled if place is not None else ()
                yield Segment(segment.body, (*taken, *segment.at_use), place, branches)


def settled_places(segments: list[Segment]) -> Iterator[tuple[Region, int]]:
    """Branches of which all frames come to a place, and the place."""
    before: dict[int, int] = {}
    ends: list[tuple[tuple[Region, ...], int]] = []
    for segment in segments:
        for instruction in segment.placed:
            if isinstance(instruction, Wait):
                before[instruction.then] = segment.number
            elif isinstance(instruction, Return | HandOn):
                ends.append((instruction.path, segment.number))
    for segment in segments:
        for region in segment.settled:
            if all(segment.number in _way_to(end, before) for path, end in ends if region in path):
                yield region, segment.number


def _way_to(place: int, before: Mapping[int, int]) -> Iterator[int]:
    """The places that frames have come to before one, and this one."""
    yield place
    if place in before:
        yield from _way_to(before[place], before)


def _place_of(instruction: Instruction, settled: Mapping[Region, int]) -> int | None:
    """The place whose frames an instruction is for; None for all frames."""
    return next((settled[part] for part in reversed(instruction.path) if part in settled), None)
