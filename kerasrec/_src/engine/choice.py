"""Chooses which engine runs a program, and advises on changes for more speed on this machine."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.emit.run import Run
from kerasrec._src.engine.program import Program, SharedTensors
from kerasrec._src.errors import TraceError
from kerasrec._src.frames.rows_xla.ops import EQUAL_CALLS_ARE_ONE
from kerasrec._src.frames.rows_xla.ops import obstacles as compiled_obstacles
from kerasrec._src.frames.rows_xla.sizes import KnownSizes
from kerasrec._src.graph.graph import TaggedGraph, order_of
from kerasrec._src.ops.table import Is, has
from kerasrec._src.scalar.scalar_run import gradient_obstacles, obstacles
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.stages import needs_queues

# TensorFlow divides even a small product among threads, and waits for all of them. On two cores,
# a TreeLSTM of 150 units trains faster with one thread for each op, and one of 300 units slower:
# its largest weights have 225,000 and 900,000 numbers.
_SMALL = 1 << 18
_THREADS = "TF_NUM_INTRAOP_THREADS"


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """How a recursive function runs for some signature; it prints.

    Args:
        engine: The engine: "waves", "compiled" or "scalar".
        reason: Why this engine runs the program.
        program: The program.
        run: Makes a run from the tensors of SHARED values.
        advice: A change that may make it faster on this machine; empty if nothing is known, or if
          you chose the engine.
        known: The sizes for which XLA has compiled the program, if it compiles once for each size.
    """

    engine: str
    reason: str
    program: Program
    run: Callable[[SharedTensors], Run]
    advice: str = ""
    known: KnownSizes | None = None

    @property
    def schedule(self) -> Schedule:
        """The order of the ops, their tokens, and the values kept for the gradient.

        For "scalar", it is how waves would run it.
        """
        return self.program.blocks if self.engine == "compiled" else self.program.schedule

    @property
    def summary(self) -> str:
        """Engine, reason and advice, in one line."""
        advice = f"; {self.advice}" if self.advice else ""
        return f"engine: {self.engine}, {self.reason}{advice}"

    def __str__(self) -> str:
        return f"{self.summary}\n\n{self.schedule}"

    def __repr__(self) -> str:
        return f"<ExecutionPlan, {self.summary}; print() shows it>"

    def _repr_html_(self) -> str:
        """The printed plan, for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"


def choose(program: Program) -> ExecutionPlan:
    """Chooses the engine for a program.

    "auto" chooses "scalar" for programs of plain numbers, unless they have `memo` or `devices`,
    or that engine cannot run their gradient. Second and higher derivatives run by "compiled" if the
    user asks for it and it can run them, and otherwise in "waves".

    Raises:
        TraceError: If "scalar" or "compiled" is asked for and cannot run the program with its
            gradient.
    """
    graph, options = program.graph, program.options
    engine, bound = options.engine, options.parallel_tokens
    is_higher = graph.num_sweeps > 2
    if engine == "compiled" and not (is_higher and _obstacles_of_compiled(program)):
        return _compiled(program)
    if is_higher:
        return ExecutionPlan("waves", "as any second derivative", program, program.wave_run)
    run = program.wave_run if bound is None else program.bounded_run
    in_waves = partial(ExecutionPlan, "waves", program=program, run=run)
    at_most = "" if bound is None else f"at most {bound:,} tokens at once"
    if graph.memo:
        if engine == "scalar":
            raise TraceError(
                "engine='scalar' runs every call, and with memo=True equal calls are one. Use "
                "engine='waves' or 'compiled', or leave the choice to engine='auto'."
            )
        in_queues = program.schedule.in_queues
        order = "in queues" if in_queues else "level by level"
        reason = f"{order}, since memo=True makes equal calls one call"
        if not (in_queues or graph.may_share_calls):
            reason = "wave by wave: each call makes at most one call, so no calls can be equal"
        return in_waves("; ".join(filter(None, [reason, at_most])))
    if options.devices:
        return in_waves(f"each divided among {', '.join(options.devices)}")
    reasons = obstacles(graph)
    if engine == "scalar" and reasons:
        raise _cannot_run(engine, reasons)
    if _has_gradient(graph):
        reasons += gradient_obstacles(graph)
    if engine == "scalar" or (engine == "auto" and not reasons):
        reason = "one token at a time, compiled by XLA"
        return ExecutionPlan("scalar", reason, program, program.scalar_run)
    if at_most or engine == "waves":
        return in_waves(at_most or "as the decorator requests")
    return in_waves(f"because {reasons[0]}", advice=_advice(program))


