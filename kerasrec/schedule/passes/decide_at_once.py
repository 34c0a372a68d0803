"""The pass `decide_at_once`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kerasrec.graph.nodes import operations
from kerasrec.graph.values import Value
from kerasrec.schedule.instructions import Effect, Fire, Instruction, Measure, Receive, Send, Tokens
from kerasrec.schedule.link import linked
from kerasrec.schedule.schedule import Schedule
from kerasrec.schedule.sections import Direction, Loop, Segment
from kerasrec.trace.functions import unrepeatable_op


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
    if not all(map(_is_cheap, ones)) or not _are_repeatable(ones):
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


def _is_cheap(one: Instruction) -> bool:
    values = [item for item in one.writes if isinstance(item, Value)]
    has_function = isinstance(one, Fire) and one.node.function is not None
    is_free = not has_function and not isinstance(one, Effect)
    return is_free and not any(value.type.is_differentiable for value in values)


def _are_repeatable(ones: Sequence[Instruction]) -> bool:
    found = operations(one.node for one in ones if isinstance(one, Fire))
    return not (found and unrepeatable_op(found))
