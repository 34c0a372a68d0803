"""Runs a schedule in which equal calls are one call."""

from __future__ import annotations

from dataclasses import dataclass

from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.sums import Sums
from kerasrec._src.memo.calls import CallFinder, Calls
from kerasrec._src.memo.loops import LevelLoop
from kerasrec._src.memo.plan import Plan, plan_of
from kerasrec._src.schedule.sections import Direction, Loop
from kerasrec._src.waves.wave_run import WaveRun


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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plan: Plan | None = None

    def loop(self, loop: Loop, given: Tensors, sums: Sums) -> Tensors:
        """Runs a loop over levels; before the first one, finds the calls and plans them."""
        if self._plan is None:
            if self.calls is None:
                finder = CallFinder(
                    self.schedule, loop, self.shared, self.limits, self.parallel_tokens is None
                )
                self.calls = finder.find(given)
            self._plan = plan_of(self.graph, self.calls, self.parallel_tokens)
            self.num_waves = self._plan.num_waves
        is_up = loop.direction is Direction.UP
        state = self.schedule, loop, self.shared, self.limits, self.store, self.num_waves
        end = LevelLoop(*state, self._plan).run(None if is_up else given, sums)
        return end.carry[self.graph.entry] if is_up else []
