"""Checks the invariants of schedules; the results of `build` and of every pass are checked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.graph import CallSite, present
from kerasrec._src.graph.nodes import Accumulate, Collect
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Region, Value
from kerasrec._src.schedule.instructions import (
    Divide,
    Fetch,
    Fire,
    Frames,
    HandOn,
    Instruction,
    Item,
    Join,
    Load,
    Receive,
    Reduce,
    Return,
    Returned,
    Save,
    Send,
    Wait,
)
from kerasrec._src.schedule.linkage import alternating
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Direction, Loop, Queues, Section, Segment
from kerasrec._src.schedule.stages import call_depths


def check_schedule(schedule: Schedule) -> None:
    """Raises GraphError unless a schedule obeys all rules."""
    for rule in RULES:
        for problem in rule(schedule):
            raise GraphError(f"A schedule breaks a rule, {rule.__name__}: {problem}")


def read_after_written(schedule: Schedule) -> Iterator[str]:
    """Every item is written once in its segment, before it is read."""
    for _, segment, written, one in _with_written(schedule):
        for item in one.reads:
            if item not in written:
                yield f"{segment.body}: {one.title} reads what is not there, {item}"
        for item in one.writes:
            if item in written:
                yield f"{segment.body}: {one.title} writes again, {item}"


def loads_are_saved(schedule: Schedule) -> Iterator[str]:
    """Every loaded item was saved once, in the way in which it is loaded.

    A loop divides among its waves what a section for all tokens has saved. An item that is loaded
    by frame is saved by frame, and any other item by another section at the same place.
    """
    saved: dict[Item, tuple[Section, Segment, Save]] = {}
    for section in schedule.sections:
        for segment in section.segments:
            for one in segment.instructions:
                if isinstance(one, Load) and one.item not in saved:
                    yield f"{segment.body} loads {one.item} before it is saved"
                elif isinstance(one, Load) and not _is_there(
                    one, section, segment, *saved[one.item]
                ):
                    yield f"{segment.body} loads {one.item}, which is not saved for it"
            for one in segment.instructions:
                if isinstance(one, Save):
                    if one.item in saved:
                        yield f"{segment.body} saves {one.item} twice"
                    saved[one.item] = (section, segment, one)


def _is_there(
    load: Load, section: Section, segment: Segment, of_save: Section, saving: Segment, save: Save
) -> bool:
    """Whether an item is saved in the way in which a segment loads it."""
    if load.by_frame or save.by_frame:
        return load.by_frame and save.by_frame
    if isinstance(section, Loop) and isinstance(of_save, AllTokens) and saving.place is None:
        return save.divided
    return of_save is not section and saving.place == segment.place


def saves_are_loaded(schedule: Schedule) -> Iterator[str]:
    """Every saved value is loaded.

    Rows and numbers of tokens need not be: they may be saved only to divide other items.
    """
    loaded = {one.item for _, _, one in schedule.instructions() if isinstance(one, Load)}
    for _, segment, one in schedule.instructions():
        if isinstance(one, Save) and isinstance(one.item, Value) and one.item not in loaded:
            yield f"{segment.body} saves {one.item}, which nothing loads"


def linkage_is_in_its_place(schedule: Schedule) -> Iterator[str]:
    """Arguments go down, results go up; a section for all tokens does both if it is alone.

    In queues, all values are passed by frame, and can be read wherever they are needed.
    """
    for section, segment, one in schedule.instructions():
        in_queues = isinstance(section, Queues)
        is_up = isinstance(section, Loop) and section.direction is Direction.UP
        is_down = isinstance(section, Loop) and not is_up
        is_alone = isinstance(section, AllTokens) and section.is_alone
        is_first = in_queues and not section.sweep
        allowed = {
            Receive: is_down or is_alone,
            Send: is_down,
            Returned: is_up,
            Return: is_up or is_alone or in_queues,
            HandOn: is_first,
            Wait: is_first,
            Fetch: False,
            Frames: False,
        }
        is_read = one.at_use and schedule.in_queues
        if not (is_read or allowed.get(type(one), True)):
            yield f"{segment.body}: {one.title} in stage {section.stage}"
        asks_who_calls = schedule.graph.memo is not None and not section.sweep
        if isinstance(one, Send) and one.by_frame != (schedule.in_queues or asks_who_calls):
            yield f"{segment.body}: {one.title} passes in another way than others"


def calls_are_whole(schedule: Schedule) -> Iterator[str]:
    """In a loop, every call site sends or is returned to, with values of the callee's dtypes."""
    for section in schedule.sections:
        if not isinstance(section, Loop):
            continue
        is_up = section.direction is Direction.UP
        sending = _sending(schedule, section)
        for body in schedule.graph.bodies:
            ones = [one for item in section.segments if item.body == body for one in item.placed]
            found = Counter(
                one.sites[0].label for one in ones if isinstance(one, Returned if is_up else Send)
            )
            wanted = sending[body]
            if found != wanted:
                yield f"{body} has linkage for {dict(found)}, not {dict(wanted)}"
            for one in ones:
                yield from _wrongly_passed(schedule, section, one)


