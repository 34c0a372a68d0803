"""The pass `branches_apart`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kerasrec._src.graph.values import Region
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import Fire, Return, Wait
from kerasrec._src.schedule.loads_and_saves import linked
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Direction, Queues, Segment
from kerasrec._src.schedule.turns import turns


@dataclass(frozen=True)
class _Part:
    """A branch that gets a place of its own.

    Args:
        body: whose it is.
        region: the branch.
        origin: the place that it was at.
        place: the new one.
    """

    body: str
    region: Region
    origin: int
    place: int


def branches_apart(schedule: Schedule) -> Schedule:
    """Gives a place of its own to each branch that computes a matrix product and then returns.

    Every branch at a place is computed on all rows of its blocks; at its own place the product is
    computed for the frames of the branch alone. Later passes must not move instructions in queues.
    With memo a block is of calls that stand side by side, whatever branches they take.
    """
    if not schedule.in_queues or schedule.graph.memo is not None:
        return schedule
    parts = list(_parts(schedule.queues))
    sections = tuple(
        _divided(section, parts) if isinstance(section, Queues) else section
        for section in schedule.sections
    )
    return linked(replace(schedule, sections=sections))


def _parts(section: Queues) -> Iterator[_Part]:
    last: dict[str, int] = {}
    for segment in section.segments:
        last[segment.body] = max(last.get(segment.body, 0), segment.number)
    for segment in section.segments:
        for instruction in segment.placed:
            region = instruction.region if isinstance(instruction, Return) else None
            if region and region not in segment.settled and _multiplies(segment, region):
                last[segment.body] += 1
                yield _Part(segment.body, region, segment.number, last[segment.body])


def _multiplies(segment: Segment, region: Region) -> bool:
    return any(
        isinstance(fire, Fire) and has(fire.node.op, Is.PRODUCT) and region in fire.path
        for fire in segment.placed
    )


def _divided(section: Queues, parts: list[_Part]) -> Queues:
    """The queues of a sweep, with the new places: behind their origin, in its direction."""
    segments: list[Segment] = []
    for segment in section.segments:
        rest, apart = segment, []
        for part in parts:
            if (part.body, part.origin) == (segment.body, segment.place):
                own, rest = _cut(rest, part, is_first=not section.sweep)
                apart.append(own)
        is_back = section.direction is Direction.BACK
        segments += [*apart, rest] if is_back else [rest, *apart]
    components = section.components if section.sweep else turns(segments)
    return replace(section, segments=tuple(segments), components=components)


def _cut(segment: Segment, part: _Part, is_first: bool) -> tuple[Segment, Segment]:
    """What a part does, and the rest; in the first sweep frames go from here to there."""
    moved = [instruction for instruction in segment.placed if part.region in instruction.path]
    settled = (*segment.settled, *part.region.path())
    apart = Segment(segment.body, (*moved, *segment.at_use), part.place, settled)
    rest = segment.without(moved)
    if is_first:
        wait = Wait((), then=part.place, region=part.region, by=branches_apart.__name__)
        rest = rest.holding([*rest.instructions, wait])
    return apart, rest
