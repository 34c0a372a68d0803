"""Runs a schedule in which equal calls are one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.sums import Sums
from kerasrec._src.half_precision import in_float32
from kerasrec._src.memo.calls import CallFinder, Calls, one_call
from kerasrec._src.memo.plan import Plan, plan_of
from kerasrec._src.schedule.sections import Direction, Loop
from kerasrec._src.waves.loops import ByBody, Carry, LoopRun, WaveState
from kerasrec._src.waves.wave_run import WaveRun


@dataclass
class LevelLoop(LoopRun):
    """Runs a loop level by level, and carries the live rows from level to level.

    A row may have many readers, so their cotangents are summed in float32 if they are
    half-precision.

    Args:
        plan: The plan of the run. Further arguments are those of `LoopRun`.
    """

    plan: Plan

    def results(self, end: WaveState) -> Tensors:
        """The rows that the outside reads."""
        return [self.plan.of_roots(tensor) for tensor in super().results(end)]

    @property
    def _reads_arguments(self) -> bool:
        return self.loop.direction is Direction.CALLS

    def _first_carry(self, carry: Carry, given: Tensors) -> Carry:
        if self._reads_arguments:
            return {}
        rows = [self.plan.added_of_roots(in_float32(tensor)) for tensor in given]
        carry = {name: list(map(in_float32, tensors)) for name, tensors in carry.items()}
        return {**carry, self.graph.entry: rows}

    def _give(self, by_body: ByBody, state: WaveState) -> Carry:
        """Gives a level the values passed to it; returns those of rows that are live before it."""
        wave = state.wave
        if self._reads_arguments:
            for name, registers in by_body.items():
                registers.given = self.plan.arguments_of(self.graph, name, wave)
            return {}
        before = {}
        for name, tensors in state.carry.items():
            pairs = [self.plan.given(name, wave, tensor) for tensor in tensors]
            by_body[name].given = [
                tf.cast(here, node.types[0].dtype)
                for (here, _), node in zip(pairs, self._carried[name], strict=True)
            ]
            before[name] = [live for _, live in pairs]
        return before

    def _passed_on(self, by_body: ByBody, before: Carry, state: WaveState) -> Carry:
        """The values of rows that are live before a level, with those that it passes added up."""
        if self._reads_arguments:
            return {}
        for group, tensors in self._sent(by_body).items():
            callee = group[0].callee
            before[callee] = [
                whole + self.plan.added(group, state.wave, in_float32(item))
                for whole, item in zip(before[callee], tensors, strict=True)
            ]
        return before

    def _hand_back(self, by_body: ByBody, state: WaveState) -> None:
        """Gives calls the live rows that they read."""
        for group, (registers, receiver) in self._receivers(by_body).items():
            registers.returns[receiver] = [
                self.plan.read(group, state.wave, tensor) for tensor in state.carry[group[0].callee]
            ]

    def _returned(self, by_body: ByBody, state: WaveState) -> Carry:
        """The rows that are live after a level."""
        after = {}
        for name, registers in by_body.items():
            after[name] = [
                self.plan.kept(name, state.wave, result, tensor)
                for result, tensor in zip(registers.results, state.carry[name], strict=True)
            ]
        return after


class LineRun(WaveRun):
    """One run of a schedule of a program in which no calls are equal, wave by wave."""

    def _describes_call(self, end: WaveState) -> dict[str, Callable[[], tf.Tensor]]:
        return {"call": partial(one_call, self.graph, end.carry)}


@dataclass(eq=False)
class MemoRun(WaveRun):
    """One run of a schedule, level by level.

    Args:
        parallel_tokens: The largest number of tokens of a body that run at once; None for all of a
            level.
        calls: All calls, if they are known. Further arguments are those of `ScheduleRun`.
    """

    parallel_tokens: int | None = None
    calls: Calls | None = None
    _plan: Plan | None = field(default=None, init=False)

    def loop(self, loop: Loop, given: Tensors, sums: Sums) -> Tensors:
        """Runs a loop over levels; before the first one, finds the calls and plans them."""
        if self._plan is None:
            if self.calls is None:
                is_for_copies = self.parallel_tokens is None
                finder = CallFinder(self.schedule, self.shared, self.limits, is_for_copies)
                self.calls = finder.find(given)
            self._plan = plan_of(self.graph, self.calls, self.parallel_tokens)
            self.num_waves = self._plan.num_waves
        return super().loop(loop, given, sums)

    def loop_run(self, loop: Loop) -> LevelLoop:
        """Returns what runs a loop."""
        assert self._plan is not None
        state = self.schedule, loop, self.shared, self.limits, self.store, self.num_waves
        return LevelLoop(*state, self._plan)
