"""The pass `decide_at_once`."""

from __future__ import annotations

from dataclasses import replace

from kerasrec._src.schedule.edit import gives_no_floats
from kerasrec._src.schedule.instructions import Instruction, Measure, Receive, Send, Tokens
from kerasrec._src.schedule.loads_and_saves import linked
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Direction, Loop, Segment


def decide_at_once(schedule: Schedule) -> Schedule:
    """Decides again which tokens are called, and which branch they take, instead of keeping it.

    In programs that decide by integers alone, as all programs that go up trees do, the first loop
    then keeps only arguments, and deciding again for the tokens of all waves together is cheaper.
    """
    if schedule.graph.memo is not None:  # See integers_by_level.
        return schedule
    loop, hoisted, *rest = schedule.sections
    if not isinstance(loop, Loop) or loop.direction is not Direction.CALLS:
        return schedule
    ones = [one for segment in loop.segments for one in segment.placed]
    if not all(map(gives_no_floats, ones)):
        return schedule
    segments = tuple(
        replace(after, instructions=(*_again(before), *after.instructions))
        for before, after in zip(loop.segments, hoisted.segments, strict=True)
    )
    return linked(replace(schedule, sections=(loop, replace(hoisted, segments=segments), *rest)))


def _again(segment: Segment) -> list[Instruction]:
    """What a segment decides, from its arguments."""
    name = decide_at_once.__name__
    (arguments,) = [one.values for one in segment.placed if isinstance(one, Receive)]
    return [
        Measure(Tokens(segment.body), arguments[0], by=name),
        *(replace(one, by=name) for one in segment.placed if not isinstance(one, Receive | Send)),
    ]
