"""The stage `build`: makes the schedule of an extended graph."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Collect
from kerasrec._src.graph.values import Node
from kerasrec._src.schedule.check import check_schedule
from kerasrec._src.schedule.hoist import hoisted, in_loop
from kerasrec._src.schedule.instructions import Fire, Instruction, Reduce, Select
from kerasrec._src.schedule.linkage import received, results, returned, sent
from kerasrec._src.schedule.loads_and_saves import linked
from kerasrec._src.schedule.memo_rules import check_no_call_waits, check_nothing_is_drawn
from kerasrec._src.schedule.places import places_of_program
from kerasrec._src.schedule.queue_sections import in_queues
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import AllTokens, Direction, Loop, Section, Segment
from kerasrec._src.schedule.stages import Stages, rounds_of, stages_of
from kerasrec._src.schedule.translate import instructions_of, regions_of


def build(graph: TaggedGraph, by_queues: bool = False) -> Schedule:
    """Returns the schedule of an extended graph.

    Args:
        graph: An extended graph.
        by_queues: Whether a program of one round also runs by queues, as those of several do.
    """
    rounds = rounds_of(graph)
    has_rounds = any(len(own_rounds) > 1 for own_rounds in rounds.values())
    if graph.memo:
        check_no_call_waits(rounds)
    schedule = _in_queues(graph) if by_queues or has_rounds else _in_waves(graph)
    if graph.memo:
        check_nothing_is_drawn(schedule)
    check_schedule(schedule)
    return schedule


def build_blocks(graph: TaggedGraph) -> Schedule:
    """Returns the schedule of a run that XLA compiles: queues, which fill tables as they go.

    Args:
        graph: An extended or tagged graph.
    """
    schedule = _in_queues(graph, is_for_blocks=True)
    check_schedule(schedule)
    return schedule


def _in_queues(graph: TaggedGraph, is_for_blocks: bool = False) -> Schedule:
    places = places_of_program(graph)
    by_stage = _by_stage(places.stages, places.passed_on)
    if is_for_blocks:
        by_stage = {key: list(map(_for_blocks, old)) for key, old in by_stage.items()}
    sections = tuple(in_queues(places, by_stage))
    return hoisted(Schedule(graph, sections, in_blocks=is_for_blocks))


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


def _in_waves(graph: TaggedGraph) -> Schedule:
    stages = stages_of(graph)
    by_stage = _by_stage(stages)
    if stages.calls_nobody:
        return linked(Schedule(graph, tuple(_without_calls(stages, by_stage))))
    return hoisted(Schedule(graph, tuple(_with_calls(stages, by_stage))))


def build_bounded(graph: TaggedGraph) -> Schedule:
    """Returns the schedule of a run that forgets what it has computed: all of it runs in queues.

    Args:
        graph: A tagged or extended graph. Gradients are left out.
    """
    forward = forward_part(graph)
    places = places_of_program(forward, is_bounded=True)
    by_stage = {
        key: list(map(in_loop, old))
        for key, old in _by_stage(places.stages, places.passed_on).items()
    }
    loop, _ = in_queues(places, by_stage)
    schedule = linked(Schedule(forward, (loop,)))
    check_schedule(schedule)
    return schedule


_ByStage = Mapping[tuple[str, int], list[Instruction]]
_Linkage = Callable[[TaggedGraph, str, int], list[Instruction]]


def _by_stage(stages: Stages, left_out: Collection[Node] = ()) -> _ByStage:
    """Returns the instructions of each body and stage, without call linkage."""
    by_stage: dict[tuple[str, int], list[Instruction]] = defaultdict(list)
    for name, body in stages.graph.bodies.items():
        for node in body.nodes:
            if node not in left_out:
                by_stage[name, stages.of[node]] += instructions_of(name, node)
        for siblings in regions_of(body):
            stage = stages.of[siblings[0].selector.node]
            by_stage[name, stage].append(Select(siblings))
    return by_stage


def _no_linkage(graph: TaggedGraph, name: str, sweep: int) -> list[Instruction]:
    return []


def _with_calls(stages: Stages, by_stage: _ByStage) -> Iterator[Section]:
    """Yields two loops for each sweep, each followed by a section for all tokens.

    Every sweep after the first also begins with such a section.
    """
    graph = stages.graph

    def segments(
        stage: int, before: _Linkage = _no_linkage, after: _Linkage = _no_linkage
    ) -> tuple[Segment, ...]:
        return tuple(
            Segment(
                name,
                (*before(graph, name, sweep), *by_stage[name, stage], *after(graph, name, sweep)),
            )
            for name in graph.bodies
        )

    none = tuple(Segment(name, ()) for name in graph.bodies)
    for sweep in range(graph.num_sweeps):
        first, last = stages.first(sweep), stages.last(sweep)
        if sweep:
            yield AllTokens(sweep, first - 1, segments(first - 1))
        sweeps = [body.sweeps[sweep] for body in graph.bodies.values()]
        direction = Direction.DOWN if sweep else Direction.CALLS
        if any(node for own in sweeps for node in own.parameters):
            yield Loop(sweep, first, segments(first, received, sent), direction)
            yield AllTokens(sweep, first, none)
        if any(node for own in sweeps for node in own.outputs):
            yield Loop(sweep, last, segments(last, returned, results), Direction.UP)
            yield AllTokens(sweep, last, none)
        else:
            yield AllTokens(sweep, last, segments(last))


def _without_calls(stages: Stages, by_stage: _ByStage) -> Iterator[Section]:
    """Yields a section for each sweep."""
    graph = stages.graph
    for sweep in range(graph.num_sweeps):
        first, last = stages.first(sweep), stages.last(sweep)
        own = [by_stage[graph.entry, stage] for stage in range(first - 1, last + 1)]
        whole = (
            *received(graph, graph.entry, sweep),
            *itertools.chain(*own),
            *results(graph, graph.entry, sweep),
        )
        yield AllTokens(sweep, first, (Segment(graph.entry, whole),), is_alone=True)


def forward_part(graph: TaggedGraph) -> TaggedGraph:
    """Returns an extended graph without its gradients."""
    bodies = {name: replace(body, sweeps=body.sweeps[:1]) for name, body in graph.bodies.items()}
    sites = {
        label: replace(site, linkages=site.linkages[:1]) for label, site in graph.call_sites.items()
    }
    return TaggedGraph(bodies, graph.entry, sites, graph.shared, memo=graph.memo)
