"""Checks the invariants of schedules; the results of `build` and of every pass are checked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.graph import present
from kerasrec._src.graph.nodes import Collect
from kerasrec._src.graph.types import Kind
from kerasrec._src.graph.values import Region, Value
from kerasrec._src.ops.table import Is, has
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
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Direction, Loop, Queues, Section, Segment


def check_schedule(schedule: Schedule) -> None:
    """Raises GraphError unless a schedule obeys all rules."""
    for rule in RULES:
        for problem in rule(schedule):
            raise GraphError(f"A schedule breaks a rule, {rule.__name__}: {problem}")


def read_after_written(schedule: Schedule) -> Iterator[str]:
    """Every item is written once in its segment, before it is read."""
    for section in schedule.sections:
        for segment in section.segments:
            written: set[Item] = set()
            for instruction in segment.instructions:
                who = f"{segment.body}: {instruction.title}"
                for item in instruction.reads:
                    if item not in written:
                        yield f"{who} reads {item}, which is not there"
                for item in instruction.writes:
                    if item in written:
                        yield f"{who} writes again, {item}"
                written.update(instruction.writes)


def loads_are_saved(schedule: Schedule) -> Iterator[str]:
    """Every loaded item was saved once, in the way in which it is loaded.

    A loop divides among its waves the items that a section for all tokens has saved. An item that
    is loaded by frame is saved by frame, and any other item by another section at the same place.
    """
    saved: dict[Item, tuple[Section, Segment, Save]] = {}
    for section in schedule.sections:
        for segment in section.segments:
            for load in segment.of(Load):
                if load.item not in saved:
                    yield f"{segment.body} loads {load.item} before it is saved"
                elif not _is_there(load, section, segment, *saved[load.item]):
                    yield f"{segment.body} loads {load.item}, which is not saved for it"
            for save in segment.of(Save):
                if save.item in saved:
                    yield f"{segment.body} saves {save.item} twice"
                saved[save.item] = (section, segment, save)


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
    loaded = {load.item for _, _, load in schedule.of(Load)}
    for _, segment, save in schedule.of(Save):
        if isinstance(save.item, Value) and save.item not in loaded:
            yield f"{segment.body} saves {save.item}, which nothing loads"


def linkage_is_in_its_place(schedule: Schedule) -> Iterator[str]:
    """Arguments go down, results go up; a section for all tokens does both if it is the only one.

    In queues, all values are passed by frame, and can be read wherever they are needed.
    """
    for section, segment, instruction in schedule.instructions():
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
        is_read = instruction.at_use and schedule.in_queues
        if not (is_read or allowed.get(type(instruction), True)):
            yield f"{segment.body}: {instruction.title} in stage {section.stage}"
        asks_who_calls = schedule.graph.memo is not None and not section.sweep
        by_frame = schedule.in_queues or asks_who_calls
        if isinstance(instruction, Send) and instruction.by_frame != by_frame:
            yield f"{segment.body}: {instruction.title} passes in another way than others"


def calls_are_whole(schedule: Schedule) -> Iterator[str]:
    """In a loop, every call site sends or is returned to, with values of the callee's dtypes.

    In queues, only call sites that pass something do, and gradients go to the frame that returned.
    """
    graph, in_queues = schedule.graph, schedule.in_queues
    handed_on = {hand_on.site.label for _, _, hand_on in schedule.of(HandOn)}
    for section in schedule.sections:
        if not isinstance(section, Loop):
            continue
        sweep = section.sweep
        kind: type[Send | Returned]
        kind = Returned if section.direction is Direction.UP else Send
        passing: list[Send | Returned] = [
            instruction for segment in section.segments for instruction in segment.of(kind)
        ]
        counts = Counter(site.label for instruction in passing for site in instruction.sites)
        for site in graph.inner_sites:
            is_handed_back = sweep % 2 == 1 and site.label in handed_on
            passes = not in_queues or (bool(site.linkages[sweep].calls) and not is_handed_back)
            if counts[site.label] != 1 and (passes or counts[site.label]):
                yield f"CALL_{site.label} passes values {counts[site.label]} times in sweep {sweep}"
        for instruction in passing:
            of_callee = graph.bodies[instruction.sites[0].callee].sweeps[sweep]
            nodes = present(of_callee.parameters if kind is Send else of_callee.outputs)
            if len(nodes) != len(instruction.values):
                yield f"{instruction.title} has {len(instruction.values)} values for {len(nodes)}"
            for node, value in zip(nodes, instruction.values, strict=False):
                if value and value.type.dtype != node.types[0].dtype:
                    yield f"{instruction.title} passes {value.type} for {node.types[0]}"


def frames_are_done(schedule: Schedule) -> Iterator[str]:
    """In queues, each frame returns, hands on or waits after a place.

    A frame that waits has a next place.
    """
    if not schedule.in_queues:
        return
    queues = schedule.queues
    places = {segment.key for segment in queues.segments}
    ended: dict[str, list[Region | None]] = defaultdict(list)
    waits: dict[str, list[Wait]] = defaultdict(list)
    for segment in queues.segments:
        name, here = segment.body, segment.of(Wait)
        where = f"{name} place {segment.place}"
        waits[name] = [wait for wait in waits[name] if wait.then != segment.place] + here
        sent = [send.sites for send in segment.of(Send)]
        for hand_on in segment.of(HandOn):
            if (hand_on.site,) not in sent:
                yield f"{where}: CALL_{hand_on.site.label} is handed on, but not sent by itself"
        ended[name] += _regions([segment], HandOn) + _regions([segment], Return)
        if not _are_all([*(wait.region for wait in waits[name]), *ended[name]]):
            yield f"{where}: not every frame returns or waits, once"
        if any((name, wait.then) not in places for wait in here):
            yield f"{where}: frames wait for no place"


def frames_return_again(schedule: Schedule) -> Iterator[str]:
    """In each later sweep of even number, a frame returns once, unless it has made a tail call."""
    for section in schedule.sections:
        if not isinstance(section, Queues) or not section.sweep or section.sweep % 2:
            continue
        for name in schedule.graph.bodies:
            first = [segment for segment in schedule.queues.segments if segment.body == name]
            here = [segment for segment in section.segments if segment.body == name]
            if not _are_all(_regions(first, HandOn) + _regions(here, Return)):
                yield f"{name}: not every frame returns in sweep {section.sweep}, once"


def _regions(segments: Iterable[Segment], kind: type[Instruction]) -> list[Region | None]:
    """Returns the regions whose frames return, or hand on, in some segments."""
    return [instruction.region for segment in segments for instruction in segment.of(kind)]


def _are_all(regions: Sequence[Region | None], outer: Region | None = None) -> bool:
    """Whether each token of `outer` is in one of `regions`: regions inside `outer`, or itself."""
    if outer in regions:
        return len(regions) == 1
    inner: dict[tuple[Region, ...], dict[Region, list[Region | None]]] = {}
    for region in regions:
        path = region.path() if region else ()
        (branch,) = path[len(outer.path()) if outer else 0 :][:1]
        by_branch = inner.setdefault(branch.siblings, {sibling: [] for sibling in branch.siblings})
        by_branch[branch].append(region)
    return len(inner) == 1 and all(
        _are_all(inside, branch)
        for by_branch in inner.values()
        for branch, inside in by_branch.items()
    )


def instructions_are_whole(schedule: Schedule) -> Iterator[str]:
    """No instruction has a problem by itself."""
    instructions = [(segment.body, one) for _, segment, one in schedule.instructions()]
    for place, instruction in (*instructions, *(("prepared", one) for one in schedule.prepared)):
        for problem in instruction.problems():
            yield f"{place}: {instruction.title} {problem}"


def parts_stay_together(schedule: Schedule) -> Iterator[str]:
    """Parts of a value are read only by ops on the same part of others, and by joining ops."""
    parts: dict[Item, int] = {}
    for _, segment, one in schedule.instructions():
        numbers = [parts.get(item) for item in one.reads]
        if isinstance(one, Divide):
            parts.update({part: number for number, part in enumerate(one.outputs)})
        elif isinstance(one, Join):
            if any([parts.get(part) for part in of] != [*range(len(of))] for of in one.parts):
                yield f"{segment.body}: {one.title} does not join all parts, in order"
        elif isinstance(one, Fire) and _adds_sums(one) and numbers == [*range(len(numbers))]:
            continue
        elif isinstance(one, Fire) and len(set(numbers)) == 1:
            parts.update({output: numbers[0] for output in one.outputs if numbers[0] is not None})
        elif any(number is not None for number in numbers):
            yield f"{segment.body}: {one.title} reads parts of tokens"


def _adds_sums(fire: Fire) -> bool:
    """Whether an op adds up sums over tokens."""
    return has(fire.node.op, Is.ADDING) and all(
        value.type.kind is Kind.WAVE for value in fire.inputs
    )


def shared_values_are_known(schedule: Schedule) -> Iterator[str]:
    """SHARED values that instructions read are the program's, or constants, or were prepared."""
    known = {value for node in schedule.graph.shared for value in node.outputs}
    for fire in (*schedule.prepared, *(fire for _, _, fire in schedule.of(Fire))):
        for value in fire.inputs:
            if value.is_shared and value not in known and not value.node.is_constant:
                yield f"{fire.title} reads {value}, which is not prepared"
        if all(value.is_shared for value in fire.outputs):
            known.update(fire.outputs)


def sums_have_a_place(schedule: Schedule) -> Iterator[str]:
    """A loop adds up only gradients of SHARED values of known shape; other sums are made at once.

    A bounded run, which forgets its frames, collects tables in its queues.
    """
    for section, segment, reduce in schedule.of(Reduce):
        if reduce.by_wave != isinstance(section, Loop):
            yield f"{segment.body}: {reduce.title} in stage {section.stage}"
        is_table_of_queues = isinstance(section, Queues) and isinstance(reduce.node, Collect)
        if reduce.by_wave and not (reduce.can_be_by_wave or is_table_of_queues):
            yield f"{segment.body}: {reduce.title} cannot be added up wave by wave"


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
