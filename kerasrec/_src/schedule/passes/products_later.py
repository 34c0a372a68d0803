"""The pass `products_later`."""

from __future__ import annotations

from collections.abc import Mapping

from kerasrec._src.graph.values import Region
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import Fire, Instruction, Item, items_through
from kerasrec._src.schedule.loads_and_saves import at_use_of, linked
from kerasrec._src.schedule.passes.hoist_by_place import settled_places
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Segment


def products_later(schedule: Schedule) -> Schedule:
    """Moves matrix products to a later place to which only the frames of their branch come.

    Every branch at a place is computed on all rows of its blocks. What nothing waits for there,
    such as the product of an inner node's input, runs where the branch goes on. Later passes must
    not move instructions in queues.
    """
    if not schedule.in_queues or schedule.graph.memo is not None:
        return schedule
    queues, at_use = schedule.queues, at_use_of(schedule)
    changed: dict[Segment, Segment] = {}
    for name in schedule.graph.bodies:
        before = [segment for segment in queues.segments if segment.body == name]
        after = list(before)
        for region, place in settled_places(before):
            target = next(at for at, segment in enumerate(after) if segment.place == place)
            for origin in range(target):
                moved = _moved(after, origin, target, region, at_use)
                after[origin] = after[origin].without(moved)
                after[target] = after[target].holding([*moved, *after[target].instructions])
        changed.update(zip(before, after, strict=True))
    return linked(
        schedule.with_segments(
            lambda section, segment: [changed[segment] if section is queues else segment]
        )
    )


def _moved(
    segments: list[Segment],
    origin: int,
    target: int,
    region: Region,
    at_use: Mapping[Item, Instruction],
) -> list[Fire]:
    """What a segment need not compute for a branch, because another can; empty without a product.

    Args:
        segments: of a body, in the order in which frames come to them.
        origin: the number of the segment.
        target: the number of that to which all frames of the branch come.
        region: the branch.
        at_use: what is materialised at use.
    """
    fires = [fire for fire in segments[origin].placed if isinstance(fire, Fire)]
    moved = [fire for fire in fires if region in fire.path]
    others = [other for segment in segments[:target] for other in segment.placed]
    while True:
        rest = [other for other in others if other not in moved]
        read = {item for other in rest for item in items_through(other.reads, at_use)}
        left = [fire for fire in moved if read.isdisjoint(fire.writes)]
        if len(left) == len(moved):
            return moved if any(has(fire.node.op, Is.PRODUCT) for fire in moved) else []
        moved = left
