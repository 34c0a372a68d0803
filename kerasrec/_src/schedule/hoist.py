"""Decides which instructions run in loops, and which are hoisted out of them.

Calls and returns need only some instructions of a stage. These run in the loop of the stage.
Nothing waits for the others, so they run once for all tokens together when the loop is done: the
leaves of trees, the gradients of shared weights.

A value with rows of an open size, such as padded rows of ragged values, is as wide as its wave
needs, and waves of different widths cannot be put together. Instructions that read such a value
stay in the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.instructions import Instruction, Item, Reduce, Select, items_through
from kerasrec._src.schedule.loads_and_saves import WAITED_FOR, at_use_of, linked
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop, Queues, Section, Segment


def hoisted(schedule: Schedule) -> Schedule:
    """Places instructions in loops if something there waits for them, hoists the others, and links.

    Each loop is followed by a section for all tokens. Instructions of this section that compute
    again what the loop has computed stay there.
    """
    at_use = at_use_of(schedule)
    sections = list(schedule.sections)
    by_width: set[Item] = set()
    for number, section in enumerate(sections):
        if not isinstance(section, Loop):
            continue
        if by_width and _is_behind_no_loop(sections, number - 1):
            before = sections[number - 1]
            sections[number - 1], section = _with_what_is_apart(before, section, at_use, by_width)
        in_queues = isinstance(section, Queues)
        after = sections[number + 1]
        in_loop, left = {}, []
        for segment in after.segments:
            loops = [loop for loop in section.segments if loop.body == segment.body]
            waiting = _Waiting(at_use, by_width, in_queues)
            divided, rest = _divided(loops, segment, waiting)
            in_loop[segment.body] = iter(divided)
            left.append(rest)
        segments = tuple(next(in_loop[segment.body]) for segment in section.segments)
        sections[number] = replace(section, segments=segments)
        if not in_queues:
            for segment in segments:
                by_width |= _by_width(segment.placed)
        sections[number + 1] = replace(after, segments=tuple(left))
    return linked(replace(schedule, sections=tuple(sections)))


def _is_behind_no_loop(sections: Sequence[Section], number: int) -> bool:
    """Whether a section for all tokens begins a sweep, and a loop of the sweep is next."""
    here, following, before = sections[number], sections[number + 1], sections[number - 1]
    return here.sweep == following.sweep != before.sweep


def _with_what_is_apart(
    before: Section, loop: Loop, at_use: Mapping[Item, Instruction], by_width: Collection[Item]
) -> tuple[Section, Loop]:
    """Moves instructions that must read each wave separately from a section to the next loop.

    Args:
        before: The section, which is for all tokens.
        loop: The loop, of the same sweep.
        at_use: The instructions that are materialised at use, by the items that they write.
        by_width: The items that earlier loops have computed with a different width for each wave.

    Returns:
        The section and the loop.
    """
    moved: dict[str, list[Instruction]] = {}
    for segment in before.segments:
        apart, readers = set(by_width), []
        for instruction in segment.placed:
            if not apart.isdisjoint(items_through(instruction.reads, at_use)):
                readers.append(instruction)
                apart.update(instruction.writes)
        moved[segment.body] = readers
    left = tuple(segment.without(moved[segment.body]) for segment in before.segments)
    segments = tuple(
        segment.holding([*moved.get(segment.body, ()), *segment.instructions])
        for segment in loop.segments
    )
    return replace(before, segments=left), replace(loop, segments=segments)


@dataclass(frozen=True)
class _Waiting:
    """Finds the instructions that a loop waits for.

    Args:
        at_use: The instructions that are materialised at use, by the items that they write.
        by_width: The items that earlier loops have computed with a different width for each wave.
        in_queues: Whether the loop must decide which tokens go where.
    """

    at_use: Mapping[Item, Instruction]
    by_width: Collection[Item]
    in_queues: bool

    def needed(self, pool: Sequence[Instruction]) -> set[Instruction]:
        """Returns the instructions of `pool` that run in the loop."""
        makers = {**self.at_use, **{item: maker for maker in pool for item in maker.writes}}
        roots = (*WAITED_FOR, Select) if self.in_queues else WAITED_FOR
        waiting = [instruction for instruction in pool if _is_waited_for(instruction, roots)]
        needed: set[Instruction] = set()
        apart: set[Item] = set(self.by_width)
        while waiting:
            needed.update(waiting)
            for root in waiting:
                needed.update(
                    makers[item] for item in items_through(root.reads, makers) if item in makers
                )
            waiting = []
            if not self.in_queues:
                apart |= _by_width(needed)
                for reader in pool:
                    is_left = reader not in needed and _may_stay(reader)
                    if is_left and not apart.isdisjoint(items_through(reader.reads, self.at_use)):
                        waiting.append(reader)
                apart |= {item for reader in waiting for item in reader.writes if _is_of_wave(item)}
        return needed


def _by_width(instructions: Iterable[Instruction]) -> set[Item]:
    """Returns values of a loop's instructions that cannot be put together for all waves."""
    return {
        item
        for instruction in instructions
        for item in instruction.writes
        if isinstance(item, Value) and None in (item.type.tensor_shape() or ())[1:]
    }


def _is_of_wave(item: Item) -> bool:
    return isinstance(item, Value) and item.type.kind is Kind.WAVE


def _may_stay(instruction: Instruction) -> bool:
    """Whether a loop can run an instruction that it does not wait for."""
    return not isinstance(instruction, Reduce) or instruction.can_be_by_wave


def _divided(
    loops: Sequence[Segment], after: Segment, waiting: _Waiting
) -> tuple[list[Segment], Segment]:
    """Returns a body's segments in a loop, with what the loop waits for, and the hoisted segment.

    Args:
        loops: The loop's segments of a body, in the order in which its tokens come to them.
        after: The segment for all tokens of the body.
        waiting: Finds the instructions that the loop waits for.
    """
    in_loops = [instruction for segment in loops for instruction in segment.placed]
    here = {item for maker in in_loops for item in maker.writes}
    again = [maker for maker in after.placed if here.intersection(maker.writes)]
    pool = [*in_loops, *after.without(again).placed]
    needed = waiting.needed(pool)
    # A loop with one segment for each body takes back hoisted instructions that it waits for now.
    back = [instruction for instruction in after.placed if instruction in needed]
    if back and len(loops) > 1:
        raise GraphError(f"{after.body} waits for what runs for all tokens, {back[0]}.")
    divided = []
    for segment in loops:
        own = [in_loop(old) for old in (*segment.placed, *back) if old in needed]
        copies = [copy for other in (*loops, after) for copy in other.at_use]
        divided.append(segment.holding([*own, *(copies if segment is loops[0] else ())]))
    left = [instruction for instruction in pool if instruction not in needed]
    return divided, after.holding([*again, *left])


def in_loop(instruction: Instruction) -> Instruction:
    """Returns the same instruction for a loop, which adds gradients up."""
    return replace(instruction, by_wave=True) if isinstance(instruction, Reduce) else instruction


def _is_waited_for(instruction: Instruction, roots: tuple[type[Instruction], ...]) -> bool:
    if isinstance(instruction, Reduce):
        return instruction.by_wave
    return isinstance(instruction, roots)
