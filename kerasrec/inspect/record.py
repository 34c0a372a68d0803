"""Runs a program and records what the engine did: what ran on which wave, with how many tokens.

The engine keeps the numbers of tokens in any case, so ordinary runs pay nothing for this.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec.engine.lower import Program
from kerasrec.engine.places import QueuePlan
from kerasrec.engine.plan import Part, Plan
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
        return "" if choice.run == self.program.waves.run else str(choice)

    def record(self, arguments: Sequence[tf.Tensor]) -> RunTrace:
        """Runs the program forward on flat arguments, `[tokens, ...]` each."""
        notes, sizes = self._run(*arguments)
        found = {
            key: tensor.numpy().tolist() for key, tensor in zip(self._keys, sizes, strict=True)
        }
        return _run_trace(self.program.plan, notes.numpy().tolist(), found, self.usual_way)

    def _forward(self, *arguments: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        shared, limits = shared_tensors(self.program.graph), self.program.limits
        run = self.program.waves.recorded_run(shared, limits)
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
    tokens = _Tokens(plan, sizes, _totals(plan, notes, sizes))
    found = [steps for steps in _steps(plan, notes, tokens) if steps]
    steps = [replace(step, step=number) for number, of in enumerate(found) for step in of]
    calls = {name: tokens.count(name, None, None) for name in plan.graph.bodies}
    fired: dict[str, int] = {}
    for name, body in plan.graph.bodies.items():
        nodes = [(node, node.region) for node in body.sweeps[0].nodes]
        fired |= tokens.fired(name, nodes, None)
    return RunTrace(plan.graph.entry, steps, calls, fired, usual_way)


def _totals(plan: Plan, notes: list[list[int]], sizes: Sizes) -> dict[Region | str, int]:
    """How many tokens each body and region had in the whole run.

    With queues, frames run several places; they are counted at the one where the region is decided.
    """
    if not isinstance(plan, QueuePlan):
        return {key: sum(counts) for key, counts in sizes.items()}
    places = [plan.order[what][1] for what, _, _ in notes]
    decided = {key: 0 if isinstance(key, str) else plan.decided[key.selector] for key in sizes}
    return {
        key: sum(itertools.compress(counts, (place == decided[key] for place in places)))
        for key, counts in sizes.items()
    }


def _steps(plan: Plan, notes: list[list[int]], tokens: _Tokens) -> Iterator[list[RunStep]]:
    """What runs in each step; a bulk runs when the loop before it is done."""
    ran = _ran(plan)
    last = {what: at for at, (what, _, _) in enumerate(notes)}
    for at, (what, wave, depth) in enumerate(notes):
        yield tokens.step(ran[what], wave, depth)
        bulk = ran[what].bulk
        if bulk is not None and (last[what] if plan.is_linear else len(notes) - 1) == at:
            yield tokens.step(_part(plan, [bulk], bulk), None, None)


@dataclass
class _Ran:
    """What one step of a run fires.

    Args:
        text: the stage or place.
        fired: by body, nodes and the regions whose tokens fire them.
        begins: whether functions are called in it.
        bulk: what runs when the loop is done.
    """

    text: str
    fired: dict[str, list[tuple[Node, Region | None]]]
    begins: bool
    bulk: Part | None


def _ran(plan: Plan) -> list[_Ran]:
    """What runs, for each number that a note begins with."""
    if isinstance(plan, QueuePlan):
        bulk = plan.hoisted(0)
        return [
            _Ran(f"place {place}", {name: list(plan.fired(name, place))}, place == 0, bulk)
            for name, place in plan.order
        ]
    return [_part(plan, [Part(stage, False)], Part(stage, True)) for stage in (0, 1)]


def _part(plan: Plan, parts: list[Part], bulk: Part) -> _Ran:
    fired = {
        name: [(node, node.region) for part in parts for node in plan.nodes.get((name, part), ())]
        for name in plan.graph.bodies
    }
    text = str(parts[0]).removeprefix("stage ")
    return _Ran(text, fired, parts == [Part(0, False)], bulk)


class _Tokens:
    """Counts the tokens of a run.

    Args:
        plan: of the program.
        sizes: of its waves.
        totals: of all of them.
    """

    def __init__(self, plan: Plan, sizes: Sizes, totals: dict[Region | str, int]):
        self.sizes = sizes
        self.totals = totals
        self.names = names_in(plan.graph.scopes())

    def step(self, ran: _Ran, wave: int | None, depth: int | None) -> list[RunStep]:
        """What bodies with tokens did in one step; without a wave, the step is a bulk."""
        steps = []
        for name, nodes in ran.fired.items():
            tokens = self.count(name, None, wave)
            if tokens and (nodes or wave is not None):
                fired = self.fired(name, nodes, wave)
                steps.append(RunStep(0, name, ran.text, depth, wave, tokens, fired, ran.begins))
        return steps

    def fired(
        self, body: str, nodes: Iterable[tuple[Node, Region | None]], wave: int | None
    ) -> dict[str, int]:
        """How many tokens each node fires in a wave, or in all; without those that fire none."""
        counts: Counter[str] = Counter()
        for node, region in nodes:
            counts[self.names[node]] += self.count(body, region, wave)
        return {name: count for name, count in counts.items() if count}

    def count(self, body: str, region: Region | None, wave: int | None) -> int:
        """How many tokens a region of a body has in a wave, or in all."""
        key = region or body
        return self.totals[key] if wave is None else self.sizes[key][wave]
