"""The whole compiler in one function; docs/compiler.md follows a program through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.choice import EngineOptions
from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.instances import check_that_they_are_there
from kerasrec._src.engine.scheduled import Scheduled
from kerasrec._src.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec._src.options import Options
from kerasrec._src.private import op_callbacks
from kerasrec._src.schedule.build import build, build_blocks, forward_part
from kerasrec._src.schedule.passes import BLOCK_PASSES, Pass, default_passes, optimize
from kerasrec._src.schedule.passes.among_instances import among_instances
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.trace.program import trace
from kerasrec._src.trace.signature import Signature, Traceable
from kerasrec._src.transform.extend import extend
from kerasrec._src.transform.prune import prune
from kerasrec._src.transform.tag import tag


@dataclass(frozen=True)
class Compiled:
    """All stages of a function under one signature."""

    signature: Signature
    graphs: FunctionGraphs
    tagged: TaggedGraph
    program: Executable
    returns: Any


def compile_function(
    function: Traceable, signature: Signature, limits: Limits, options: Options
) -> Compiled:
    """Takes a function through all stages; each returns a value that can be printed."""
    engines = options.of_engines()
    if op_callbacks():  # Only waves run the ops that debugging tools add.
        engines.engine = "auto"
    # XLA gives other results for some numbers than TensorFlow's kernels, so each op must be seen.
    traced = trace(function, signature, for_blocks=engines.engine == "compiled")
    graphs = prune(traced.graphs)
    tagged = tag(graphs, bool(options.memo), options.memo == "batch")
    passes = default_passes(options.recompute)
    instances = tuple(options.instances)
    if instances:
        check_that_they_are_there(instances, tagged.entry)
        passes.append(partial(among_instances, devices=instances))
    program = lower(tagged, limits, engines, passes, recomputes=options.recompute)
    return Compiled(signature, graphs, tagged, program, traced.returns)


def lower(
    tagged: TaggedGraph,
    limits: Limits,
    options: EngineOptions,
    passes: Sequence[Pass] = (),
    by_queues: bool = False,
    recomputes: bool = False,
) -> Executable:
    """A tagged graph as a function of TensorFlow, with derivatives of any order.

    Args:
        tagged: the graph.
        limits: bounds on depth, width and memory.
        options: which engine is to run it, and how.
        passes: over the schedules.
        by_queues: whether a program of one round runs by queues, too, as those of several do.
        recomputes: whether the engine "compiled" keeps nothing for a gradient.
    """

    def derive(graph: TaggedGraph) -> Scheduled:
        """A graph with one derivative more; `Executable` asks for each when TensorFlow does."""
        extended = extend(graph)
        schedule = optimize(build(extended, by_queues), passes)
        return Scheduled(extended, schedule)

    def in_blocks(graph: TaggedGraph) -> tuple[Schedule, Schedule | None]:
        """Schedules of an extended graph that XLA compiles, with its gradient and without."""
        schedule = optimize(build_blocks(graph), BLOCK_PASSES)
        if not recomputes:
            return schedule, None
        return schedule, optimize(build_blocks(forward_part(graph)), BLOCK_PASSES)

    return Executable(derive(tagged), derive, in_blocks, limits, options)
