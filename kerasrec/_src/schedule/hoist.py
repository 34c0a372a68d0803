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
from kerasrec._src.schedule.instructions import Instruction, Item, Reduce, Select, Tokens
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
        hoisted = sections[number + 1]
        pairs = {}
        for segment in hoisted.segments:
            loops = [one for one in section.segments if one.body == segment.body]
            waiting = _Waiting(at_use, by_width, isinstance(section, Queues))
            pairs[segment.body] = _divided(loops, segment, waiting)
        by_body = {name: iter(loops) for name, (loops, _) in pairs.items()}
        segments = tuple(next(by_body[one.body]) for one in section.segments)
        sections[number] = replace(section, segments=segments)
        if not isinstance(section, Queues):
            by_width |= _by_width(one for segment in segments for one in segment.placed)
        sections[number + 1] = replace(
            hoisted, segments=tuple(pairs[one.body][1] for one in hoisted.segments)
        )
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
    moved, left = {}, []
    for segment in before.segments:
        waiting = _Waiting(at_use, by_width, in_queues=False)
        moved[segment.body] = waiting.reading(segment.placed, by_width)
        own = tuple(one for one in segment.instructions if one not in moved[segment.body])
        left.append(replace(segment, instructions=own))
    segments = tuple(
        replace(one, instructions=(*moved.get(one.body, ()), *one.instructions))
        for one in loop.segments
    )
    return replace(before, segments=tuple(left)), replace(loop, segments=segments)


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
        own = {item: one for one in pool for item in one.writes}
        roots = (*WAITED_FOR, Select) if self.in_queues else WAITED_FOR
        waiting = [one for one in pool if _is_waited_for(one, roots)]
        found: set[Instruction] = set()
        apart: set[Item] = set(self.by_width)
        while waiting:
            while waiting:
                one = waiting.pop()
                if one not in found:
                    found.add(one)
                    waiting += filter(None, (_source(item, own, self.at_use) for item in one.reads))
            if not self.in_queues:
                apart |= _by_width(found)
                left = (one for one in pool if one not in found)
                waiting = [one for one in left if self._reads(one, apart) and _may_stay(one)]
                apart |= {item for one in waiting for item in one.writes if _is_of_wave(item)}
        return found

    def reading(self, ones: Sequence[Instruction], items: Collection[Item]) -> list[Instruction]:
        """Returns the instructions that read `items`, directly or through each other, in order."""
        apart, found = set(items), []
        for one in ones:
            if self._reads(one, apart):
                found.append(one)
                apart.update(one.writes)
        return found

    def _reads(self, one: Instruction, items: Collection[Item]) -> bool:
        """Whether an instruction reads any of `items`, itself or by instructions at its use."""
        sources = (self.at_use.get(item) for item in one.reads)
        return any(item in items for item in one.reads) or any(
            self._reads(source, items) for source in sources if source is not None
        )


def _by_width(ones: Iterable[Instruction]) -> set[Item]:
    """Returns values of a loop's instructions that cannot be put together for all waves."""
    return {
        item
        for one in ones
        for item in one.writes
        if isinstance(item, Value) and None in (item.type.tensor_shape() or ())[1:]
    }


def _is_of_wave(item: Item) -> bool:
    return isinstance(item, Value) and item.type.kind is Kind.WAVE


def _may_stay(one: Instruction) -> bool:
    """Whether a loop can run an instruction that it does not wait for."""
    return not isinstance(one, Reduce) or one.can_be_by_wave


def _divided(
    loops: Sequence[Segment], hoisted: Segment, waiting: _Waiting
) -> tuple[list[Segment], Segment]:
    """Returns a body's segments in a loop, with what the loop waits for, and the hoisted segment.

    Args:
        loops: The loop's segments of a body, in the order in which its tokens come to them.
        hoisted: The segment for all tokens of the body.
        waiting: Finds the instructions that the loop waits for.
    """
    in_loops = [one for segment in loops for one in segment.placed]
    here = {item for one in in_loops for item in one.writes}
    again = [one for one in hoisted.placed if here.intersection(one.writes)]
    pool = [*in_loops, *(one for one in hoisted.placed if one not in again)]
    needed = waiting.needed(pool)
    # A loop with one segment for each body takes back hoisted instructions that it waits for now.
    back = [one for one in hoisted.placed if one in needed]
    if back and len(loops) > 1:
        raise GraphError(f"{hoisted.body} waits for what runs for all tokens, {back[0]}.")
    copies = [one for segment in (*loops, hoisted) for one in segment.instructions if one.at_use]
    found = [
        replace(
            segment,
            instructions=(
                *(_in_loop(one) for one in (*segment.placed, *back) if one in needed),
                *copies[: len(copies) if segment is loops[0] else 0],
            ),
        )
        for segment in loops
    ]
    left = (one for one in pool if one not in needed)
    return found, replace(hoisted, instructions=(*again, *left))


def _in_loop(one: Instruction) -> Instruction:
    return replace(one, by_wave=True) if isinstance(one, Reduce) else one


def _is_waited_for(one: Instruction, roots: tuple[type[Instruction], ...]) -> bool:
    return one.by_wave if isinstance(one, Reduce) else isinstance(one, roots)


def _source(
    item: Item, own: Mapping[Item, Instruction], at_use: Mapping[Item, Instruction]
) -> Instruction | None:
    """Returns the instruction that computes an item in the stage; None if another stage does."""
    if isinstance(item, Tokens) and item.region:
        item = item.region
    return own.get(item) or at_use.get(item)
