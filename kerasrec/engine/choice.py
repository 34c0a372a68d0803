"""Which engine runs a program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import tensorflow as tf

from kerasrec.engine.bounded import BoundedRun
from kerasrec.engine.levels import LevelRun
from kerasrec.engine.limits import Limits
from kerasrec.engine.once import OnceRun
from kerasrec.engine.plan import Plan
from kerasrec.engine.queues import QueueRun
from kerasrec.engine.results import Outcome, Tensors
from kerasrec.errors import TraceError
from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.values import Value
from kerasrec.scalar.run import Given, ScalarRun, gradient_obstacles, obstacles

Engine: TypeAlias = Literal["auto", "waves", "scalar"]
ENGINES = get_args(Engine)


@dataclass(frozen=True)
class Choice:
    """An engine, and why it was chosen.

    Args:
        name: "waves" or "scalar".
        run: makes a run of (plan, tensors of shared values, limits).
        reason: in words for the user.
    """

    name: str
    run: Any
    reason: str

    def __str__(self) -> str:
        return f"engine: {self.name}, {self.reason}"


def choose(plan: Plan, engine: str, parallel_tokens: int | None = None) -> Choice:
    """The engine for a program.

    Args:
        plan: of the program.
        engine: what the user asks for, one of `ENGINES`. "auto" takes "scalar" for programs of
          plain numbers.
        parallel_tokens: how many tokens may run at once, if the user says so.

    Raises:
        TraceError: "scalar" is asked for and cannot run the program.
    """
    found = obstacles(plan.graph)
    if engine == "scalar" and found:
        raise TraceError(
            f"engine='scalar' cannot run this program: {found[0]}. Use engine='waves' or leave the "
            "choice to engine='auto'."
        )
    waves = waves_for(plan)
    if _has_gradient(plan.graph):
        found += gradient_obstacles(plan.graph)
    if engine == "scalar" or (engine == "auto" and not found):
        return Choice("scalar", partial(_scalar, waves), "one token at a time, compiled by XLA")
    if parallel_tokens is not None:
        bounded = partial(BoundedRun, waves=waves, parallel_tokens=parallel_tokens)
        return Choice("waves", bounded, f"at most {parallel_tokens:,} tokens at once")
    reason = "as the decorator says" if engine == "waves" else f"because {found[0]}"
    return Choice("waves", waves, reason)


def _scalar(waves: Any, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits) -> ScalarRun:
    """A run by the scalar engine; gradients that it cannot run are left to an engine of waves."""

    def backward(arguments: Tensors, given: Given, of_gradient: dict[Value, tf.Tensor]) -> Outcome:
        run = waves(plan, shared, limits)
        run.forward(arguments)
        return run.backward(given, of_gradient)

    return ScalarRun(plan.graph, shared, limits, backward)


def waves_for(plan: Plan) -> Any:
    """The engine that runs a program by waves, and all of its derivatives."""
    if not plan.is_linear:
        return QueueRun
    return OnceRun if plan.calls_nobody else LevelRun


def _has_gradient(graph: TaggedGraph) -> bool:
    sweep = graph.bodies[graph.entry].sweeps[1]
    sinks = [node for body in graph.bodies.values() for node in body.accumulates]
    return any(sweep.parameters) and (any(sweep.outputs) or bool(sinks))
