"""Loads and saves: what one segment of a schedule reads of another.

Passes move, add and remove instructions without a thought for these; `linked` then puts them in.
What is materialised at use is put into every segment that reads it, and what nobody reads is left
out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from kerasrec.errors import GraphError
from kerasrec.graph.values import Region
from kerasrec.schedule.instructions import (
    AllTokens,
    Effect,
    Instruction,
    Item,
    Load,
    Loop,
    Measure,
    Receive,
    Reduce,
    Return,
    Returned,
    Save,
    Segment,
    Select,
    Send,
    Tokens,
    region_of,
)
from kerasrec.schedule.linkage import region_of_call
from kerasrec.schedule.schedule import Schedule

_ROOTS = (Receive, Returned, Send, Return, Effect, Reduce)


def linked(schedule: Schedule, saves_sizes: bool = False) -> Schedule:
    """The schedule with the loads and saves that it needs.

    Args:
        schedule: whose segments hold at least all that is to run.
        saves_sizes: whether to save how many tokens each region has, for a record of the run.
    """
    return _Linker(schedule).linked(saves_sizes)


@dataclass(frozen=True)
class _Use:
    """How later segments read what is saved."""

    divided: bool = False
    for_backward: bool = False

    def __or__(self, other: _Use) -> _Use:
        return _Use(self.divided or other.divided, self.for_backward or other.for_backward)


class _Linker:
    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.sections = schedule.sections
        self.bodies = list(schedule.graph.bodies)
        self.at_use = at_use_of(schedule)
        self.selects: dict[Region, Select] = {}
        self.body_of: dict[Region, str] = {}
        # Where items are computed: the numbers of sections.
        self.places: dict[Item, list[int]] = defaultdict(list)
        for number, section in enumerate(self.sections):
            for segment in section.segments:
                for instruction in segment.placed:
                    for item in instruction.writes:
                        self.places[item].append(number)
                    if isinstance(instruction, Select):
                        self.selects.update(dict.fromkeys(instruction.regions, instruction))
                        self.body_of.update(dict.fromkeys(instruction.regions, segment.body))
        self.wanted: dict[tuple[int, str], dict[Item, _Use]] = defaultdict(dict)

    def linked(self, saves_sizes: bool) -> Schedule:
        """The schedule with loads and saves."""
        self._want_for_limits()
        if saves_sizes:
            self._want_sizes()
        sections = list(self.sections)
        for number in reversed(range(len(sections))):
            segments = tuple(
                self._segment(number, segment) for segment in sections[number].segments
            )
            sections[number] = replace(sections[number], segments=segments)
        found = replace(self.schedule, sections=tuple(sections))
        every = range(found.graph.num_sweeps)
        return replace(found, prepared=found.prepared_for(every))

    def _segment(self, number: int, segment: Segment) -> Segment:
        wanted = self.wanted[number, segment.body]
        self._want_sizes_of_divided(number, segment.body)
        own = {item: one for one in segment.placed for item in one.writes}
        providers: dict[Item, Instruction] = {}

        def provider(item: Item) -> Instruction:
            if item not in providers:
                found = own.get(item) or self._from_elsewhere(item, number)
                providers.update(dict.fromkeys(found.writes, found))
            return providers[item]

        roots = [one for one in segment.placed if isinstance(one, _ROOTS)]
        live: dict[Instruction, None] = {}
        waiting = [*roots, *map(provider, wanted)]
        while waiting:
            one = waiting.pop()
            if one not in live:
                live[one] = None
                waiting += map(provider, one.reads)
        found: dict[Instruction, None] = {}

        def put(one: Instruction) -> None:
            if one not in found:
                for item in one.reads:
                    put(provider(item))
                found[one] = None

        for one in (*segment.placed, *live):
            if one in live:
                put(one)
        for one in found:
            if isinstance(one, Load):
                self._want_loaded(one.item, number, segment.body)
        saves = [
            Save(item, wanted[item].divided, wanted[item].for_backward)
            for item in sorted(wanted, key=_order_of_save)
        ]
        loads = [one for one in found if isinstance(one, Load)]
        others = [one for one in found if not isinstance(one, Load)]
        return replace(segment, instructions=(*loads, *others, *saves))

    def _from_elsewhere(self, item: Item, number: int) -> Instruction:
        """The instruction that brings an item into a section that does not compute it."""
        if item in self.at_use:
            return self.at_use[item]
        if isinstance(item, Tokens) and item.region is not None:
            return Measure(item, item.region, at_use=True)
        is_hoisted = isinstance(self.sections[number], AllTokens)
        if isinstance(item, Region) and is_hoisted and not self._is_known_at_once(item, number):
            return replace(self.selects[item], at_use=True)
        return Load(item)

    def _is_known_at_once(self, item: Item, number: int) -> bool:
        """Whether a section up to this one computes an item for all tokens at once."""
        return any(
            place <= number and isinstance(self.sections[place], AllTokens)
            for place in self.places[item]
        )

    def _want_loaded(self, item: Item, number: int, body: str) -> None:
        """Has the last section that computes an item save it for this one."""
        places = [place for place in self.places[item] if place < number]
        if not places:
            raise GraphError(f"{body} reads {item} before it is computed.")
        one, other = self.sections[places[-1]], self.sections[number]
        self._want(
            item,
            places[-1],
            body,
            _Use(isinstance(one, AllTokens) and isinstance(other, Loop), one.sweep < other.sweep),
        )

    def _want(self, item: Item, place: int, body: str, use: _Use) -> None:
        wanted = self.wanted[place, body]
        wanted[item] = use | wanted.get(item, _Use())

    def _want_sizes_of_divided(self, number: int, body: str) -> None:
        for item, use in list(self.wanted[number, body].items()):
            if use.divided:
                self._want_sizes_of(region_of(item), number, body)

    def _want_sizes_of(self, region: Region | None, number: int, body: str) -> None:
        """Has it saved how many tokens of a region each wave has, or what tells it."""
        item: Item = Tokens(body, region)
        if region is not None and self._is_known_at_once(region, number):
            item = region
            self._want_sizes_of(region.parent, number, body)
        places = [place for place in self.places[region or item] if place <= number]
        self._want(item, places[-1], body, _Use())

    def _want_for_limits(self) -> None:
        """What the error of a run that exceeds its limits reads: who called a token."""
        loops = [isinstance(section, Loop) for section in self.sections]
        if not any(loops):
            return
        number = loops.index(True) + 2  # The loop of the calls and what is hoisted out of it.
        for body in self.bodies:
            self._want_sizes_of(None, number - 1, body)
        for site in self.schedule.graph.call_sites.values():
            region = region_of_call(site)
            for item in region.path() if region and site.caller else ():
                place = [place for place in self.places[item] if place < number][-1]
                is_divided = isinstance(self.sections[place], AllTokens)
                self._want(item, place, site.caller or "", _Use(is_divided))

    def _want_sizes(self) -> None:
        last = max(number for number, section in enumerate(self.sections) if not section.sweep)
        for body in self.bodies:
            self._want_sizes_of(None, last, body)
        for region, body in self.body_of.items():
            if self.places[region][0] <= last:
                self._want_sizes_of(region, last, body)


def _order_of_save(item: Item) -> int:
    """What tells which tokens each wave has comes first: by it other items are divided."""
    if isinstance(item, Tokens):
        return 0
    return len(item.path()) if isinstance(item, Region) else 1000


def at_use_of(schedule: Schedule) -> dict[Item, Instruction]:
    """What is materialised at use, by what it writes."""
    return {
        item: one
        for _, _, one in schedule.instructions()
        if one.at_use and not isinstance(one, Select | Measure)
        for item in one.writes
    }
