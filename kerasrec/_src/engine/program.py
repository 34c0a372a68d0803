"""A program with its derivatives up to some order: its schedules, and its runs by each engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.run import Run, RunAgain
from kerasrec._src.errors import TraceError
from kerasrec._src.frames.rows_tf.memo_run import MemoQueueRun
from kerasrec._src.frames.rows_tf.queue_run import QueueRun
from kerasrec._src.frames.rows_xla.compiled_run import CompiledRun, RunWithinXla
from kerasrec._src.frames.rows_xla.memo_run import MemoCompiledRun
from kerasrec._src.frames.rows_xla.sizes import KnownSizes
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.memo.memo_run import LineRun, MemoRun
from kerasrec._src.options import Options
from kerasrec._src.scalar.scalar_run import ScalarRun, gradient_obstacles
from kerasrec._src.schedule.build import build, build_blocks, build_bounded, forward_part
from kerasrec._src.schedule.passes import BLOCK_PASSES, Pass, optimize
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.transform.extend import extend
from kerasrec._src.transform.recompute import unrepeatable
from kerasrec._src.waves.wave_run import WaveRun

SharedTensors: TypeAlias = dict[Value, tf.Tensor]
"""The tensors of SHARED values."""


@dataclass(frozen=True, eq=False)
class Program:
    """A program with its derivatives up to some order.

    Methods that take the tensors of SHARED values make a run of it.

    Args:
        graph: The graph, extended once for each order.
        limits: The bounds on depth, width and memory.
        options: The user's options.
        passes: The passes over its schedule in waves.
        by_queues: Whether a program of one round also runs in queues, as those of several do.
    """

    graph: TaggedGraph
    limits: Limits
    options: Options
    passes: Sequence[Pass] = ()
    by_queues: bool = False

    def __post_init__(self) -> None:
        if self.graph.memo:
            _ = self.schedule  # Building it raises errors for users.

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule in waves, or in queues of TensorFlow's kernels."""
        return optimize(build(self.graph, self.by_queues), self.passes)

    @cached_property
    def blocks(self) -> Schedule:
        """The schedule in blocks, which XLA compiles."""
        return optimize(build_blocks(self.graph), BLOCK_PASSES)

    @cached_property
    def blocks_of_values(self) -> Schedule:
        """The schedule in blocks, without the gradient."""
        return optimize(build_blocks(forward_part(self.graph)), BLOCK_PASSES)

    def extended(self) -> Program:
        """Returns the program with one more derivative."""
        return replace(self, graph=extend(self.graph))

    def wave_run(self, shared: SharedTensors) -> QueueRun | WaveRun:
        """All tokens that are ready run at once, by stock TensorFlow ops."""
        state, in_queues = (self.schedule, shared, self.limits), self.schedule.in_queues
        if self.graph.memo and in_queues:
            return MemoQueueRun(*state)
        if self.graph.memo:
            return (MemoRun if self.graph.may_share_calls else LineRun)(*state)
        return (QueueRun if in_queues else WaveRun)(*state)

    def bounded_run(self, shared: SharedTensors) -> Run:
        """At most `parallel_tokens` tokens run at once; a gradient runs all again, unbounded.

        Raises:
            TraceError: If there is a gradient, and the program may give other results when it runs
                again.
        """
        bound = self.options.parallel_tokens
        if self.graph.memo:
            machine = MemoQueueRun if self.schedule.in_queues else MemoRun
            return machine(self.schedule, shared, self.limits, parallel_tokens=bound)

        def again() -> Run:
            reason = unrepeatable(self.graph, in_other_waves=True)
            if reason:
                raise TraceError(
                    f"{self.limits.name} has no gradient with parallel_tokens, which runs it again "
                    f"for its gradient: {reason}, or leave parallel_tokens out."
                )
            return self.wave_run(shared)

        values = QueueRun(build_bounded(self.graph), shared, self.limits, bound)
        return RunAgain(values, again)

    def scalar_run(self, shared: SharedTensors) -> Run:
        """One token after the other, on numbers; waves run a gradient that numbers cannot."""
        run = ScalarRun(self.graph, shared, self.limits)
        if not gradient_obstacles(self.graph):
            return run
        return RunAgain(run, lambda: self.wave_run(shared))

    def compiled_run(self, known: KnownSizes, shared: SharedTensors) -> Run:
        """In blocks, by programs that XLA compiles for each size; `known` counts the sizes."""

        def run(schedule: Schedule, keeps: bool) -> Run:
            finds_calls = self.graph.memo and self.graph.inner_sites
            machine = MemoCompiledRun if finds_calls else CompiledRun
            return machine(schedule, keeps, self.wave_run, known, shared, self.limits)

        return self._compiled(run)

    def run_within_xla(self, shared: SharedTensors) -> Run:
        """In blocks, inside of a larger program that XLA compiles as a whole."""
        given = self.options, shared, self.limits
        return self._compiled(lambda schedule, keeps: RunWithinXla(schedule, keeps, *given))

    def _compiled(self, run: Callable[[Schedule, bool], Run]) -> Run:
        """With `recompute`, values keep nothing, and the gradient runs them again.

        Args:
            run: Makes a run of a schedule in blocks, given whether it keeps values for a gradient.
        """
        if not self.options.recompute:
            return run(self.blocks, True)
        return RunAgain(run(self.blocks_of_values, False), lambda: run(self.blocks, True))
