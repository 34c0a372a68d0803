"""Runs any program with a bound on how many tokens run at once."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, Tensors
from kerasrec._src.engine.scheduled import Scheduled
from kerasrec._src.errors import TraceError
from kerasrec._src.frames.rows_tf.queue_run import QueueRun
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.build import build_bounded
from kerasrec._src.transform.recompute import unrepeatable


class BoundedRun:
    """One run of any program. Its gradient runs the program again, without the bound.

    Args:
        program: The program with its gradient.
        parallel_tokens: The largest number of tokens that may run at once.
        shared: The tensors of SHARED values.
        limits: The bounds on depth and width.
    """

    def __init__(
        self,
        program: Scheduled,
        parallel_tokens: int,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
    ):
        self.program = program
        self.shared = shared
        self.limits = limits
        self._run = QueueRun(build_bounded(program.graph), shared, limits, parallel_tokens)
        self._arguments: Tensors

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs all tokens, at most `parallel_tokens` at once."""
        self._arguments = arguments
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
        run.forward(self._arguments)
        return run.backward(given, shared)
