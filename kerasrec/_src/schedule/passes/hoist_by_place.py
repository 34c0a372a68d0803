"""The pass `hoist_by_place`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kerasrec._src.graph.values import Region
from kerasrec._src.schedule.instructions import (
    HandOn,
    Instruction,
    Item,
    Return,
    Wait,
)
from kerasrec._src.schedule.loads_and_saves import linked
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Queues, Segment


def hoist_by_place(schedule: Schedule) -> Schedule:
    """Divides what is hoisted among the places whose frames have taken its branch.

    The frames of a place stand in a list, and what their blocks have kept lies in the same order.
    So no row is computed for frames of other branches, and none is looked up by its number. It must
    be the last pass that moves instructions.
    """
    if not schedule.in_queues:
        return schedule
    first = next(item for item in schedule.sections if isinstance(item, Queues))
    sections = tuple(
        replace(
            section,
            segments=tuple(one for item in section.segments for one in _divided(item, first)),
        )
        if isinstance(section, AllTokens)
        else section
        for section in schedule.sections
    )
    return linked(replace(schedule, sections=sections))


def _divided(segment: Segment, queues: Queues) -> Iterator[Segment]:
    """A segment for each place, and for all frames, as often as one needs what another computes."""
    places = {item.place: item for item in queues.segments if item.body == segment.body}
    settled = dict(settled_places(list(places.values())))
    at_use = [one for one in segment.instructions if one.at_use]
    makers = {item: one for one in segment.placed for item in one.writes}
    again = {item: one for one in at_use for item in one.writes}
    waiting = {one: _place_of(one, settled) for one in segment.placed}
    while waiting:
        for place in (None, *places):
            taken: list[Instruction] = []
            for one in [one for one, of in waiting.items() if of == place]:
                if waiting.keys().isdisjoint(_sources(one, makers, again)):
                    taken.append(one)
                    del waiting[one]
            if taken:
                branches = places[place].settled if place is not None else ()
                yield Segment(segment.body, (*taken, *at_use), place, branches)


def settled_places(segments: list[Segment]) -> Iterator[tuple[Region, int]]:
    """Branches of which all frames come to a place, and the place."""
    before: dict[int, int] = {}
    ends: list[tuple[tuple[Region, ...], int]] = []
    for segment in segments:
        for one in segment.placed:
            if isinstance(one, Wait):
                before[one.then] = segment.place or 0
            elif isinstance(one, Return | HandOn):
                ends.append((one.path, segment.place or 0))
    for segment in segments:
        place = segment.place or 0
        for region in segment.settled:
            if all(place in _way_to(end, before) for path, end in ends if region in path):
                yield region, place


def _way_to(place: int, before: Mapping[int, int]) -> Iterator[int]:
    """The places that frames have come to before one, and this one."""
    yield place
    if place in before:
        yield from _way_to(before[place], before)


def _place_of(one: Instruction, settled: Mapping[Region, int]) -> int | None:
    """The place whose frames an instruction is for; None for all frames."""
    return next((settled[item] for item in reversed(one.path) if item in settled), None)


def _sources(
    one: Instruction, makers: Mapping[Item, Instruction], at_use: Mapping[Item, Instruction]
) -> Iterator[Instruction]:
    """The instructions that one reads, also through what runs at use."""
    waiting, seen = list(one.reads), set()
    while waiting:
        item = waiting.pop()
        if item in makers:
            yield makers[item]
        elif item in at_use and item not in seen:
            seen.add(item)
            waiting += at_use[item].reads