def choose_within_xla(program: Program) -> ExecutionPlan:
    """Chooses the engine for a program inside of a larger one that XLA compiles as a whole.

    Raises:
        TraceError: If XLA cannot run the program, or it has no such derivative.
    """
    graph, order = program.graph, order_of(program.graph.num_sweeps - 1)
    if order > 1 and graph.obstacles:
        raise TraceError(graph.obstacles[0])
    reasons = _obstacles_of_compiled(program)
    if graph.memo:
        reasons.insert(0, f"{EQUAL_CALLS_ARE_ONE}, which looks calls up in a table of the host")
    outputs = graph.bodies[graph.entry].outputs
    if any(node.types[0].dtype == tf.bool for node in outputs):
        reasons.append("it returns a truth value, which could not mark a failed run")
    if any(node.size is None for node in graph.collects):
        reasons.append("it collects values without an index, which have any number of rows")
    if any(node.inputs[0].type.dtype == tf.bool for node in graph.collects):
        reasons.append("it collects truth values, which could not mark a failed run")
    if reasons:
        what = "called" if order == 1 else f"differentiated {order} times"
        raise TraceError(
            f"{graph.entry} is {what} inside a larger program that XLA compiles, such as "
            f"tf.function(jit_compile=True), and cannot be compiled: {reasons[0]}. Leave out "
            "jit_compile=True; in a layer, set self.supports_jit = False."
        )
    reason = "in blocks, compiled by XLA with all around it"
    return ExecutionPlan("compiled", reason, program, program.run_within_xla)


def _compiled(program: Program) -> ExecutionPlan:
    reasons = _obstacles_of_compiled(program)
    if reasons:
        raise _cannot_run("compiled", reasons)
    known = KnownSizes(program.options.max_xla_sizes)
    by_level = "level by level, " if program.graph.memo and program.graph.inner_sites else ""
    reason = f"{by_level}in blocks, compiled by XLA"
    return ExecutionPlan(
        "compiled", reason, program, partial(program.compiled_run, known), known=known
    )


def _obstacles_of_compiled(program: Program) -> list[str]:
    graph, options = program.graph, program.options
    reasons = compiled_obstacles(graph)
    sums = [node for body in graph.bodies.values() for node in body.accumulates]
    if graph.num_sweeps > 4 and any(len(node.inputs) > 1 for node in sums):
        reasons.append("its third derivative adds to rows of a table")
    if options.parallel_tokens is not None:
        reasons.insert(0, "parallel_tokens is a bound on waves")
    if options.devices:
        reasons.insert(0, "devices compute parts of waves")
    return reasons


def _cannot_run(engine: str, reasons: list[str]) -> TraceError:
    return TraceError(
        f"engine={engine!r} cannot run this program: {reasons[0]}. Use engine='waves' or leave "
        "the choice to engine='auto'."
    )


def _has_gradient(graph: TaggedGraph) -> bool:
    sweep = graph.bodies[graph.entry].sweeps[1]
    sinks = [node for body in graph.bodies.values() for node in body.accumulates]
    return any(sweep.parameters) and (any(sweep.outputs) or bool(sinks))


def _advice(program: Program) -> str:
    """Returns what may make a program faster on this machine; empty if nothing is known.

    Each compilation by XLA takes seconds, the time of hundreds of calls of a program of several
    rounds, so "auto" does not choose "compiled" for it.
    """
    graph = program.graph
    if host.has_gpu():
        faster = "on a GPU, engine='compiled' is faster once XLA has compiled it"
        return "" if _obstacles_of_compiled(program) else faster
    if needs_queues(graph) and not _obstacles_of_compiled(program):
        return (
            "it makes its calls in several rounds, so for few root tokens engine='compiled' is "
            "faster once XLA has compiled it, which takes seconds for each size"
        )
    is_chosen = tf.config.threading.get_intra_op_parallelism_threads() or _THREADS in os.environ
    if is_chosen or (os.cpu_count() or 1) == 1 or not 0 < _largest_weight(graph) <= _SMALL:
        return ""
    return f"its products are small, so {_THREADS}=1 in the environment may make it faster"


def _largest_weight(graph: TaggedGraph) -> int:
    """The number of numbers in the largest SHARED factor of a product; 0 if there is none."""
    sizes = [
        value.type.tensor_shape().num_elements() or 0
        for body in graph.bodies.values()
        for node in body.nodes
        if has(node.op, Is.PRODUCT)
        for value in node.inputs
        if value.is_shared
    ]
    return max(sizes, default=0)
