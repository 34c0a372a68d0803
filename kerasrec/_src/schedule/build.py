"""The stage `build`: makes the schedule of an extended graph."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.graph import Body, TaggedGraph
from kerasrec._src.graph.nodes import Collect, operations
from kerasrec._src.graph.values import Node
from kerasrec._src.schedule.check import check_schedule
from kerasrec._src.schedule.hoist import hoisted, in_loop
from kerasrec._src.schedule.instructions import Fire, Instruction, Reduce, Select
from kerasrec._src.schedule.linkage import received, results, returned, sent
from kerasrec._src.schedule.loads_and_saves import with_loads_and_saves
from kerasrec._src.schedule.places import BodyPlaces, in_queues
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Direction, Loop, Section, Segment
from kerasrec._src.schedule.stages import Rounds, Stage, find_stages, needs_queues, rounds_of
from kerasrec._src.schedule.translate import instructions_of, regions_of
from kerasrec._src.trace.functions import random_op


def build(graph: TaggedGraph, by_queues: bool = False) -> Schedule:
    """Returns the schedule of an extended graph.

    Args:
        graph: An extended graph.
        by_queues: Whether a program of one round also runs by queues, as those of several do.
    """
    rounds = rounds_of(graph)
    if by_queues or needs_queues(graph):
        schedule = _in_queues(graph, in_blocks=False)
    elif any(rounds.values()):
        schedule = hoisted(Schedule(graph, tuple(_with_calls(graph, rounds))))
    else:
        schedule = with_loads_and_saves(Schedule(graph, tuple(_without_calls(graph))))
    if graph.memo:
        _check_nothing_is_drawn(schedule)
    check_schedule(schedule)
    return schedule


def build_blocks(graph: TaggedGraph) -> Schedule:
    """Returns the schedule of a run that XLA compiles: queues, which fill tables as they go.

    Args:
        graph: An extended or tagged graph.
    """
    schedule = _in_queues(graph, in_blocks=True)
    check_schedule(schedule)
    return schedule


def build_bounded(graph: TaggedGraph) -> Schedule:
    """Returns the schedule of a run that forgets computed values: all of it runs in queues.

    Args:
        graph: A tagged or extended graph. Gradients are left out.
    """
    forward = forward_part(graph)
    loop, _ = in_queues(_places(forward, is_bounded=True), in_loop)
    schedule = with_loads_and_saves(Schedule(forward, (loop,)))
    check_schedule(schedule)
    return schedule


def _check_nothing_is_drawn(schedule: Schedule) -> None:
    """Raises TraceError if a random draw decides which calls there are, since it would run twice.

    Args:
        schedule: A schedule before any pass, so that the first loop has only decisions.
    """
    for section, _, fire in schedule.of(Fire):
        is_first = isinstance(section, Loop) and section.direction is Direction.CALLS
        name = random_op(operations([fire.node])) if is_first else None
        if name:
            raise TraceError(
                f"{name} at {fire.node.source} decides which calls there are, or with which "
                "integers. With memo=True that is computed twice, and it may differ the second "
                "time. Draw before the call, and pass the number as an argument; or leave out "
                "memo=True."
            )


def _in_queues(graph: TaggedGraph, in_blocks: bool) -> Schedule:
    sections = in_queues(
        _places(graph), _for_blocks if in_blocks else lambda instruction: instruction
    )
    return hoisted(Schedule(graph, tuple(sections), in_blocks=in_blocks))


def _places(graph: TaggedGraph, is_bounded: bool = False) -> list[BodyPlaces]:
    rounds = rounds_of(graph)
    return [
        BodyPlaces(graph, body, rounds[name], is_bounded) for name, body in graph.bodies.items()
    ]


def _for_blocks(instruction: Instruction) -> Instruction:
    """Returns the same instruction for blocks, where values have rows for tokens of all branches.

    An instruction that fills a table by index does so in the loop.
    """
    if isinstance(instruction, Fire):
        return replace(instruction, is_masked=True)
    if not isinstance(instruction, Reduce):
        return instruction
    has_index = isinstance(instruction.node, Collect) and instruction.node.size is not None
    return replace(instruction, by_wave=has_index, is_masked=True)


_Linkage = Callable[[TaggedGraph, str, int], list[Instruction]]


def _no_linkage(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    return []


def _with_calls(graph: TaggedGraph, rounds: Mapping[str, Rounds]) -> Iterator[Section]:
    """Yields two loops for each sweep, each followed by a section for all tokens.

    Every sweep after the first also begins with such a section.
    """
    by_stage = {name: _by_stage(body, rounds[name]) for name, body in graph.bodies.items()}

    def segments(
        sweep: int, stage: int, before: _Linkage = _no_linkage, after: _Linkage = _no_linkage
    ) -> tuple[Segment, ...]:
        return tuple(
            Segment(
                name, (*before(graph, name, sweep), *own[sweep, stage], *after(graph, name, sweep))
            )
            for name, own in by_stage.items()
        )

    none = tuple(Segment(name, ()) for name in graph.bodies)
    for sweep in range(graph.num_sweeps):
        stage = 3 * sweep
        if sweep:
            yield AllTokens(sweep, stage - 1, segments(sweep, -1))
        sweeps = [body.sweeps[sweep] for body in graph.bodies.values()]
        if any(node for own in sweeps for node in own.parameters):
            direction = Direction.DOWN if sweep else Direction.CALLS
            yield Loop(sweep, stage, segments(sweep, 0, received, sent), direction)
            yield AllTokens(sweep, stage, none)
        if any(node for own in sweeps for node in own.outputs):
            segments_up = segments(sweep, 1, returned, results)
            yield Loop(sweep, stage + 1, segments_up, Direction.UP)
            yield AllTokens(sweep, stage + 1, none)
        else:
            yield AllTokens(sweep, stage + 1, segments(sweep, 1))


def _without_calls(graph: TaggedGraph) -> Iterator[Section]:
    """Yields a section for each sweep."""
    by_stage = _by_stage(graph.bodies[graph.entry], {})
    for sweep in range(graph.num_sweeps):
        own = [by_stage[sweep, stage] for stage in (-1, 0, 1)]
        whole = (
            *received(graph, graph.entry, sweep),
            *itertools.chain(*own),
            *results(graph, graph.entry, sweep),
        )
        yield AllTokens(sweep, 3 * sweep, (Segment(graph.entry, whole),), is_alone=True)


def _by_stage(body: Body, rounds: Rounds) -> Mapping[Stage, list[Instruction]]:
    """Returns the instructions of a body with at most one round by stage, without call linkage."""
    stages: dict[Node, Stage] = {}
    for sweep in range(len(body.sweeps)):
        earliest = (lambda _: -1) if sweep else (lambda _: 0)
        find_stages(stages, body, rounds, 1, sweep, earliest)
    by_stage: dict[Stage, list[Instruction]] = defaultdict(list)
    for node in body.nodes:
        by_stage[stages[node]] += instructions_of(body.name, node)
    for siblings in regions_of(body):
        by_stage[stages[siblings[0].selector.node]].append(Select(siblings))
    return by_stage


def forward_part(graph: TaggedGraph) -> TaggedGraph:
    """Returns an extended graph without its gradients."""
    bodies = {name: replace(body, sweeps=body.sweeps[:1]) for name, body in graph.bodies.items()}
    sites = {
        label: replace(site, linkages=site.linkages[:1]) for label, site in graph.call_sites.items()
    }
    return TaggedGraph(
        bodies, graph.entry, sites, graph.shared, memo=graph.memo, left_out=graph.left_out
    )
