"""Chooses which engine runs a program, and says what may be faster on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, Tensors
from kerasrec._src.engine.scheduled import BoundedRun, Scheduled
from kerasrec._src.errors import TraceError
from kerasrec._src.frames.rows_xla.compiled_run import CompiledRun, RunWithinXla
from kerasrec._src.frames.rows_xla.memo_run import MemoCompiledRun
from kerasrec._src.frames.rows_xla.ops import obstacles as compiled_obstacles
from kerasrec._src.frames.rows_xla.room import Bounds
from kerasrec._src.frames.rows_xla.sizes import KnownSizes
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.ops.table import Is, has
from kerasrec._src.scalar.scalar_run import ScalarRun, gradient_obstacles, obstacles
from kerasrec._src.schedule.schedule import Schedule

InBlocks: TypeAlias = Callable[[TaggedGraph], tuple[Schedule, Schedule | None]]
"""A function that makes the schedule in blocks of an extended graph. The second schedule leaves out
the gradient; there is one if the gradient runs the values again instead of keeping them."""

Engine: TypeAlias = Literal["auto", "waves", "compiled", "scalar"]
ENGINES = get_args(Engine)

# TensorFlow divides even a small product among threads, and waits for all of them. On two cores,
# a TreeLSTM of 150 units trains faster with one thread for each op, and one of 300 units slower:
# its largest weights have 225,000 and 900,000 numbers.
_SMALL = 1 << 18
_THREADS = "TF_NUM_INTRAOP_THREADS"


@dataclass(kw_only=True, eq=False)
class EngineOptions:
    """The user's options for engines; see `kerasrec.recursive`."""

    engine: Engine = "auto"
    parallel_tokens: int | None = None
    xla_calls: int | tf.Tensor | None = None
    xla_row_length: int | tf.Tensor | None = None
    xla_entries: int | tf.Tensor | None = None
    max_xla_sizes: int = 32
    instances: Sequence[str] = ()


@dataclass(frozen=True)
class EngineChoice:
    """An engine, and why it was chosen.

    Args:
        name: "waves", "compiled" or "scalar".
        run: Makes a run from the tensors of SHARED values and the limits.
        reason: The reason for the choice, in words for the user.
        schedule: The schedule that the engine runs; for "scalar", the one that waves would run.
        known: The sizes for which XLA has compiled the program, if it compiles once for each size.
        advice: What may make the program faster on this machine; empty if nothing is known.
    """

    name: str
    run: Any
    reason: str
    schedule: Schedule
    known: KnownSizes | None = None
    advice: str = ""


def choose(program: Scheduled, in_blocks: InBlocks, options: EngineOptions) -> EngineChoice:
    """Chooses the engine for a program.

    Args:
        program: The program with its gradient.
        in_blocks: Returns the schedules by which "compiled" runs a graph.
        options: The user's options. "auto" chooses "scalar" for programs of plain numbers,
            unless they have `memo` or `instances`, or that engine cannot run their gradient.

    Raises:
        TraceError: If "scalar" or "compiled" is asked for and cannot run the program.
    """
    engine, parallel_tokens = options.engine, options.parallel_tokens
    if program.graph.memo:
        return _memo(program, in_blocks, options)
    if options.instances:
        reason = f"each divided among instances on {', '.join(options.instances)}"
        return EngineChoice("waves", program.run, reason, program.schedule)
    if engine == "compiled":
        return _compiled(program, in_blocks, options)
    reasons = obstacles(program.graph)
    if engine == "scalar" and reasons:
        raise TraceError(
            f"engine='scalar' cannot run this program: {reasons[0]}. Use engine='waves' or leave "
            "the choice to engine='auto'."
        )
    if _has_gradient(program.graph):
        reasons += gradient_obstacles(program.graph)
    if engine == "scalar" or (engine == "auto" and not reasons):
        reason = "one token at a time, compiled by XLA"
        return EngineChoice("scalar", partial(_scalar, program), reason, program.schedule)
    if parallel_tokens is not None:
        bounded = partial(BoundedRun, program, parallel_tokens)
        reason = f"at most {parallel_tokens:,} tokens at once"
        return EngineChoice("waves", bounded, reason, program.schedule)
    if engine == "waves":
        return EngineChoice("waves", program.run, "as the decorator says", program.schedule)
    faster = advice(program.graph, lambda: not _obstacles_of_compiled(program.graph, options))
    reason = f"because {reasons[0]}"
    return EngineChoice("waves", program.run, reason, program.schedule, advice=faster)


def choose_again(
    program: Scheduled, in_blocks: InBlocks, options: EngineOptions, first: EngineChoice
) -> EngineChoice:
    """Chooses the engine for a second or higher derivative.

    This is "compiled" if it runs the program with its gradient and can run this derivative, too.
    Otherwise it is "waves".

    Args:
        program: The program with all derivatives up to this one.
        in_blocks: As for `choose`.
        options: As for `choose`.
        first: The choice for the program with its gradient.
    """
    if first.name == "compiled" and not _obstacles_of_compiled(program.graph, options):
        return _compiled(program, in_blocks, options)
    return EngineChoice("waves", program.run, "as any second derivative", program.schedule)


