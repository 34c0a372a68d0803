"""An extended graph with its schedule, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.frames.rows_tf.queue_run import QueueRun
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.memo.memo_run import MemoRun
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.waves.wave_run import WaveRun


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A program with its derivatives up to some order.

    Args:
        graph: The graph, extended once for each order.
        schedule: The schedule of the whole graph.
    """

    graph: TaggedGraph
    schedule: Schedule

    def run(
        self,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
        parallel_tokens: int | None = None,
    ) -> QueueRun | WaveRun:
        """Makes a run, forward and backward; the arguments are those of `emit`."""
        return emit(self.schedule, shared, limits, parallel_tokens)


def emit(
    schedule: Schedule,
    shared: dict[Value, tf.Tensor],
    limits: Limits,
    parallel_tokens: int | None = None,
) -> QueueRun | WaveRun:
    """Makes a run of a schedule, which consists of stock TensorFlow ops.

    Args:
        schedule: The schedule to run.
        shared: The tensors of SHARED values.
        limits: The bounds on depth, width and memory.
        parallel_tokens: With `memo`, the largest number of tokens of a level that may run at once;
            None for all.
    """
    if schedule.graph.memo:
        return MemoRun(schedule, shared, limits, parallel_tokens)
    machine = QueueRun if schedule.in_queues else WaveRun
    return machine(schedule, shared, limits)