def _sending(schedule: Schedule, section: Loop) -> dict[str | None, Counter[int]]:
    """Counts the call sites of each body that pass something in a section: the first of a group."""
    graph, in_queues = schedule.graph, isinstance(section, Queues)
    handed_on = {one.site.label for _, _, one in schedule.instructions() if isinstance(one, HandOn)}
    rounds: dict[int, int] = {}
    for body in graph.bodies.values():
        rounds |= call_depths(body)
    found: dict[str | None, Counter[int]] = {name: Counter() for name in graph.bodies}
    for callee in graph.bodies:
        sites: dict[Any, list[CallSite]] = defaultdict(list)
        for site in graph.sites_to(callee):
            sites[(site.caller, rounds[site.label]) if in_queues else None].append(site)
        for first, *others in chain.from_iterable(map(alternating, sites.values())):
            if in_queues:
                is_sent = any(site.linkages[section.sweep].calls for site in (first, *others))
                if not is_sent or (section.sweep % 2 and first.label in handed_on):
                    continue
            found[first.caller][first.label] += 1
    return found


def frames_are_done(schedule: Schedule) -> Iterator[str]:
    """In queues, each frame returns, hands on or waits after a place.

    A frame that waits has a next place. The turns contain each place once.
    """
    for section in schedule.sections:
        if not isinstance(section, Queues) or section.sweep:
            continue
        known = {(segment.body, segment.place) for segment in section.segments}
        if set(section.order) != known or len(section.order) != len(known):
            yield f"the turns are {section.order}, and the places {sorted(known)}"
        ended: dict[str, list[Region | None]] = defaultdict(list)
        waits: dict[str, list[Wait]] = defaultdict(list)
        for segment in section.segments:
            where = f"{segment.body} place {segment.place}"
            before = [one for one in waits[segment.body] if one.then != segment.place]
            here = [one for one in segment.placed if isinstance(one, Wait)]
            waits[segment.body] = [*before, *here]
            sent = [one.sites for one in segment.placed if isinstance(one, Send)]
            for one in segment.placed:
                if isinstance(one, HandOn) and (one.site,) not in sent:
                    yield f"{where}: CALL_{one.site.label} is handed on, and not sent alone"
            ended[segment.body] += [
                one.region for one in segment.placed if isinstance(one, Return | HandOn)
            ]
            waiting = [one.region for one in waits[segment.body]]
            if not _are_all([*waiting, *ended[segment.body]]):
                yield f"{where}: not every frame returns or waits, once"
            if any((segment.body, one.then) not in known for one in here):
                yield f"{where}: frames wait for no place"


def frames_return_again(schedule: Schedule) -> Iterator[str]:
    """In each later sweep of even number, a frame returns once, unless it has made a tail call."""
    queues = [section for section in schedule.sections if isinstance(section, Queues)]
    for section in queues:
        for body in schedule.graph.bodies if section.sweep and not section.sweep % 2 else ():
            handed_on = _regions(queues[0], body, HandOn)
            if not _are_all([*handed_on, *_regions(section, body, Return)]):
                yield f"{body}: not every frame returns in sweep {section.sweep}, once"


def _regions(section: Section, body: str, kind: type[Return | HandOn]) -> list[Region | None]:
    """Returns the regions of a body whose frames return, or hand on, in a section."""
    return [
        one.region
        for segment in section.segments
        if segment.body == body
        for one in segment.placed
        if isinstance(one, kind)
    ]


def _are_all(regions: Sequence[Region | None], outer: Region | None = None) -> bool:
    """Whether each token of `outer` is in one of `regions`: regions inside `outer`, or itself."""
    if outer in regions:
        return len(regions) == 1
    inner: dict[tuple[Region, ...], dict[Region, list[Region | None]]] = {}
    for region in regions:
        path = region.path() if region else ()
        (item,) = path[len(outer.path()) if outer else 0 :][:1]
        inner.setdefault(item.siblings, {one: [] for one in item.siblings})[item].append(region)
    return len(inner) == 1 and all(
        _are_all(found, one) for branches in inner.values() for one, found in branches.items()
    )


