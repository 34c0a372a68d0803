"""The pass `sum_by_wave`."""

from __future__ import annotations

from dataclasses import replace

from kerasrec._src.schedule.edit import edited
from kerasrec._src.schedule.instructions import Instruction, Item, Load, Reduce, Save
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop, Queues, Segment


def sum_by_wave(schedule: Schedule) -> Schedule:
    """Adds up gradients of weights wave by wave, if what they are made of comes from loops.

    Then no cotangents are kept for the section that would sum them, and no forward values either;
    but each wave adds as many numbers as the weight has. Queues take many small blocks: there all
    is summed at once.
    """
    kept_by_loops = {
        one.item
        for section, _, one in schedule.instructions()
        if isinstance(one, Save) and isinstance(section, Loop)
    }
    edits: dict[Instruction, list[Instruction]] = {}
    for loop, section in zip(schedule.sections, schedule.sections[1:], strict=False):
        if not isinstance(loop, Loop) or isinstance(loop, Queues):
            continue
        for segment in section.segments:
            for one in segment.instructions:
                if (
                    isinstance(one, Reduce)
                    and one.can_be_by_wave
                    and _loaded_for(one, segment) <= kept_by_loops
                ):
                    edits[one] = [replace(one, by_wave=True, by=sum_by_wave.__name__)]
    return edited(schedule, edits)


def _loaded_for(one: Instruction, segment: Segment) -> set[Item]:
    """What a segment loads for one of its instructions."""
    makers = {item: maker for maker in segment.instructions for item in maker.writes}
    loaded, seen, waiting = set(), set(), [one]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Load):
            loaded.add(one.item)
        if one not in seen:
            seen.add(one)
            waiting += [makers[item] for item in one.reads]
    return loaded