def choose_within_xla(
    program: Scheduled, in_blocks: InBlocks, options: EngineOptions, order: int = 1
) -> EngineChoice:
    """Chooses the engine for a program inside of a larger one that XLA compiles as a whole.

    Args:
        program: The program with all derivatives up to some order.
        in_blocks: As for `choose`.
        options: As for `choose`.
        order: The order of the last derivative.

    Raises:
        TraceError: If XLA cannot run the program.
    """
    graph = program.graph
    reasons = _obstacles_of_compiled(graph, options)
    if graph.memo:
        reasons.insert(0, "it has memo=True, which looks calls up in a table of the host")
    outputs = graph.bodies[graph.entry].outputs
    if any(node.types[0].dtype == tf.bool for node in outputs):
        reasons.append("it returns a truth value, which could not say that a run has failed")
    if any(node.size is None for node in graph.collects):
        reasons.append("it collects a table without an index, which has any number of rows")
    if any(node.inputs[0].type.dtype == tf.bool for node in graph.collects):
        reasons.append("it collects truth values, which could not say that a run has failed")
    if reasons:
        what = "called" if order == 1 else f"differentiated {order} times"
        raise TraceError(
            f"{graph.entry} is {what} inside of what XLA compiles as a whole, such as "
            f"tf.function(jit_compile=True), and cannot be compiled: {reasons[0]}. Leave out "
            "jit_compile=True; in a layer, set self.supports_jit = False."
        )
    schedule, forward_only = in_blocks(graph)
    bounds = Bounds(options.xla_calls, options.xla_row_length, options.xla_entries)
    run = partial(RunWithinXla, schedule, forward_only, bounds)
    return EngineChoice("compiled", run, "in blocks, compiled by XLA with all around it", schedule)


def _memo(program: Scheduled, in_blocks: InBlocks, options: EngineOptions) -> EngineChoice:
    """Chooses the engine for a program with `memo`: it runs by level, in waves or in blocks."""
    if options.engine == "compiled":
        return _compiled(program, in_blocks, options)
    if options.engine == "scalar":
        raise TraceError(
            "engine='scalar' runs every call, and with memo=True equal calls are one. Use "
            "engine='waves' or 'compiled', or leave the choice to engine='auto'."
        )
    run, reason = program.run, "level by level, since memo=True makes equal calls one call"
    if options.parallel_tokens is not None:
        run = partial(program.run, parallel_tokens=options.parallel_tokens)
        reason += f"; at most {options.parallel_tokens:,} tokens at once"
    return EngineChoice("waves", run, reason, program.schedule)


def _obstacles_of_compiled(graph: TaggedGraph, options: EngineOptions) -> list[str]:
    reasons = compiled_obstacles(graph)
    sums = [node for body in graph.bodies.values() for node in body.accumulates]
    if graph.num_sweeps > 4 and any(len(node.inputs) > 1 for node in sums):
        reasons.append("its third derivative adds to rows of a table")
    if options.parallel_tokens is not None:
        reasons.insert(0, "parallel_tokens is a bound on waves")
    if options.instances:
        reasons.insert(0, "instances are parts of waves")
    return reasons


def _compiled(program: Scheduled, in_blocks: InBlocks, options: EngineOptions) -> EngineChoice:
    reasons = _obstacles_of_compiled(program.graph, options)
    if reasons:
        raise TraceError(
            f"engine='compiled' cannot run this program: {reasons[0]}. Use engine='waves' or leave "
            "the choice to engine='auto'."
        )
    schedule, forward_only = in_blocks(program.graph)
    known = KnownSizes(options.max_xla_sizes)
    given = schedule, forward_only, program.run, known
    run: Any = partial(CompiledRun, *given)
    reason = "in blocks, compiled by XLA"
    if program.graph.memo and program.graph.inner_sites:
        run = partial(MemoCompiledRun, program.schedule, *given)
        reason = f"level by level, {reason}"
    return EngineChoice("compiled", run, reason, schedule, known)


def _scalar(program: Scheduled, shared: dict[Value, tf.Tensor], limits: Limits) -> ScalarRun:
    """Makes a run by the scalar engine; waves run the gradients that it cannot run."""

    def backward(arguments: Tensors, given: Given, of_gradient: dict[Value, tf.Tensor]) -> Outcome:
        run = program.run(shared, limits)
        run.forward(arguments)
        return run.backward(given, of_gradient)

    return ScalarRun(program.graph, shared, limits, backward)


def _has_gradient(graph: TaggedGraph) -> bool:
    sweep = graph.bodies[graph.entry].sweeps[1]
    sinks = [node for body in graph.bodies.values() for node in body.accumulates]
    return any(sweep.parameters) and (any(sweep.outputs) or bool(sinks))


def advice(graph: TaggedGraph, is_compilable: Callable[[], bool]) -> str:
    """Returns what may make a program faster on this machine; empty if nothing is known.

    Args:
        graph: The program.
        is_compilable: Returns whether the engine "compiled" can run it.
    """
    if host.has_gpu():
        faster = "on a GPU, engine='compiled' is faster once XLA has compiled it"
        return faster if is_compilable() else ""
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
