"""An extended graph with its schedule, which can be run."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.emit.limits import Limits
from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.values import Value
from kerasrec.memo.run import MemoRun
from kerasrec.queues.run import QueueRun
from kerasrec.schedule.schedule import Schedule
from kerasrec.waves.run import WaveRun


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A program with its derivatives up to some order.

    Args:
        graph: extended as many times.
        schedule: of all that.
    """

    graph: TaggedGraph
    schedule: Schedule

    def run(
        self,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
        parallel_tokens: int | None = None,
    ) -> QueueRun | WaveRun:
        """A run, forward and backward; arguments as for `emit`."""
        return emit(self.schedule, shared, limits, parallel_tokens)


def emit(
    schedule: Schedule,
    shared: dict[Value, tf.Tensor],
    limits: Limits,
    parallel_tokens: int | None = None,
) -> QueueRun | WaveRun:
    """A run of a schedule, which makes stock TensorFlow ops.

    Args:
        schedule: what to run.
        shared: tensors of SHARED values.
        limits: bounds on depth, width and memory.
        parallel_tokens: how many tokens of a level may run at once, with `memo`; None for all.
    """
    if schedule.graph.memo:
        return MemoRun(schedule, shared, limits, parallel_tokens)
    machine = QueueRun if schedule.in_queues else WaveRun
    return machine(schedule, shared, limits)
