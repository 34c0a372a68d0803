"""An extended graph with its schedule, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass, field

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, Tensors
from kerasrec._src.errors import TraceError
from kerasrec._src.frames.rows_tf.queue_run import QueueRun
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.memo.memo_run import MemoRun
from kerasrec._src.schedule.build import build_bounded
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.transform.recompute import unrepeatable
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
        """Makes a run, forward and backward, which consists of stock TensorFlow ops.

        Args:
            shared: The tensors of SHARED values.
            limits: The bounds on depth, width and memory.
            parallel_tokens: With `memo`, the largest number of tokens of a level that may run at
              once; None for all.
        """
        if self.graph.memo:
            return MemoRun(self.schedule, shared, limits, parallel_tokens)
        machine = QueueRun if self.schedule.in_queues else WaveRun
        return machine(self.schedule, shared, limits)


@dataclass(eq=False)
class BoundedRun:
    """One run of any program. Its gradient runs the program again, without the bound.

    Args:
        program: The program with its gradient.
        parallel_tokens: The largest number of tokens that may run at once.
        shared: The tensors of SHARED values.
        limits: The bounds on depth and width.
    """

    program: Scheduled
    parallel_tokens: int
    shared: dict[Value, tf.Tensor]
    limits: Limits
    arguments: Tensors = field(init=False)

    def __post_init__(self) -> None:
        bounded = build_bounded(self.program.graph)
        self._run = QueueRun(bounded, self.shared, self.limits, self.parallel_tokens)

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs all tokens, at most `parallel_tokens` at once."""
        self.arguments = arguments
        return self._run.forward(arguments)

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs the program again, forward and backward; arguments as for `ScheduleRun.backward`.

        Raises:
            TraceError: If the program may give different results when it runs again.
        """
        reason = unrepeatable(self.program.graph, in_other_waves=True)
        if reason:
            raise TraceError(
                f"{self.limits.name} has no gradient with parallel_tokens, which runs it again for "
                f"its gradient: {reason}, or leave parallel_tokens out."
            )
        run = self.program.run(self.shared, self.limits)
        run.forward(self.arguments)
        return run.backward(given, shared)
