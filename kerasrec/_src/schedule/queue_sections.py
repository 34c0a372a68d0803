"""Makes the sections of a program of several rounds: queues and what is hoisted, by sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kerasrec._src.graph.graph import CallSite, present
from kerasrec._src.schedule.instructions import HandOn, Instruction, Return, Wait
from kerasrec._src.schedule.linkage import (
    read_from_rows,
    received,
    results,
    sent_by_frame,
)
from kerasrec._src.schedule.places import Places, place_of
from kerasrec._src.schedule.sections import AllTokens, Direction, Queues, Section, Segment
from kerasrec._src.schedule.tails import Tail
from kerasrec._src.schedule.turns import turns


def in_queues(
    places: Places, by_stage: Mapping[tuple[str, int], list[Instruction]]
) -> Iterator[Section]:
    """Yields queues for each sweep, each followed by a section for all tokens.

    Args:
        places: The places of the program.
        by_stage: The instructions of each body and stage, without call linkage.
    """
    stages = places.stages
    graph = stages.graph
    for sweep in range(graph.num_sweeps):
        sweeps = [body.sweeps[sweep] for body in graph.bodies.values()]
        if not any(node for found in sweeps for node in (*found.parameters, *found.outputs)):
            yield AllTokens(sweep, stages.last(sweep), _without_calls(places, by_stage, sweep))
            continue
        segments = []
        for name in graph.bodies:
            numbers = places.of(name)
            for place in reversed(numbers) if sweep % 2 else numbers:
                instructions = [
                    *_before(places, name, sweep, place),
                    *_own(places, by_stage, name, sweep, place),
                    *_after(places, name, sweep, place),
                ]
                settled = tuple(places.tails[name].settled(place))
                segments.append(Segment(name, tuple(instructions), place, settled))
        direction = Direction.BACK if sweep % 2 else Direction.AGAIN
        yield Queues(
            sweep,
            stages.first(sweep),
            tuple(segments),
            direction if sweep else Direction.READY,
            () if sweep else turns(segments),
        )
        none = tuple(Segment(name, ()) for name in graph.bodies)
        yield AllTokens(sweep, stages.last(sweep), none)


def _without_calls(
    places: Places, by_stage: Mapping[tuple[str, int], list[Instruction]], sweep: int
) -> tuple[Segment, ...]:
    """Returns segments for all frames, for a sweep in which nothing is passed."""
    return tuple(
        Segment(
            name,
            tuple(
                one
                for place in places.of(name)
                for one in _own(places, by_stage, name, sweep, place)
            ),
        )
        for name in places.tails
    )


def _own(
    places: Places,
    by_stage: Mapping[tuple[str, int], list[Instruction]],
    name: str,
    sweep: int,
    place: int,
) -> Iterator[Instruction]:
    """Yields the instructions of the nodes of a place."""
    stages, last = places.stages, places.tails[name].last
    for stage in range(stages.first(sweep), stages.last(sweep) + 1):
        if min(last, place_of(stage, stages.rounds, len(stages.groups[name]))) == place:
            yield from by_stage.get((name, stage), ())


def _before(places: Places, name: str, sweep: int, place: int) -> Iterator[Instruction]:
    if not sweep and not place:
        graph, rounds = places.stages.graph, places.stages.groups[name]
        yield from received(graph, name, sweep)
        groups = [group for number in rounds for group in places.calls(name, number)]
        yield from read_from_rows(graph, name, groups)


def _after(places: Places, name: str, sweep: int, place: int) -> Iterator[Instruction]:
    """Yields how frames pass values on; gradients go to the frames that were called before."""
    graph, tail = places.stages.graph, places.tails[name]
    for group in places.calls(name, place if sweep % 2 else place + 1):
        # Gradients go to the frame that returned.
        if not (sweep % 2 and tail.hands_on(group[0])):
            yield from sent_by_frame(graph, group, sweep)
    if not sweep % 2:
        yield from _done(places, name, sweep, place)
    elif not place:
        yield from results(graph, name, sweep)


def _done(places: Places, name: str, sweep: int, place: int) -> Iterator[Instruction]:
    """Yields returns for frames that are done; in the first sweep, the others wait for calls."""
    tail, found = places.tails[name], places.stages.graph.bodies[name].sweeps[sweep]
    for part in places.known(name, place):
        if part.last > place and not sweep:
            yield _wait(places, name, place, part)
        elif part.last == place:
            around = [node for item in tail.parts_around(part) for node in item.passing]
            passing = (*(node for node in around if node in found.nodes), *present(found.outputs))
            if part.call is None:
                yield Return(tuple(part.values[sweep // 2]), passing, region=part.region)
            elif not sweep:
                yield HandOn(part.call, passing, region=part.region)


def _wait(places: Places, name: str, place: int, part: Tail) -> Wait:
    tail, path = places.tails[name], part.region.path() if part.region else ()
    sites: list[CallSite] = []
    others = []
    for group in places.calls(name, place + 1):
        region = group[0].region
        if region is None or region in path:
            sites += group
        elif part in tail.around(region).parts or tail.around(region) in part.parts:
            others.append(group)
    return Wait(tuple(sites), tuple(others), then=place + 1, region=part.region)
