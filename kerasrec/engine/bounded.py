"""Runs any program with a bound on how many tokens run at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import tensorflow as tf

from kerasrec.engine.forward_only import ForwardOnly
from kerasrec.engine.limits import Limits
from kerasrec.engine.places import plan_places
from kerasrec.engine.plan import Plan
from kerasrec.engine.queues import QueueRun
from kerasrec.engine.results import Outcome, Tensors
from kerasrec.engine.wave_run import WaveRun
from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.values import Value


class BoundedRun(ForwardOnly):
    """One run of any program.

    Args:
        extended: plan of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth and width.
        waves: makes a run by the engine for its gradient.
        parallel_tokens: how many tokens may run at once.
    """

    def __init__(
        self,
        extended: Plan,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
        waves: Callable[[Plan, dict[Value, tf.Tensor], Limits], WaveRun],
        parallel_tokens: int,
    ):
        super().__init__(extended, shared, limits, waves)
        forward = plan_places(_forward_part(extended.graph), is_bounded=True)
        self._run = QueueRun(forward, shared, limits, parallel_tokens)

    def run(self, arguments: Tensors) -> Outcome:
        """Runs all tokens, at most `parallel_tokens` at once."""
        return self._run.forward(arguments)


def _forward_part(graph: TaggedGraph) -> TaggedGraph:
    """An extended graph without its gradient."""
    bodies = {name: replace(body, sweeps=body.sweeps[:1]) for name, body in graph.bodies.items()}
    sites = {label: replace(site, trips=site.trips[:1]) for label, site in graph.call_sites.items()}
    return TaggedGraph(bodies, graph.entry, sites, graph.shared)
