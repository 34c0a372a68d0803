"""The base class of engines that keep nothing for a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import tensorflow as tf

from kerasrec.engine.limits import Limits
from kerasrec.engine.plan import Plan
from kerasrec.engine.results import Outcome, Tensors
from kerasrec.engine.wave_run import WaveRun
from kerasrec.errors import TraceError
from kerasrec.graph.values import Value
from kerasrec.transform.recompute import unrepeatable


class ForwardOnly(ABC):
    """One run of a program; its gradient, if it is asked for, runs the program again by waves.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth, width and memory.
        waves: makes a run of (plan, shared, limits) by an engine that has a gradient.
    """

    def __init__(
        self,
        plan: Plan,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
        waves: Callable[[Plan, dict[Value, tf.Tensor], Limits], WaveRun],
    ):
        self.plan = plan
        self.graph = plan.graph
        self.shared = shared
        self.limits = limits
        self.waves = waves
        self.arguments: Tensors

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs the program."""
        self.arguments = arguments
        return self.run(arguments)

    def backward(
        self, given: Sequence[Sequence[tf.Tensor | None]], shared: dict[Value, tf.Tensor]
    ) -> Outcome:
        """Runs the program again, forward and backward; arguments as in `WaveRun.backward`.

        Raises:
            TraceError: the program may give different results when it runs again.
        """
        reason = unrepeatable(self.graph)
        if reason:
            raise TraceError(
                f"{self.limits.name} has no gradient with parallel_tokens, which runs it again for "
                f"its gradient: {reason}, or leave parallel_tokens out."
            )
        waves = self.waves(self.plan, self.shared, self.limits)
        waves.forward(self.arguments)
        return waves.backward(given, shared)

    @abstractmethod
    def run(self, arguments: Tensors) -> Outcome:
        """The forward run."""
