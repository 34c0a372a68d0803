"""How an extended graph runs by waves."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.emit.limits import Limits
from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.values import Value
from kerasrec.queues.run import QueueRun
from kerasrec.schedule.build import build
from kerasrec.schedule.link import linked
from kerasrec.schedule.passes import Pass, default_passes, optimize
from kerasrec.schedule.schedule import Schedule
from kerasrec.waves.run import WaveRun


@dataclass(eq=False)
class ByWaves:
    """An extended graph, ready to run by waves.

    Args:
        graph: the extended graph.
        passes: over its schedule; None for those that suit the machine.
        is_linear: False runs even a program of one round by queues.
        recompute: whether loops of the gradient compute again what only they would read.
    """

    graph: TaggedGraph
    passes: Sequence[Pass] | None = None
    is_linear: bool | None = None
    recompute: bool = False

    @functools.cached_property
    def schedule(self) -> Schedule:
        """What runs when."""
        passes = default_passes(self.recompute) if self.passes is None else self.passes
        return optimize(self.unchanged, passes)

    @functools.cached_property
    def unchanged(self) -> Schedule:
        """The schedule before any pass; its instructions are those of the nodes."""
        return build(self.graph, self.is_linear)

    def run(self, shared: dict[Value, tf.Tensor], limits: Limits) -> QueueRun | WaveRun:
        """A run, forward and backward.

        Args:
            shared: tensors of SHARED values.
            limits: bounds on depth, width and memory.
        """
        machine = QueueRun if self.schedule.in_queues else WaveRun
        return machine(self.schedule, shared, limits)

    def recorded_run(self, shared: dict[Value, tf.Tensor], limits: Limits) -> QueueRun | WaveRun:
        """A run without passes that knows how many tokens regions had; arguments as for `run`."""
        if self.unchanged.in_queues:
            return QueueRun(self.unchanged, shared, limits).recording()
        return WaveRun(linked(self.unchanged, saves_sizes=True), shared, limits)
