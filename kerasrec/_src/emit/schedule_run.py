"""The stage `emit`: from a schedule to stock TensorFlow ops."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.arrays import num_rows
from kerasrec._src.emit.control_flow import with_open_tokens
from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.registers import Registers
from kerasrec._src.emit.results import Given, Outcome, Tensors
from kerasrec._src.emit.run import Run
from kerasrec._src.emit.sums import Sums
from kerasrec._src.graph.fire import fire
from kerasrec._src.graph.graph import TaggedGraph, order_of
from kerasrec._src.graph.values import Value
from kerasrec._src.host import integers_on_host
from kerasrec._src.schedule.instructions import Fire
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop, Section


@dataclass(eq=False)
class ScheduleRun(Run):
    """One run of a schedule; all derivatives read the values that it keeps.

    Subclasses define how loops run, and `store`, where segments save values for each other.

    Args:
        schedule: The schedule to run.
        shared: The tensors of SHARED values.
        limits: The bounds on depth, width and memory.
    """

    schedule: Schedule
    shared: dict[Value, tf.Tensor]
    limits: Limits
    store: Any = field(init=False)

    @property
    def graph(self) -> TaggedGraph:
        """The program."""
        return self.schedule.graph

    def loop(self, loop: Loop, given: Tensors, sums: Sums) -> Tensors:
        """Runs a loop on values from the outside; returns its results for the outside."""
        raise NotImplementedError

    def registers(self, body: str) -> Registers:
        """Registers for all tokens of a body."""
        raise NotImplementedError

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0."""
        if not self.schedule.has_loops:
            self.limits.check_width(num_rows(arguments[0]))
        self.shared = with_prepared(self.shared, self.schedule.prepared_for([0]))
        sums = Sums()
        with integers_on_host(), _on_task_of(self.schedule):
            outputs = self._sweep(0, arguments, sums)
            return Outcome({0: outputs}, sums.tables())

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs all sweeps after the first, on a copy: it may be called several times."""
        run = copy.copy(self)
        run.store = self.store.copy()
        sweeps = range(1, 1 + len(given))
        run.shared = with_prepared(shared, self.schedule.prepared_for(sweeps))
        found = {}
        for index, tensors in enumerate(given, start=1):
            if order_of(index) != order_of(index - 1):
                sums = Sums()
            with integers_on_host(), _on_task_of(self.schedule):
                found[index] = run._sweep(index, tensors, sums)
        return Outcome(found, sums.gradients(shared))

    def _sweep(
        self, index: int, given: Sequence[tf.Tensor | None], sums: Sums
    ) -> list[tf.Tensor | None]:
        """Runs a sweep; returns its outputs for the outside, None for those without a gradient."""
        sweep = self.graph.bodies[self.graph.entry].sweeps[index]
        if self.schedule.has_loops:
            given = with_open_tokens(given)
        inside = [tensor for node, tensor in zip(sweep.parameters, given, strict=True) if node]
        found: Tensors = []
        for section in self.schedule.sections:
            if section.sweep != index:
                continue
            if isinstance(section, Loop):
                found = self.loop(section, inside, sums) or found
            else:
                found = self.all_tokens(section, inside, sums) or found
        if self.schedule.has_loops:
            found = with_open_tokens(found)
        outputs = iter(found)
        return [node and next(outputs) for node in sweep.outputs]

    def all_tokens(self, section: Section, given: Tensors, sums: Sums) -> Tensors:
        """Runs a section for all tokens; if there are no loops, returns results for the outside."""
        results: Tensors = []
        for segment in section.segments:
            if not segment.instructions:
                continue
            with tf.name_scope(f"stage_{section.stage}_hoisted"):
                registers = self.registers(segment.body)
                registers.given = given
                registers.run(segment.instructions)
                registers.reduce(sums)
                results += registers.results
        return results


def _on_task_of(schedule: Schedule) -> AbstractContextManager[object]:
    """The scope of the task, of a cluster, that the user chose for most ops of a program.

    A loop would be on the task that calls it. Then each of its turns would send a dozen messages:
    for each op on another task, and for whether that task goes on.
    """
    chosen = [tf.DeviceSpec.from_string(fire.node.device) for *_, fire in schedule.of(Fire)]
    tasks = Counter((spec.job, spec.replica, spec.task) for spec in chosen if spec.job)
    if not tasks:
        return nullcontext()
    ((job, replica, task), _), *_ = tasks.most_common(1)
    found: AbstractContextManager[object] = tf.device(
        tf.DeviceSpec(job=job, replica=replica, task=task)
    )
    return found


def tensor_of(value: Value, shared: Mapping[Value, tf.Tensor]) -> tf.Tensor:
    """The tensor of a SHARED value, which may be a constant."""
    return fire(value.node, [])[0] if value.node.is_constant else shared[value]


def with_prepared(
    shared: Mapping[Value, tf.Tensor], prepared: Iterable[Fire]
) -> dict[Value, tf.Tensor]:
    """Returns the tensors of SHARED values, with those prepared from them, computed in order."""
    tensors = dict(shared)
    for instruction in prepared:
        inputs = [tensor_of(value, tensors) for value in instruction.inputs]
        results = fire(instruction.node, inputs, has_gradient=False)
        tensors.update(zip(instruction.outputs, results, strict=True))
    return tensors
