"""How an extended graph runs by waves."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.engine import passes as of_plans
from kerasrec.engine.places import QueuePlan, plan_places
from kerasrec.engine.plan import Plan, plan
from kerasrec.engine.queues import QueueRun
from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.values import Value
from kerasrec.schedule.build import build
from kerasrec.schedule.link import linked
from kerasrec.schedule.passes import Pass, default_passes, optimize
from kerasrec.schedule.schedule import Schedule
from kerasrec.waves.limits import Limits
from kerasrec.waves.run import ScheduleRun


@dataclass(eq=False)
class ByWaves:
    """An extended graph, ready to run by waves.

    Args:
        graph: the extended graph.
        passes: over its schedule; None for those that suit the machine. A program of several
          rounds has none but these.
        is_linear: False runs even a program of one round by the engine for all programs.
        recompute: whether loops of the gradient compute again what only they would read.
    """

    graph: TaggedGraph
    passes: Sequence[Pass] | None = None
    is_linear: bool | None = None
    recompute: bool = False

    @functools.cached_property
    def plan(self) -> Plan:
        """When each node runs."""
        return self._linear if self._linear.is_linear else self._places

    @functools.cached_property
    def _linear(self) -> Plan:
        return plan(self.graph, self.is_linear)

    @functools.cached_property
    def _places(self) -> QueuePlan:
        passes = of_plans.default_passes(self.recompute) if self.passes is None else []
        found = plan_places(self.graph)
        for changes in passes:
            found = plan_places(self.graph, found.changes | changes(found))
        return found

    @functools.cached_property
    def schedule(self) -> Schedule | None:
        """What runs when; None for programs of several rounds, which a machine runs by the plan."""
        passes = default_passes(self.recompute) if self.passes is None else self.passes
        return optimize(build(self.graph), passes) if self._linear.is_linear else None

    def run(self, shared: dict[Value, tf.Tensor], limits: Limits) -> QueueRun | ScheduleRun:
        """A run, forward and backward.

        Args:
            shared: tensors of SHARED values.
            limits: bounds on depth, width and memory.
        """
        if self.schedule is None:
            return QueueRun(self._places, shared, limits)
        return ScheduleRun(self.schedule, shared, limits)

    def recorded_run(
        self, shared: dict[Value, tf.Tensor], limits: Limits
    ) -> QueueRun | ScheduleRun:
        """A run that knows how many tokens each region had in each wave; arguments as for `run`."""
        if self.schedule is None:
            return QueueRun(self._places, shared, limits).recording()
        return ScheduleRun(linked(self.schedule, saves_sizes=True), shared, limits)
