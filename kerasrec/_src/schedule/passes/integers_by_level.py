"""The pass `integers_by_level`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kerasrec._src.schedule.edit import gives_no_floats
from kerasrec._src.schedule.instructions import Instruction, Item, Tokens
from kerasrec._src.schedule.loads_and_saves import at_use_of, linked
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop


def integers_by_level(schedule: Schedule) -> Schedule:
    """With `memo`, what integers give is computed in the first loop, level by level.

    The products of floats gain from all tokens at once. A sum of integers does not: the tokens of a
    level fit into the processor's cache, those of all levels do not.
    """
    if schedule.graph.memo is None:
        return schedule
    loop, hoisted, *rest = schedule.sections
    if not isinstance(loop, Loop):
        return schedule
    at_use = at_use_of(schedule)
    downs, later = [], []
    for before, after in zip(loop.segments, hoisted.segments, strict=True):
        moved = _of_integers(after.placed, at_use)
        downs.append(
            replace(
                before,
                instructions=(
                    *before.instructions,
                    *(replace(one, by=integers_by_level.__name__) for one in moved),
                ),
            )
        )
        left = tuple(one for one in after.instructions if one not in moved)
        later.append(replace(after, instructions=left))
    sections = replace(loop, segments=tuple(downs)), replace(hoisted, segments=tuple(later))
    return linked(replace(schedule, sections=(*sections, *rest)))


def _of_integers(
    placed: Iterable[Instruction], at_use: dict[Item, Instruction]
) -> list[Instruction]:
    """Instructions that give no floats, and read none that others of them give."""
    heavy: set[Item] = set()

    def is_heavy(item: Item) -> bool:
        if isinstance(item, Tokens) and item.region:
            item = item.region
        source = at_use.get(item)
        return item in heavy or (source is not None and any(map(is_heavy, source.reads)))

    found = []
    for one in placed:
        if gives_no_floats(one) and not any(map(is_heavy, one.reads)):
            found.append(one)
        else:
            heavy.update(one.writes)
    return found
