"""The pass `move_again`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.edit import edited
from kerasrec._src.schedule.instructions import Fire, Instruction, Item, Save
from kerasrec._src.schedule.loads_and_saves import at_use_of
from kerasrec._src.schedule.schedule import Schedule

# Ops that only move numbers.
MOVES = frozenset({"ConcatV2", "ExpandDims", "GatherV2", "Identity", "Pack", "Reshape", "Slice"})
MOVES |= {"Split", "SplitV", "Squeeze", "StridedSlice", "Transpose", "Unpack"}


def move_again(schedule: Schedule) -> Schedule:
    """Computes again what only moves numbers, unless that would keep more of them.

    Reading rows of a shared table, what calls have returned, or pieces of a saved value is faster
    than writing a copy, saving it and loading it.
    """
    saved = {one.item for _, _, one in schedule.instructions() if isinstance(one, Save)}
    at_use = at_use_of(schedule)
    edits: dict[Instruction, list[Instruction]] = {}
    for _, _, one in schedule.instructions():
        if not isinstance(one, Fire) or one.at_use or one.node.op not in MOVES:
            continue
        kept = [value for value in one.outputs if value in saved]
        more = [item for item in _sources(one, at_use) if item not in saved]
        if kept and _bytes(more) <= _bytes(kept):
            saved.difference_update(kept)
            saved.update(more)
            changed = replace(one, at_use=True, by=move_again.__name__)
            at_use.update(dict.fromkeys(one.outputs, changed))
            edits[one] = [changed]
    return edited(schedule, edits)


def _sources(one: Instruction, at_use: dict[Item, Instruction]) -> Iterator[Item]:
    """What an instruction reads, through what is materialised at use."""
    for item in one.reads:
        if item in at_use:
            yield from _sources(at_use[item], at_use)
        else:
            yield item


def _bytes(items: list[Item] | list[Value]) -> int:
    return sum(item.type.num_bytes for item in items if isinstance(item, Value))
