"""Runs any program with a bound on how many tokens run at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tensorflow as tf

from kerasrec.engine.by_waves import ByWaves
from kerasrec.engine.places import plan_places
from kerasrec.engine.queues import QueueRun
from kerasrec.errors import TraceError
from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.values import Value
from kerasrec.transform.recompute import unrepeatable
from kerasrec.waves.limits import Limits
from kerasrec.waves.results import Outcome, Tensors


class BoundedRun:
    """One run of any program; its gradient, if it is asked for, runs the program again, unbounded.

    Args:
        waves: the program.
        parallel_tokens: how many tokens may run at once.
        shared: tensors of SHARED values.
        limits: bounds on depth and width.
    """

    def __init__(
        self,
        waves: ByWaves,
        parallel_tokens: int,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
    ):
        self.waves = waves
        self.shared = shared
        self.limits = limits
        plan = plan_places(_forward_part(waves.graph), is_bounded=True)
        self._run = QueueRun(plan, shared, limits, parallel_tokens)
        self._arguments: Tensors

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs all tokens, at most `parallel_tokens` at once."""
        self._arguments = arguments
        return self._run.forward(arguments)

    def backward(
        self, given: Sequence[Sequence[tf.Tensor | None]], shared: dict[Value, tf.Tensor]
    ) -> Outcome:
        """Runs the program again, forward and backward; arguments as in `QueueRun.backward`.

        Raises:
            TraceError: the program may give different results when it runs again.
        """
        reason = unrepeatable(self.waves.graph)
        if reason:
            raise TraceError(
                f"{self.limits.name} has no gradient with parallel_tokens, which runs it again for "
                f"its gradient: {reason}, or leave parallel_tokens out."
            )
        run = self.waves.run(self.shared, self.limits)
        run.forward(self._arguments)
        return run.backward(given, shared)


def _forward_part(graph: TaggedGraph) -> TaggedGraph:
    """An extended graph without its gradient."""
    bodies = {name: replace(body, sweeps=body.sweeps[:1]) for name, body in graph.bodies.items()}
    sites = {label: replace(site, trips=site.trips[:1]) for label, site in graph.call_sites.items()}
    return TaggedGraph(bodies, graph.entry, sites, graph.shared)
