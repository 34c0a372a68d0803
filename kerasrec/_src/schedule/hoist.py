"""Decides which instructions run in loops, and which are hoisted out of them.

Calls and returns need only some instructions of a stage. These run in the loop of the stage.
Nothing waits for the others, so they run once for all tokens together when the loop is done: the
leaves of trees, the gradients of shared weights.

A value with rows of an open size, such as padded rows of ragged values, is as wide as its wave
needs, and waves of different widths cannot be put together. Instructions that read such a value
stay in the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.instructions import Instruction, Item, Reduce, Select, items_through
from kerasrec._src.schedule.loads_and_saves import WAITED_FOR, at_use_of, with_loads_and_saves
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop, Queues, Segment


def hoisted(schedule: Schedule) -> Schedule:
    """Places instructions in loops if something there waits for them, and hoists the others.

    Each loop is followed by a section for all tokens. Instructions of this section that repeat
    computations of the loop stay there. Loads and saves are added at the end.
    """
    at_use = at_use_of(schedule)
    sections = list(schedule.sections)
    # Values that earlier loops have computed with a different width for each wave.
    by_width: set[Item] = set()
    for number, section in enumerate(sections):
        if not isinstance(section, Loop):
            continue
        before, after = sections[number - 1], sections[number + 1]
        if by_width and before.sweep == section.sweep != sections[number - 2].sweep:
            # The section before the first loop of a sweep cannot read waves of several widths.
            moved = {old.body: _readers(old.placed, at_use, by_width) for old in before.segments}
            left = [old.without(moved[old.body]) for old in before.segments]
            sections[number - 1] = replace(before, segments=tuple(left))
            more = [old.holding([*moved[old.body], *old.instructions]) for old in section.segments]
            section = replace(section, segments=tuple(more))
        in_queues = isinstance(section, Queues)
        divided: dict[str, Iterator[Segment]] = {}
        rest = []
        for segment in after.segments:
            loops = [loop for loop in section.segments if loop.body == segment.body]
            *own, hoisted_part = _divided(loops, segment, at_use, by_width, in_queues)
            divided[segment.body] = iter(own)
            rest.append(hoisted_part)
        segments = tuple(next(divided[segment.body]) for segment in section.segments)
        sections[number : number + 2] = [
            replace(section, segments=segments),
            replace(after, segments=tuple(rest)),
        ]
        if not in_queues:
            for segment in segments:
                by_width |= _by_width(segment.placed)
    return with_loads_and_saves(replace(schedule, sections=tuple(sections)))


def _readers(
    instructions: Sequence[Instruction], at_use: Mapping[Item, Instruction], items: Collection[Item]
) -> list[Instruction]:
    """Returns the instructions that read some items, or values computed from them."""
    apart, readers = set(items), []
    for instruction in instructions:
        if not apart.isdisjoint(items_through(instruction.reads, at_use)):
            readers.append(instruction)
            apart.update(instruction.writes)
    return readers


def _divided(
    loops: Sequence[Segment],
    after: Segment,
    at_use: Mapping[Item, Instruction],
    by_width: Collection[Item],
    in_queues: bool,
) -> list[Segment]:
    """Returns a body's segments in a loop, with all that it waits for, then the hoisted segment.

    Args:
        loops: The loop's segments of a body, in the order in which its tokens come to them.
        after: The segment for all tokens of the body.
        at_use: The instructions that are materialized at use, by the items that they write.
        by_width: The items that earlier loops have computed with a different width for each wave.
        in_queues: Whether the loop must decide which tokens go where.
    """
    in_loops = [instruction for segment in loops for instruction in segment.placed]
    here = {item for maker in in_loops for item in maker.writes}
    again = [maker for maker in after.placed if here.intersection(maker.writes)]
    pool = [*in_loops, *after.without(again).placed]
    needed = _needed(pool, at_use, by_width, in_queues)
    # A loop with one segment for each body takes back hoisted instructions that it waits for now.
    back = [instruction for instruction in after.placed if instruction in needed]
    if back and len(loops) > 1:
        raise GraphError(f"{after.body} waits for {back[0]}, which runs for all tokens.")
    copies = [copy for other in (*loops, after) for copy in other.at_use]
    divided: list[Segment] = []
    for segment in loops:
        own = [in_loop(old) for old in (*segment.placed, *back) if old in needed]
        divided.append(segment.holding([*own, *(() if divided else copies)]))
    left = [instruction for instruction in pool if instruction not in needed]
    return [*divided, after.holding([*again, *left])]


def _needed(
    pool: Sequence[Instruction],
    at_use: Mapping[Item, Instruction],
    by_width: Collection[Item],
    in_queues: bool,
) -> set[Instruction]:
    """Returns the instructions of `pool` that run in the loop; arguments as for `_divided`."""
    makers = {**at_use, **{item: maker for maker in pool for item in maker.writes}}
    roots = (*WAITED_FOR, Select) if in_queues else WAITED_FOR
    waiting = [
        root
        for root in pool
        if (root.by_wave if isinstance(root, Reduce) else isinstance(root, roots))
    ]
    needed: set[Instruction] = set()
    apart: set[Item] = set(by_width)
    while waiting:
        needed.update(waiting)
        for root in waiting:
            needed.update(
                makers[item] for item in items_through(root.reads, makers) if item in makers
            )
        waiting = []
        if not in_queues:
            apart |= _by_width(needed)
            for reader in pool:
                may_stay = not isinstance(reader, Reduce) or reader.can_be_by_wave
                is_apart = not apart.isdisjoint(items_through(reader.reads, at_use))
                if reader not in needed and may_stay and is_apart:
                    waiting.append(reader)
            made = (item for reader in waiting for item in reader.writes)
            apart |= {
                item for item in made if isinstance(item, Value) and item.type.kind is Kind.WAVE
            }
    return needed


def _by_width(instructions: Iterable[Instruction]) -> set[Item]:
    """Returns values of a loop's instructions that cannot be put together for all waves."""
    return {
        item
        for instruction in instructions
        for item in instruction.writes
        if isinstance(item, Value) and None in (item.type.tensor_shape() or ())[1:]
    }


def in_loop(instruction: Instruction) -> Instruction:
    """Returns the same instruction for a loop, which adds gradients up."""
    return replace(instruction, by_wave=True) if isinstance(instruction, Reduce) else instruction
