"""Which instructions run in loops, and which are hoisted out of them.

Only some instructions of a stage are needed by calls and returns; they run in its loop. Nothing
waits for the others, so they run once for all tokens together when the loop is done: the leaves of
trees, the gradients of shared weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kerasrec.errors import GraphError
from kerasrec.schedule.instructions import (
    Effect,
    HandOn,
    Instruction,
    Item,
    Receive,
    Reduce,
    Return,
    Returned,
    Select,
    Send,
    Tokens,
    Wait,
)
from kerasrec.schedule.link import at_use_of, linked
from kerasrec.schedule.schedule import Schedule
from kerasrec.schedule.sections import Loop, Queues, Segment

_WAITED_FOR = (Receive, Returned, Send, Return, HandOn, Wait, Effect)


def placed(schedule: Schedule) -> Schedule:
    """The schedule with each instruction in a loop if something there waits for it, and linked.

    A section for all tokens stands behind each loop. What it computes again, after the loop has,
    stays there.
    """
    at_use = at_use_of(schedule)
    sections = list(schedule.sections)
    for number, section in enumerate(sections):
        if not isinstance(section, Loop):
            continue
        hoisted = sections[number + 1]
        pairs = {}
        for segment in hoisted.segments:
            loops = [one for one in section.segments if one.body == segment.body]
            pairs[segment.body] = _divided(loops, segment, at_use, isinstance(section, Queues))
        by_body = {name: iter(loops) for name, (loops, _) in pairs.items()}
        segments = tuple(next(by_body[one.body]) for one in section.segments)
        sections[number] = replace(section, segments=segments)
        sections[number + 1] = replace(
            hoisted, segments=tuple(pairs[one.body][1] for one in hoisted.segments)
        )
    return linked(replace(schedule, sections=tuple(sections)))


def _divided(
    loops: Sequence[Segment],
    hoisted: Segment,
    at_use: Mapping[Item, Instruction],
    waits_for_regions: bool,
) -> tuple[list[Segment], Segment]:
    """Segments with the instructions of all, the first with those that their loop waits for.

    Args:
        loops: of a body, in the order in which its tokens come to them.
        hoisted: for all its tokens.
        at_use: what is materialised at use.
        waits_for_regions: whether it is decided in the loop which tokens go where.
    """
    in_loops = [one for segment in loops for one in segment.placed]
    here = {item for one in in_loops for item in one.writes}
    again = [one for one in hoisted.placed if here.intersection(one.writes)]
    pool = [*in_loops, *(one for one in hoisted.placed if one not in again)]
    own = {item: one for one in pool for item in one.writes}
    needed: set[Instruction] = set()
    roots = (*_WAITED_FOR, Select) if waits_for_regions else _WAITED_FOR
    waiting = [one for one in pool if _is_waited_for(one, roots)]
    while waiting:
        one = waiting.pop()
        if one not in needed:
            needed.add(one)
            waiting += filter(None, (_source(item, own, at_use) for item in one.reads))
    # A loop with one segment for each body takes back what was hoisted and is waited for now.
    back = [one for one in hoisted.placed if one in needed]
    if back and len(loops) > 1:
        raise GraphError(f"{hoisted.body} waits for what runs for all tokens, {back[0]}.")
    copies = [one for segment in (*loops, hoisted) for one in segment.instructions if one.at_use]
    found = [
        replace(
            segment,
            instructions=(
                *(one for one in (*segment.placed, *back) if one in needed),
                *copies[: len(copies) if segment is loops[0] else 0],
            ),
        )
        for segment in loops
    ]
    left = (one for one in pool if one not in needed)
    return found, replace(hoisted, instructions=(*again, *left))


def _is_waited_for(one: Instruction, roots: tuple[type[Instruction], ...]) -> bool:
    return one.by_wave if isinstance(one, Reduce) else isinstance(one, roots)


def _source(
    item: Item, own: Mapping[Item, Instruction], at_use: Mapping[Item, Instruction]
) -> Instruction | None:
    """What computes an item in the stage; None if another stage does."""
    if isinstance(item, Tokens) and item.region:
        item = item.region
    return own.get(item) or at_use.get(item)
