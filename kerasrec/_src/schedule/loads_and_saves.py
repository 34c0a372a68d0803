"""Adds loads and saves: the items that one segment of a schedule reads from another.

Passes move, add and remove instructions without regard to loads and saves, which are added at the
end. Then instructions that are materialized at use are put into every segment that reads their
results, and instructions whose results nobody reads are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.values import Region, each_of, reached
from kerasrec._src.schedule.instructions import (
    Frames,
    HandOn,
    Instruction,
    InTable,
    Item,
    Load,
    Measure,
    Observe,
    Receive,
    Reduce,
    Return,
    Returned,
    Save,
    Select,
    Send,
    Settled,
    TokenCount,
    Wait,
    region_of,
)
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Loop, Segment

# Instructions that a loop waits for, and all that must run, in a loop or elsewhere.
WAITED_FOR = (Receive, Returned, Send, Return, HandOn, Wait, Observe, InTable)
ROOTS = (*WAITED_FOR, Reduce)
_FEW_BRANCHES = 3
# A segment: the number of its section, and its own number in the section.
_Spot = tuple[int, int]


def with_loads_and_saves(schedule: Schedule, saves_sizes: bool = False) -> Schedule:
    """Returns the schedule with the loads and saves that it needs.

    Args:
        schedule: A schedule whose segments have at least all instructions that must run.
        saves_sizes: Whether to save how many tokens each region has, for a record of the run.
    """
    by_frame: set[Item] = set()
    while True:
        adder = _Adder(schedule, by_frame)
        found = adder.run(saves_sizes)
        if adder.gathered <= by_frame:
            return found
        by_frame |= adder.gathered


class _Adder:
    """Adds loads and saves to the segments of a schedule.

    Args:
        schedule: A schedule without loads and saves, or with old ones.
        by_frame: The items that are known to be read by other groups of frames than computed them.
    """

    def __init__(self, schedule: Schedule, by_frame: Collection[Item]):
        self.schedule = schedule
        self.sections = schedule.sections
        self.at_use = at_use_of(schedule)
        self.by_frame = by_frame
        self.gathered: set[Item] = set()
        self.in_queues = schedule.in_queues
        self.selects: dict[Region, Select] = {}
        # The segments that compute each item.
        self.spots: dict[Item, list[_Spot]] = defaultdict(list)
        for number, section in enumerate(self.sections):
            for at, segment in enumerate(section.segments):
                for instruction in segment.placed:
                    for item in instruction.writes:
                        self.spots[item].append((number, at))
                    if isinstance(instruction, Select):
                        self.selects.update(dict.fromkeys(instruction.regions, instruction))
        # The items that segments must save, each with whether a loop divides it among waves.
        self.wanted: dict[_Spot, dict[Item, bool]] = defaultdict(dict)

    def run(self, saves_sizes: bool) -> Schedule:
        """Returns the schedule with loads and saves."""
        if not self.in_queues:
            self._want_for_limits()
            if saves_sizes:
                self._want_sizes()
        sections = list(self.sections)
        for number in reversed(range(len(sections))):
            segments = sections[number].segments
            found = {at: self._segment((number, at)) for at in reversed(range(len(segments)))}
            sections[number] = replace(
                sections[number], segments=tuple(found[at] for at in range(len(segments)))
            )
        whole = replace(self.schedule, sections=tuple(sections))
        return replace(whole, prepared=whole.prepared_for(range(whole.graph.num_sweeps)))

    def _segment(self, spot: _Spot) -> Segment:
        segment, wanted = self._at(spot), self.wanted[spot]
        for item, is_divided in list(wanted.items()):
            if is_divided:
                self._want_sizes_of(region_of(item), spot[0], segment.body)
        makers = {item: maker for maker in segment.placed for item in maker.writes}

        def maker_of(item: Item) -> Instruction:
            if item not in makers:
                maker = self._from_elsewhere(item, spot)
                makers.update(dict.fromkeys(maker.writes, maker))
            return makers[item]

        saves = [
            Save(item, wanted[item], item in self.by_frame)
            for item in sorted(wanted, key=_order_of_save)
        ]
        kinds = (*ROOTS, Select) if segment.place is not None else ROOTS
        roots: list[Instruction] = [
            root for root in segment.placed if isinstance(root, kinds) or _has_many_branches(root)
        ]
        waiting = [*roots, *(maker_of(item) for save in saves for item in save.reads)]
        live = dict.fromkeys(reached(waiting, lambda reader: map(maker_of, self._reads(reader))))
        ordered: dict[Instruction, None] = {}

        def put(instruction: Instruction) -> None:
            if instruction not in ordered:
                for item in self._reads(instruction):
                    put(maker_of(item))
                ordered[instruction] = None

        for instruction in (*segment.placed, *live):
            if instruction in live:
                put(instruction)
        loads = [load for load in ordered if isinstance(load, Load)]
        for load in loads:
            self._want_loaded(load.item, spot)
        first = [load for load in loads if not load.reads]
        others = [instruction for instruction in ordered if instruction not in first]
        return segment.holding([*first, *others, *saves])

    def _reads(self, instruction: Instruction) -> Sequence[Item]:
        """The items that an instruction reads; in blocks, branches are masks in those around."""
        if self.schedule.in_blocks and isinstance(instruction, Select):
            around = instruction.regions[0].parent
            return [*instruction.reads, *([around] if around else [])]
        return instruction.reads

    def _at(self, spot: _Spot) -> Segment:
        number, at = spot
        return self.sections[number].segments[at]

    def _from_elsewhere(self, item: Item, spot: _Spot) -> Instruction:
        """Returns the instruction that brings an item into a segment that does not compute it."""
        if item in self.at_use:
            return self.at_use[item]
        if isinstance(item, TokenCount) and item.region is not None:
            return Measure(item, item.region, at_use=True)
        if isinstance(item, TokenCount) and self.in_queues:
            return Frames(item, at_use=True)
        if isinstance(item, Region):
            segment = self._at(spot)
            for taken in segment.settled:
                if item in taken.siblings:
                    tokens = TokenCount(segment.body, item.parent)
                    return Settled(item.siblings, taken, tokens, at_use=True)
            is_hoisted = isinstance(self.sections[spot[0]], AllTokens)
            is_again = self.in_queues or _has_many_branches(self.selects[item])
            if is_again or (is_hoisted and not self._is_known_at_once(item, spot)):
                return replace(self.selects[item], at_use=True)
        return Load(item, item in self.by_frame)

    def _is_known_at_once(self, item: Item, spot: _Spot) -> bool:
        """Whether a section up to this one computes an item for all tokens at once."""
        return any(
            number <= spot[0] and isinstance(self.sections[number], AllTokens)
            for number, _ in self.spots[item]
        )

    def _want_loaded(self, item: Item, spot: _Spot) -> None:
        """Makes the last segment that computes an item save it for this one."""
        spots = [other for other in self.spots[item] if other < spot]
        if not spots:
            raise GraphError(f"{self._at(spot).body} reads {item} before it is computed.")
        saving, loading = self.sections[spots[-1][0]], self.sections[spot[0]]
        is_of_all = isinstance(saving, AllTokens) and isinstance(loading, Loop)
        self._want(item, spots[-1], is_of_all and not self.in_queues)
        places = {self._at(spots[-1]).place, self._at(spot).place}
        is_elsewhere = None in places or len(places) > 1
        if self.in_queues and (
            is_elsewhere or (self.schedule.in_blocks and each_of(region_of(item)))
        ):
            self.gathered.add(item)

    def _want(self, item: Item, spot: _Spot, is_divided: bool = False) -> None:
        self.wanted[spot][item] = is_divided or self.wanted[spot].get(item, False)

    def _want_sizes_of(self, region: Region | None, number: int, body: str) -> None:
        """Makes a segment save how many tokens of a region each wave has, or items that tell it."""
        item: Item = TokenCount(body, region)
        last = (number, len(self.sections[number].segments))
        if region is not None and self._is_known_at_once(region, last):
            item = region
            self._want_sizes_of(region.parent, number, body)
        spots = [spot for spot in self.spots[region or item] if spot < last]
        self._want(item, spots[-1])

    def _want_for_limits(self) -> None:
        """Makes segments save the callers of tokens, which the error of an exceeded limit reads."""
        loops = [isinstance(section, Loop) for section in self.sections]
        if not any(loops):
            return
        number = loops.index(True) + 2  # The loop of the calls and its hoisted instructions.
        for body in self.schedule.graph.bodies:
            self._want_sizes_of(None, number - 1, body)
        for site in self.schedule.graph.call_sites.values():
            for item in site.region.path() if site.region and site.caller else ():
                spot = [spot for spot in self.spots[item] if spot[0] < number][-1]
                is_divided = isinstance(self.sections[spot[0]], AllTokens)
                self._want(item, spot, is_divided)

    def _want_sizes(self) -> None:
        last = max(number for number, section in enumerate(self.sections) if not section.sweep)
        for body in self.schedule.graph.bodies:
            self._want_sizes_of(None, last, body)
        for region in self.selects:
            spot = self.spots[region][0]
            if spot[0] <= last:
                self._want_sizes_of(region, last, self._at(spot).body)


def _has_many_branches(instruction: Instruction) -> bool:
    """Whether it selects among so many branches that each segment does so again.

    That takes three ops in all. To save and load rows takes a dozen ops per branch.
    """
    return isinstance(instruction, Select) and len(instruction.regions) > _FEW_BRANCHES


def _order_of_save(item: Item) -> int:
    """Returns a key for sorting: items that tell a wave's tokens divide the others."""
    if isinstance(item, TokenCount):
        return 0
    return len(item.path()) if isinstance(item, Region) else 1000


def at_use_of(schedule: Schedule) -> dict[Item, Instruction]:
    """Returns the instructions that are materialized at use, by the items that they write.

    Those that select or count tokens are left out.
    """
    return {
        item: instruction
        for _, _, instruction in schedule.instructions()
        if instruction.at_use and not isinstance(instruction, Select | Settled | Measure)
        for item in instruction.writes
    }
