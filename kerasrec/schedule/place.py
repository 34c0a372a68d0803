"""Which instructions run wave by wave, and which are hoisted out of the loops.

Only some instructions of a stage are needed by calls and returns; they run in its loop. Nothing
waits for the others, so they run once for all waves together when the loop is done: the leaves of
trees, the gradients of shared weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kerasrec.schedule.instructions import (
    Effect,
    Instruction,
    Item,
    Loop,
    Receive,
    Reduce,
    Return,
    Returned,
    Segment,
    Send,
    Tokens,
)
from kerasrec.schedule.link import at_use_of, linked
from kerasrec.schedule.schedule import Schedule


def placed(schedule: Schedule) -> Schedule:
    """The schedule with each instruction in a loop if something there waits for it, and linked.

    A section for all tokens stands behind each loop. What it computes again, after the loop has,
    stays there.
    """
    at_use = at_use_of(schedule)
    sections = list(schedule.sections)
    for number, section in enumerate(sections):
        if isinstance(section, Loop):
            hoisted = sections[number + 1]
            pairs = [
                _divided(one, other, at_use)
                for one, other in zip(section.segments, hoisted.segments, strict=True)
            ]
            sections[number] = replace(section, segments=tuple(one for one, _ in pairs))
            sections[number + 1] = replace(hoisted, segments=tuple(other for _, other in pairs))
    return linked(replace(schedule, sections=tuple(sections)))


def _divided(
    loop: Segment, hoisted: Segment, at_use: Mapping[Item, Instruction]
) -> tuple[Segment, Segment]:
    """Segments with the instructions of both, the first with those that its loop waits for."""
    here = {item for one in loop.placed for item in one.writes}
    again = [one for one in hoisted.placed if here.intersection(one.writes)]
    pool = [*loop.placed, *(one for one in hoisted.placed if one not in again)]
    own = {item: one for one in pool for item in one.writes}
    needed: set[Instruction] = set()
    waiting = list(filter(_is_waited_for, pool))
    while waiting:
        one = waiting.pop()
        if one not in needed:
            needed.add(one)
            waiting += filter(None, (_source(item, own, at_use) for item in one.reads))
    copies = [one for one in (*loop.instructions, *hoisted.instructions) if one.at_use]
    return (
        replace(loop, instructions=(*(one for one in pool if one in needed), *copies)),
        replace(hoisted, instructions=(*again, *(one for one in pool if one not in needed))),
    )


def _is_waited_for(one: Instruction) -> bool:
    if isinstance(one, Reduce):
        return one.by_wave
    return isinstance(one, Receive | Returned | Send | Return | Effect)


def _source(
    item: Item, own: Mapping[Item, Instruction], at_use: Mapping[Item, Instruction]
) -> Instruction | None:
    """What computes an item in the stage; None if another stage does."""
    if isinstance(item, Tokens) and item.region:
        item = item.region
    return own.get(item) or at_use.get(item)
