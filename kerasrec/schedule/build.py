"""The stage `build`: an extended graph to a schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kerasrec.errors import GraphError
from kerasrec.graph import nodes
from kerasrec.graph.graph import Body, TaggedGraph
from kerasrec.graph.nodes import (
    Accumulate,
    Call,
    Check,
    Collect,
    Computed,
    Enter,
    Entrance,
    Leave,
    Merge,
    Repeat,
    Result,
    Switch,
)
from kerasrec.graph.types import Kind
from kerasrec.graph.values import Each, Node, Region, branches
from kerasrec.schedule.check import check_schedule
from kerasrec.schedule.instructions import (
    AllTokens,
    Broadcast,
    Count,
    Direction,
    Effect,
    Fire,
    Gather,
    Instruction,
    Loop,
    Pass,
    Reduce,
    Rows,
    Section,
    Segment,
    Select,
    Stitch,
    Tokens,
)
from kerasrec.schedule.link import linked
from kerasrec.schedule.linkage import received, results, returned, sent
from kerasrec.schedule.place import placed
from kerasrec.schedule.schedule import Schedule
from kerasrec.schedule.stages import Stages, stages_of


def build(graph: TaggedGraph) -> Schedule:
    """The schedule of an extended graph in which every body has one round of calls at most.

    Raises:
        GraphError: a body has several rounds.
    """
    stages = stages_of(graph)
    if not stages.is_linear:
        raise GraphError("A program of several rounds of calls has no schedule yet.")
    by_stage = _by_stage(stages)
    if stages.calls_nobody:
        found = linked(Schedule(graph, tuple(_without_calls(stages, by_stage))))
    else:
        found = placed(Schedule(graph, tuple(_with_calls(stages, by_stage))))
    check_schedule(found)
    return found


_ByStage = dict[tuple[str, int], list[Instruction]]
_Linkage = Mapping[str, list[Instruction]]
_NO_LINKAGE: _Linkage = MappingProxyType({})


def _by_stage(stages: Stages) -> _ByStage:
    """The instructions of each body and stage, without call linkage."""
    found: _ByStage = defaultdict(list)
    for name, body in stages.graph.bodies.items():
        for node in body.nodes:
            found[name, stages.of[node]] += _instructions(name, node)
        for siblings in regions_of(body):
            stage = stages.of[siblings[0].selector.node]
            found[name, stage].append(Select(siblings))
    return found


def _with_calls(stages: Stages, by_stage: _ByStage) -> Iterator[Section]:
    """Two loops for each sweep, and behind each a section for all tokens."""
    graph = stages.graph

    def segments(
        stage: int, before: _Linkage = _NO_LINKAGE, after: _Linkage = _NO_LINKAGE
    ) -> tuple[Segment, ...]:
        return tuple(
            Segment(name, (*before.get(name, ()), *by_stage[name, stage], *after.get(name, ())))
            for name in graph.bodies
        )

    none = tuple(Segment(name, ()) for name in graph.bodies)
    for sweep in range(graph.num_sweeps):
        first, last = stages.first(sweep), stages.last(sweep)
        into, out, back, up = (
            {name: make(graph, name, sweep) for name in graph.bodies}
            for make in (received, sent, returned, results)
        )
        if sweep:
            yield AllTokens(sweep, first - 1, segments(first - 1))
        sweeps = [body.sweeps[sweep] for body in graph.bodies.values()]
        direction = Direction.DOWN if sweep else Direction.CALLS
        if any(node for found in sweeps for node in found.parameters):
            yield Loop(sweep, first, segments(first, into, out), direction)
            yield AllTokens(sweep, first, none)
        if any(node for found in sweeps for node in found.outputs):
            yield Loop(sweep, last, segments(last, back, up), Direction.UP)
            yield AllTokens(sweep, last, none)
        else:
            yield AllTokens(sweep, last, segments(last))


def _without_calls(stages: Stages, by_stage: _ByStage) -> Iterator[Section]:
    """A section for each sweep."""
    graph = stages.graph
    for sweep in range(graph.num_sweeps):
        first = stages.first(sweep)
        instructions = [
            item
            for stage in range(first - 1, stages.last(sweep) + 1)
            for item in by_stage[graph.entry, stage]
        ]
        whole = (
            *received(graph, graph.entry, sweep),
            *instructions,
            *results(graph, graph.entry, sweep),
        )
        yield AllTokens(sweep, first, (Segment(graph.entry, whole),), is_alone=True)


def regions_of(body: Body) -> list[tuple[Region, ...]]:
    """The regions of a body, those of one selector together."""
    found: dict[tuple[Region, ...], None] = {}
    for node in body.nodes:
        inside = [node.region, *(value.region for value in node.outputs)]
        if isinstance(node, Merge):
            inside += branches(node.region, node.predicate, len(node.inputs))
        if isinstance(node, nodes.Rows):
            inside.append(node.entries)
        for region in filter(None, inside):
            found.update(dict.fromkeys(item.siblings for item in region.path()))
    return list(found)


def _instructions(body: str, node: Node) -> list[Instruction]:
    """What a node does; what passes values between segments is call linkage and not in here."""
    if isinstance(node, Call | nodes.Return | Result | Entrance):
        return []
    if isinstance(node, Collect | Accumulate):
        return [Reduce(node)]
    if isinstance(node, Check | nodes.Effect):
        return [Effect(node, Tokens(body, node.region))]
    if isinstance(node, Switch):
        return [
            Gather(value, (node.inputs[0], region), at_use=True)
            for value in node.outputs
            if (region := value.region)
        ]
    if isinstance(node, Computed) and not counts_tokens(node):
        is_wave = node.types[0].kind is Kind.WAVE
        return [Fire(node, tuple(node.inputs), tuple(node.outputs), at_use=is_wave)]
    return [_of_one_output(body, node)]


def _of_one_output(body: str, node: Node) -> Instruction:
    output, region = node.output(), node.region
    if isinstance(node, Merge):
        inside = branches(region, node.predicate, len(node.inputs))
        return Stitch(output, (*node.inputs, *inside))
    if isinstance(node, nodes.Broadcast):
        return Broadcast(output, (node.inputs[0], Tokens(body, region)), at_use=True)
    if isinstance(node, Repeat) and region:
        return Gather(output, (node.inputs[0], region), at_use=True)
    if isinstance(node, nodes.Rows):
        return Rows(output, (Each(region, node.inputs[0]),), at_use=True)
    if isinstance(node, Leave):
        return Pass(output, (node.inputs[0],), at_use=True)
    if isinstance(node, Enter):
        lengths = node.inputs[1:] if len(node.inputs) > 2 else []
        return Pass(output, (node.inputs[0], *lengths))
    if counts_tokens(node):
        return Count(output, (Tokens(body, node.inputs[0].region),), at_use=True)
    raise GraphError(f"{node.op} has no instruction.")


def counts_tokens(node: Node) -> bool:
    """Whether a node is the shape of tokens of a known shape: only their number is open."""
    return (
        node.op == "Shape"
        and node.inputs[0].type.kind is Kind.TOKEN
        and node.inputs[0].type.is_static
    )
