"""Runs a program and records what the engine did: what ran on which wave, with how many tokens.

The engine keeps the numbers of tokens in any case, so ordinary runs pay nothing for this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

from kerasrec.engine.choice import waves_for
from kerasrec.engine.lower import Program
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.segments import segments_of
from kerasrec.engine.shared import shared_tensors
from kerasrec.graph.carried import with_carried
from kerasrec.graph.values import Node, Region
from kerasrec.inspect.run_step import RunStep
from kerasrec.inspect.run_trace import RunTrace
from kerasrec.inspect.scopes import names_in

Sizes = dict[Region | str, list[int]]


class Recorder:
    """Runs a program by waves and records what happens.

    Args:
        program: the lowered program.
        specs: of the flat arguments, `[tokens, ...]` each.
    """

    def __init__(self, program: Program, specs: Sequence[tf.TensorSpec]):
        self.program = program
        self._keys: list[Region | str] = []
        self._run = tf.function(self._forward, input_signature=specs, autograph=False)

    @property
    def usual_way(self) -> str:
        """How ordinary calls run, if it is not by waves without a bound; otherwise empty."""
        choice = self.program.choice
        return "" if choice.run is waves_for(self.program.plan) else str(choice)

    def record(self, arguments: Sequence[tf.Tensor]) -> RunTrace:
        """Runs the program forward on flat arguments, `[tokens, ...]` each."""
        notes, sizes = self._run(*arguments)
        found = {
            key: tensor.numpy().tolist() for key, tensor in zip(self._keys, sizes, strict=True)
        }
        return _run_trace(self.program.plan, notes.numpy().tolist(), found, self.usual_way)

    def _forward(self, *arguments: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        plan = self.program.plan
        run = waves_for(plan)(plan, shared_tensors(self.program.graph), self.program.limits)
        run.forward(with_carried(self.program.graph, list(arguments)))
        sizes = run.sizes()
        self._keys = list(sizes)
        return run.notes(), list(sizes.values())


def _run_trace(plan: Plan, notes: list[list[int]], sizes: Sizes, usual_way: str) -> RunTrace:
    """The trace of a run.

    Args:
        plan: of the program.
        notes: of the engine, in order: what ran, on which wave, how deep.
        sizes: of the waves, see `WaveRun.sizes`.
        usual_way: of ordinary calls, see `RunTrace`.
    """
    tokens = _Tokens(plan, sizes)
    calls = {name: tokens.count(name, None) for name in plan.graph.bodies}
    fired: dict[str, int] = {}
    for name, body in plan.graph.bodies.items():
        fired |= tokens.fired(name, body.sweeps[0].nodes)
    steps = list(_steps(plan, notes, tokens))
    return RunTrace(plan.graph.entry, steps, calls, fired, usual_way)


def _steps(plan: Plan, notes: list[list[int]], tokens: _Tokens) -> Iterator[RunStep]:
    """The steps in order; the bulk of a stage runs when its loop is done."""
    what_runs = _what_runs(plan)
    last = {stage: at for at, (what, _, _) in enumerate(notes) for stage in what_runs[what][1]}
    bulks = {part.stage for _, part in plan.nodes if part.is_bulk}
    number = itertools.count()
    for at, (what, wave, depth) in enumerate(notes):
        bodies, stages = what_runs[what]
        yield from tokens.step(next(number), bodies, stages, wave, depth)
        for stage in stages:
            if stage in bulks and last[stage] == at:
                yield from tokens.step(next(number), plan.graph.bodies, [stage])


def _what_runs(plan: Plan) -> list[tuple[list[str], Sequence[int]]]:
    """The bodies and stages that run, for each number that a note begins with."""
    if plan.is_linear:
        return [(list(plan.graph.bodies), (stage,)) for stage in (0, 1)]
    return [([segment.body], segment.stages[0]) for segment in segments_of(plan)]


class _Tokens:
    """Counts the tokens of a run.

    Args:
        plan: of the program.
        sizes: of its waves.
    """

    def __init__(self, plan: Plan, sizes: Sizes):
        self.plan = plan
        self.sizes = sizes
        self.names = names_in(plan.graph.scopes())

    def step(
        self,
        number: int,
        bodies: Iterable[str],
        stages: Sequence[int],
        wave: int | None = None,
        depth: int | None = None,
    ) -> Iterator[RunStep]:
        """What bodies with tokens did in one step; without a wave, the step is a bulk."""
        parts = [Part(stage, is_bulk=wave is None) for stage in stages]
        span = "-".join(str(stage) for stage in sorted({stages[0], stages[-1]}))
        text = f"{span} {'bulk' if wave is None else 'loop'}"
        for name in bodies:
            tokens = self.count(name, None, wave)
            nodes = [node for part in parts for node in self.plan.nodes.get((name, part), ())]
            if tokens and (nodes or wave is not None):
                fired = self.fired(name, nodes, wave)
                yield RunStep(number, name, text, depth, wave, tokens, fired)

    def fired(self, body: str, nodes: Iterable[Node], wave: int | None = None) -> dict[str, int]:
        """How many tokens each node fires in a wave, or in all; without those that fire none."""
        counts = {self.names[node]: self.count(body, node.region, wave) for node in nodes}
        return {name: count for name, count in counts.items() if count}

    def count(self, body: str, region: Region | None, wave: int | None = None) -> int:
        """How many tokens a region of a body has in a wave, or in all."""
        sizes = self.sizes[region or body]
        return sum(sizes) if wave is None else sizes[wave]
