"""Passes over the decisions of the first loop by integers, and ops hoisted out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kerasrec._src.schedule.edit import gives_no_floats
from kerasrec._src.schedule.instructions import (
    Instruction,
    Item,
    Measure,
    Receive,
    Send,
    TokenCount,
    items_through,
)
from kerasrec._src.schedule.loads_and_saves import at_use_of, with_loads_and_saves
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Direction, Loop, Segment


def decide_at_once(schedule: Schedule) -> Schedule:
    """Decides again which tokens are called, and which branch they take, instead of keeping it.

    In programs that decide only by integers, as all programs that go up trees do, the first loop
    then keeps only arguments, and deciding again for the tokens of all waves together is cheaper.
    """
    if schedule.graph.memo is not None:  # See integers_by_level.
        return schedule
    loop, hoisted, *rest = schedule.sections
    if not isinstance(loop, Loop) or loop.direction is not Direction.CALLS:
        return schedule
    if not all(gives_no_floats(item) for segment in loop.segments for item in segment.placed):
        return schedule
    segments = tuple(
        after.holding([*_again(before), *after.instructions])
        for before, after in zip(loop.segments, hoisted.segments, strict=True)
    )
    return with_loads_and_saves(
        replace(schedule, sections=(loop, replace(hoisted, segments=segments), *rest))
    )


def _again(segment: Segment) -> list[Instruction]:
    """The decisions of a segment, from its arguments."""
    name = decide_at_once.__name__
    (receive,) = segment.of(Receive)
    others = [other for other in segment.placed if not isinstance(other, Receive | Send)]
    return [
        Measure(TokenCount(segment.body), receive.values[0], by=name),
        *(replace(other, by=name) for other in others),
    ]


def integers_by_level(schedule: Schedule) -> Schedule:
    """With `memo`, what integers give is computed in the first loop, level by level.

    The products of floats gain from all tokens at once. A sum of integers does not: the tokens of a
    level fit into the processor's cache, those of all levels do not.
    """
    if not schedule.graph.memo or schedule.in_queues or not schedule.has_loops:
        return schedule
    loop, hoisted, *rest = schedule.sections
    at_use = at_use_of(schedule)
    moved = {segment.body: _of_integers(segment.placed, at_use) for segment in hoisted.segments}
    name = integers_by_level.__name__
    segments = tuple(
        segment.holding(
            [*segment.instructions, *(replace(one, by=name) for one in moved[segment.body])]
        )
        for segment in loop.segments
    )
    left = tuple(segment.without(moved[segment.body]) for segment in hoisted.segments)
    sections = replace(loop, segments=segments), replace(hoisted, segments=left)
    return with_loads_and_saves(replace(schedule, sections=(*sections, *rest)))


def _of_integers(
    placed: Iterable[Instruction], at_use: dict[Item, Instruction]
) -> list[Instruction]:
    """Instructions that give no floats, and read none that others of them give."""
    heavy: set[Item] = set()
    light = []
    for instruction in placed:
        if gives_no_floats(instruction) and heavy.isdisjoint(
            items_through(instruction.reads, at_use)
        ):
            light.append(instruction)
        else:
            heavy.update(instruction.writes)
    return light
