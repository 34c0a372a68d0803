"""Runs a program and records the steps of the engine: the nodes and tokens of each wave.

Recorded runs save the numbers of tokens in addition, so ordinary runs have no cost from this.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.program import Program
from kerasrec._src.engine.shared import shared_tensors
from kerasrec._src.graph.carried import rows_of_roots, with_carried
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Node, Region
from kerasrec._src.inspect.run_step import RunStep
from kerasrec._src.inspect.run_trace import RunTrace
from kerasrec._src.inspect.scopes import names_in
from kerasrec._src.private import unseen_by_op_callbacks
from kerasrec._src.schedule.instructions import (
    Fire,
    HandOn,
    Instruction,
    InTable,
    Observe,
    Pass,
    Receive,
    Reduce,
    Return,
    Returned,
    Select,
    Send,
    Stitch,
)
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop, Queues, Section, Segment

Sizes = dict[Region | str, list[int]]
_Fired = tuple[Node, Region | None]


class Recorder:
    """Runs a program in waves and records its steps.

    Args:
        executable: The program.
        specs: The specs of the flat arguments, `[tokens, ...]` each.
    """

    def __init__(self, executable: Executable, specs: Sequence[tf.TensorSpec]):
        self.executable = executable
        self._keys: list[Region | str] = []
        self._run = tf.function(self._forward, input_signature=specs, autograph=False)

    @functools.cached_property
    def _recorded(self) -> Program:
        """The program without passes: the instructions are those of its nodes."""
        return replace(self.executable.program, passes=())

    @property
    def usual_way(self) -> str:
        """How ordinary calls run, if it is not in waves without a bound; otherwise empty."""
        plan = self.executable.plan
        return "" if plan.run == self.executable.program.wave_run else plan.summary

    def record(self, arguments: Sequence[tf.Tensor]) -> RunTrace:
        """Runs the program forward on flat arguments, `[tokens, ...]` each."""
        notes, sizes = self._run(*arguments)
        found = {
            key: tensor.numpy().tolist() for key, tensor in zip(self._keys, sizes, strict=True)
        }
        noted = notes.numpy().tolist()
        run = _run_trace(self._recorded.schedule, noted, found, self.usual_way)
        if not self.executable.graph.memo:
            return run
        totals = _totals(self._recorded.schedule, noted, found)
        sites = self.executable.graph.inner_sites
        made = sum(totals[site.region or str(site.caller)] for site in sites) + len(arguments[0])
        return replace(run, num_shared=made - run.num_calls)

    @unseen_by_op_callbacks()
    def _forward(self, *arguments: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        rows = rows_of_roots(self.executable.graph, list(arguments))
        run = self._recorded.wave_run(shared_tensors(self.executable.graph, rows)).recording()
        run.forward(with_carried(self.executable.graph, list(arguments)))
        sizes = run.sizes()
        self._keys = list(sizes)
        return run.notes(), list(sizes.values())


def _run_trace(
    schedule: Schedule, notes: list[list[int]], sizes: Sizes, usual_way: str
) -> RunTrace:
    """Makes the trace of a run.

    Args:
        schedule: The schedule that ran.
        notes: The notes of the run in order, each with the ops that ran, on which wave, and how
            deep.
        sizes: The number of tokens in each wave, by body and region.
        usual_way: How ordinary calls run; see `RunTrace`.
    """
    graph, ran = schedule.graph, _ran(schedule)
    tokens = _TokenCounts(graph, sizes, _totals(schedule, notes, sizes))
    found = [steps for steps in _steps(ran, notes, tokens) if steps]
    steps = [replace(step, step=number) for number, of in enumerate(found) for step in of]
    calls = {name: tokens.count(name, None, None) for name in graph.bodies}
    fired: dict[str, int] = {}
    for name, body in graph.bodies.items():
        fired |= tokens.fired(name, [(node, node.region) for node in body.sweeps[0].nodes], None)
    return RunTrace(graph.entry, steps, calls, fired, usual_way)


def _totals(schedule: Schedule, notes: list[list[int]], sizes: Sizes) -> dict[Region | str, int]:
    """The number of tokens of each body and region in the whole run.

    In queues, a frame runs at several places. It is counted at the place that decides the region.
    """
    (first, *_) = schedule.sections
    if not isinstance(first, Queues):
        return {key: sum(counts) for key, counts in sizes.items()}
    decided: dict[Region | str, int | None] = {
        region: segment.place
        for segment in first.segments
        for select in segment.of(Select)
        if not select.at_use
        for region in select.regions
    }
    places = [first.order[what][1] for what, _, _ in notes]
    return {
        key: sum(itertools.compress(counts, [place == decided.get(key, 0) for place in places]))
        for key, counts in sizes.items()
    }


def _steps(
    ran: list[_Ran], notes: list[list[int]], tokens: _TokenCounts
) -> Iterator[list[RunStep]]:
    """Yields the nodes of each step; hoisted instructions run when their loop is done."""
    last = {ran[what].hoisted: at for at, (what, _, _) in enumerate(notes)}
    for at, (what, wave, depth) in enumerate(notes):
        yield tokens.step(ran[what], wave, depth)
        hoisted = ran[what].hoisted
        if hoisted is not None and last[hoisted] == at:
            yield tokens.step(hoisted, None, None)


@dataclass(eq=False)
class _Ran:
    """A loop, a place or a hoisted section, as a step of a run.

    Args:
        text: Its name in the trace.
        fired: For each body, the nodes that it fires, and the regions of the tokens that fire them.
        begins: Whether functions are called in it.
        hoisted: The hoisted section that runs when its loop is done.
    """

    text: str
    fired: dict[str, list[_Fired]]
    begins: bool
    hoisted: _Ran | None


def _ran(schedule: Schedule) -> list[_Ran]:
    """Returns the meaning of a note by its first number, in the order of these numbers."""
    first, *others = [section for section in schedule.sections if not section.sweep]
    if isinstance(first, Queues):
        hoisted = _of_section("hoisted", schedule.graph, others[0])
        segments = {(segment.body, segment.place): segment for segment in first.segments}
        return [
            _Ran(
                f"place {place}",
                {name: _fired(schedule.graph, segments, name, place)},
                place == 0,
                hoisted,
            )
            for name, place in first.order
        ]
    if not isinstance(first, Loop):
        return [_of_section("all tokens", schedule.graph, first, begins=True)]
    loops = [first, *others][::2]
    return [
        replace(
            _of_section(f"loop {loop.stage}", schedule.graph, loop, begins=loop is first),
            hoisted=_of_section(f"hoisted {loop.stage}", schedule.graph, section),
        )
        for loop, section in zip(loops, others[::2], strict=True)
    ]


def _of_section(text: str, graph: TaggedGraph, section: Section, begins: bool = False) -> _Ran:
    fired = {
        segment.body: _in_order(graph, segment.body, map(_nodes, segment.placed))
        for segment in section.segments
    }
    return _Ran(text, fired, begins, None)


def _fired(
    graph: TaggedGraph, segments: dict[tuple[str, int | None], Segment], name: str, place: int
) -> list[_Fired]:
    """The nodes that fire at a place of a body: those of its segment, and RETURNs that it reads."""
    handed_on = [hand_on.site for hand_on in segments[name, place].of(HandOn)]
    returns: list[list[_Fired]] = [
        [(node, node.region) for site in send.sites for node in site.returns]
        for send in (segments[name, place - 1].of(Send) if place else ())
        if send.sites[0] not in handed_on
    ]
    return _in_order(graph, name, [*map(_nodes, segments[name, place].placed), *returns])


def _in_order(graph: TaggedGraph, body: str, found: Iterable[list[_Fired]]) -> list[_Fired]:
    """Sorts nodes by their order in the graph."""
    numbers = {node: number for number, node in enumerate(graph.bodies[body].nodes)}
    return sorted((pair for pairs in found for pair in pairs), key=lambda pair: numbers[pair[0]])


def _nodes(instruction: Instruction) -> list[_Fired]:
    """The nodes that an instruction fires, each with the region of the tokens that fire it."""
    if isinstance(instruction, Return | HandOn):
        return [(node, instruction.region) for node in instruction.passing]
    nodes: list[Node] = []
    if isinstance(instruction, Fire | Observe | InTable | Reduce):
        nodes = [instruction.node]
    elif isinstance(instruction, Send):
        nodes = [node for site in instruction.sites for node in site.calls]
    elif isinstance(instruction, Returned):
        nodes = [node for site in instruction.sites for node in site.returns]
    elif isinstance(instruction, Receive):
        nodes = [value.node for value in instruction.values]
    elif isinstance(instruction, Stitch | Pass):
        nodes = [instruction.output.node]
    return [(node, node.region) for node in nodes]


class _TokenCounts:
    """Counts the tokens of a run.

    Args:
        graph: The program.
        sizes: The numbers of tokens in each wave.
        totals: The numbers of tokens in the whole run.
    """

    def __init__(self, graph: TaggedGraph, sizes: Sizes, totals: dict[Region | str, int]):
        self.sizes = sizes
        self.totals = totals
        self.names = names_in(graph.scopes())

    def step(self, ran: _Ran, wave: int | None, depth: int | None) -> list[RunStep]:
        """Returns the steps of bodies with tokens in one step; without a wave, it is hoisted."""
        steps = []
        for name, nodes in ran.fired.items():
            tokens = self.count(name, None, wave)
            if tokens and (nodes or wave is not None):
                fired = self.fired(name, nodes, wave)
                steps.append(RunStep(0, name, ran.text, depth, wave, tokens, fired, ran.begins))
        return steps

    def fired(self, body: str, nodes: Iterable[_Fired], wave: int | None) -> dict[str, int]:
        """The number of tokens that each node fired in a wave, or in all; only nodes that fired."""
        counts: Counter[str] = Counter()
        for node, region in nodes:
            counts[self.names[node]] += self.count(body, region, wave)
        return {name: count for name, count in counts.items() if count}

    def count(self, body: str, region: Region | None, wave: int | None) -> int:
        """The number of tokens that a region of a body has in a wave, or in all."""
        key = region or body
        return self.totals[key] if wave is None else self.sizes[key][wave]