def _wrongly_passed(schedule: Schedule, section: Section, one: Instruction) -> Iterator[str]:
    if isinstance(one, Send | Returned):
        sweep = schedule.graph.bodies[one.sites[0].callee].sweeps[section.sweep]
        nodes = present(sweep.parameters if isinstance(one, Send) else sweep.outputs)
        if len(nodes) != len(one.values):
            yield f"{one.title} has {len(one.values)} values for {len(nodes)}"
        for node, value in zip(nodes, one.values, strict=False):
            if value and value.type.dtype != node.types[0].dtype:
                yield f"{one.title} passes {value.type} for {node.types[0]}"


def instructions_are_whole(schedule: Schedule) -> Iterator[str]:
    """No instruction has a problem of its own."""
    instructions = [(segment.body, one) for _, segment, one in schedule.instructions()]
    for place, instruction in (*instructions, *(("prepared", one) for one in schedule.prepared)):
        for problem in instruction.problems():
            yield f"{place}: {instruction.title} {problem}"


def parts_stay_together(schedule: Schedule) -> Iterator[str]:
    """Parts of a value are read only by ops on the same part of others, and by what joins them."""
    parts: dict[Item, int] = {}
    for _, segment, one in schedule.instructions():
        numbers = [parts.get(item) for item in one.reads]
        if isinstance(one, Divide):
            parts.update({item: number for number, item in enumerate(one.outputs)})
        elif isinstance(one, Join):
            if any([parts.get(item) for item in of] != [*range(len(of))] for of in one.parts):
                yield f"{segment.body}: {one.title} joins what is not all parts, in order"
        elif isinstance(one, Fire) and _adds_sums(one) and numbers == [*range(len(numbers))]:
            continue
        elif isinstance(one, Fire) and len(set(numbers)) == 1:
            parts.update({item: numbers[0] for item in one.outputs if numbers[0] is not None})
        elif any(number is not None for number in numbers):
            yield f"{segment.body}: {one.title} reads parts of tokens"


def _adds_sums(one: Fire) -> bool:
    """Whether an op adds up sums over tokens."""
    return one.node.op == "AddN" and all(item.type.kind is Kind.WAVE for item in one.inputs)


def shared_values_are_known(schedule: Schedule) -> Iterator[str]:
    """SHARED values that instructions read are the program's, or constants, or were prepared."""
    known = {value for node in schedule.graph.shared for value in node.outputs}
    ones = [*schedule.prepared, *(one for _, _, one in schedule.instructions())]
    for one in ones:
        for value in one.inputs if isinstance(one, Fire) else ():
            if value.is_shared and value not in known and value.node.op != "Const":
                yield f"{one.title} reads {value}, which is not prepared"
        if isinstance(one, Fire) and all(value.is_shared for value in one.outputs):
            known.update(one.outputs)


def sums_have_a_place(schedule: Schedule) -> Iterator[str]:
    """A loop adds up only gradients of SHARED values of known shape; other sums are made at once.

    A bounded run, which forgets its frames, collects tables in its queues.
    """
    for section, segment, one in schedule.instructions():
        if isinstance(one, Reduce):
            if one.by_wave != isinstance(section, Loop):
                yield f"{segment.body}: {one.title} in stage {section.stage}"
            target = one.node.to if isinstance(one.node, Accumulate) else None
            if isinstance(section, Queues) and isinstance(one.node, Collect):
                continue
            if one.by_wave and (target is None or not one.node.inputs[0].type.is_static):
                yield f"{segment.body}: {one.title} cannot be added up wave by wave"


Rule = Callable[[Schedule], Iterator[str]]
RULES: tuple[Rule, ...] = (
    read_after_written,
    loads_are_saved,
    saves_are_loaded,
    linkage_is_in_its_place,
    calls_are_whole,
    frames_are_done,
    frames_return_again,
    instructions_are_whole,
    parts_stay_together,
    shared_values_are_known,
    sums_have_a_place,
)


def _with_written(
    schedule: Schedule,
) -> Iterator[tuple[Section, Segment, set[Item], Instruction]]:
    """Yields instructions, each with the items that its segment has written before."""
    for section in schedule.sections:
        for segment in section.segments:
            written: set[Item] = set()
            for one in segment.instructions:
                yield section, segment, written, one
                written.update(one.writes)
