"""Passes for blocks that choose the place at which a branch is computed.

Every branch at a place is computed on all rows of its blocks. At a place to which only the frames
of the branch come, it is computed only for these frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kerasrec._src.graph.values import Region
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import (
    Fire,
    HandOn,
    Instruction,
    Item,
    Return,
    Wait,
    items_through,
)
from kerasrec._src.schedule.loads_and_saves import at_use_of, with_loads_and_saves
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Direction, Queues, Section, Segment


def branches_apart(schedule: Schedule) -> Schedule:
    """Gives a separate place to each branch that computes a matrix product and then returns.

    Later passes must not move instructions in queues. With memo a block has calls that stand side
    by side, whatever branches they take.
    """
    if not schedule.in_queues or schedule.graph.memo is not None:
        return schedule
    last: dict[str, int] = {}
    for segment in schedule.queues.segments:
        last[segment.body] = max(last.get(segment.body, 0), segment.number)
    # The place and the branches that leave it, each with its new place.
    apart: dict[tuple[str, int], list[tuple[Region, int]]] = {}
    for segment in schedule.queues.segments:
        branches = apart.setdefault(segment.key, [])
        for instruction in segment.placed:
            region = instruction.region if isinstance(instruction, Return) else None
            if region and region not in segment.settled and _multiplies(segment.placed, region):
                last[segment.body] += 1
                branches.append((region, last[segment.body]))

    def divided(section: Section, segment: Segment) -> Sequence[Segment]:
        """Returns a segment and those of its new places: behind it, in the section's direction."""
        if not isinstance(section, Queues):
            return [segment]
        rest, own = segment, []
        for region, place in apart[segment.key]:
            moved = [other for other in rest.placed if region in other.path]
            settled = (*rest.settled, *region.path())
            own.append(Segment(rest.body, (*moved, *rest.at_use), place, settled))
            rest = rest.without(moved)
            if not section.sweep:  # Frames go from here to there.
                wait = Wait((), then=place, region=region, by=branches_apart.__name__)
                rest = rest.holding([*rest.instructions, wait])
        return [*own, rest] if section.direction is Direction.BACK else [rest, *own]

    return with_loads_and_saves(schedule.with_segments(divided))


def products_later(schedule: Schedule) -> Schedule:
    """Moves matrix products to a later place to which only the frames of their branch come.

    Products that nothing waits for at a place, such as that of an inner node's input, run where the
    branch goes on. Later passes must not move instructions in queues.
    """
    if not schedule.in_queues or schedule.graph.memo is not None:
        return schedule
    queues, at_use = schedule.queues, at_use_of(schedule)
    changed: dict[Segment, Segment] = {}
    for name in schedule.graph.bodies:
        before = [segment for segment in queues.segments if segment.body == name]
        after = list(before)
        for region, place in _settled_places(before):
            target = next(at for at, segment in enumerate(after) if segment.place == place)
            for origin in range(target):
                moved = _products_of(after[origin], after[:target], region, at_use)
                after[origin] = after[origin].without(moved)
                after[target] = after[target].holding([*moved, *after[target].instructions])
        changed.update(zip(before, after, strict=True))
    return with_loads_and_saves(
        schedule.with_segments(
            lambda section, segment: [changed[segment] if section is queues else segment]
        )
    )


def _products_of(
    segment: Segment, before: Sequence[Segment], region: Region, at_use: Mapping[Item, Instruction]
) -> list[Fire]:
    """Returns what a segment need not compute for a branch; empty without a product.

    Args:
        segment: The segment.
        before: All segments before the one to which all frames of the branch come.
        region: The branch.
        at_use: The instructions that are materialized at use.
    """
    moved = [fire for fire in segment.placed if isinstance(fire, Fire) and region in fire.path]
    others = [other for earlier in before for other in earlier.placed]
    while True:
        rest = [other for other in others if other not in moved]
        read = {item for other in rest for item in items_through(other.reads, at_use)}
        left = [fire for fire in moved if read.isdisjoint(fire.writes)]
        if len(left) == len(moved):
            return moved if _multiplies(moved, region) else []
        moved = left


def _multiplies(instructions: Iterable[Instruction], region: Region) -> bool:
    return any(
        isinstance(fire, Fire) and has(fire.node.op, Is.PRODUCT) and region in fire.path
        for fire in instructions
    )


def hoist_by_place(schedule: Schedule) -> Schedule:
    """Divides what is hoisted among the places whose frames have taken its branch.

    The frames of a place stand in a list, and the values that their blocks have kept lie in the
    same order. No row is computed for frames of other branches, and none is looked up by its
    number. It must be the last pass that moves instructions.
    """
    if not schedule.in_queues:
        return schedule

    def divided(section: Section, segment: Segment) -> Iterable[Segment]:
        if not isinstance(section, AllTokens):
            return [segment]
        return _by_place(segment, schedule.queues)

    return with_loads_and_saves(schedule.with_segments(divided))


def _by_place(segment: Segment, queues: Queues) -> Iterator[Segment]:
    """Yields a segment for each place, and for all frames, as often as another one needs it."""
    places = {other.place: other for other in queues.segments if other.body == segment.body}
    settled = dict(_settled_places(list(places.values())))
    at_use = {item: maker for maker in segment.at_use for item in maker.writes}
    makers = {item: maker for maker in segment.placed for item in maker.writes}
    # The place of each instruction; None is for all frames.
    waiting = {
        instruction: next(
            (settled[part] for part in reversed(instruction.path) if part in settled), None
        )
        for instruction in segment.placed
    }
    while waiting:
        for place in (None, *places):
            taken: list[Instruction] = []
            for instruction in [other for other, of in waiting.items() if of == place]:
                sources = (makers.get(item) for item in items_through(instruction.reads, at_use))
                if waiting.keys().isdisjoint(filter(None, sources)):
                    taken.append(instruction)
                    del waiting[instruction]
            if taken:
                branches = places[place].settled if place is not None else ()
                yield Segment(segment.body, (*taken, *segment.at_use), place, branches)


def _settled_places(segments: Sequence[Segment]) -> list[tuple[Region, int]]:
    """Returns the branches of which all frames come to a place, and the place."""
    before: dict[int, int] = {}
    ends: list[tuple[tuple[Region, ...], int]] = []
    for segment in segments:
        for instruction in segment.placed:
            if isinstance(instruction, Wait):
                before[instruction.then] = segment.number
            elif isinstance(instruction, Return | HandOn):
                ends.append((instruction.path, segment.number))

    def way_to(place: int) -> Iterator[int]:
        """Yields the places that frames have come to before a place, and the place."""
        yield place
        if place in before:
            yield from way_to(before[place])

    return [
        (region, segment.number)
        for segment in segments
        for region in segment.settled
        if all(segment.number in way_to(end) for path, end in ends if region in path)
    ]
