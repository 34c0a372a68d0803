"""The pass `products_later`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kerasrec._src.graph.values import Region
from kerasrec._src.schedule.instructions import Fire, Instruction, Item
from kerasrec._src.schedule.loads_and_saves import ROOTS, at_use_of, linked
from kerasrec._src.schedule.passes.branches_apart import PRODUCTS
from kerasrec._src.schedule.passes.hoist_by_place import settled_places
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Queues, Segment


def products_later(schedule: Schedule) -> Schedule:
    """Moves matrix products to a later place to which only the frames of their branch come.

    Every branch at a place is computed on all rows of its blocks. What nothing waits for there,
    such as the product of an inner node's input, runs where the branch goes on. Later passes must
    not move instructions in queues.
    """
    if not schedule.in_queues or schedule.graph.memo is not None:
        return schedule
    first = next(item for item in schedule.sections if isinstance(item, Queues))
    at_use = at_use_of(schedule)
    segments = list(first.segments)
    for name in schedule.graph.bodies:
        own = [item for item in segments if item.body == name]
        for region, place in settled_places(own):
            later = next(item for item in own if item.place == place)
            for number, segment in enumerate(own):
                if number < own.index(later):
                    moved = _moved(own, number, own.index(later), region, at_use)
                    left = tuple(one for one in segment.instructions if one not in moved)
                    own[number] = replace(segment, instructions=left)
                    own[own.index(later)] = later = replace(
                        later, instructions=(*moved, *later.instructions)
                    )
        found = iter(own)
        segments = [next(found) if item.body == name else item for item in segments]
    sections = tuple(
        replace(item, segments=tuple(segments)) if item is first else item
        for item in schedule.sections
    )
    return linked(replace(schedule, sections=sections))


def _moved(
    segments: list[Segment],
    origin: int,
    target: int,
    region: Region,
    at_use: Mapping[Item, Instruction],
) -> list[Instruction]:
    """What a segment need not compute for a branch, because another can; empty without a product.

    Args:
        segments: of a body, in the order in which frames come to them.
        origin: the number of the segment.
        target: the number of that to which all frames of the branch come.
        region: the branch.
        at_use: what is materialised at use.
    """
    segment = segments[origin]
    moved = {one for one in segment.placed if region in one.path}
    moved -= {one for one in moved if isinstance(one, ROOTS) or not isinstance(one, Fire)}
    between = [item for item in segments[:target] if item is not segment]
    while True:
        rest = [one for one in segment.placed if one not in moved]
        rest += [one for item in between for one in item.placed]
        read = {item for one in rest for item in _read(one, at_use)}
        kept = {one for one in moved if not read.isdisjoint(one.writes)}
        if not kept:
            break
        moved -= kept
    if not any(isinstance(one, Fire) and one.node.op in PRODUCTS for one in moved):
        return []
    return [one for one in segment.placed if one in moved]


def _read(one: Instruction, at_use: Mapping[Item, Instruction]) -> set[Item]:
    """What an instruction reads, and what that is materialised from at use."""
    found: set[Item] = set()
    waiting = list(one.reads)
    while waiting:
        item = waiting.pop()
        if item not in found:
            found.add(item)
            if item in at_use:
                waiting += at_use[item].reads
    return found
