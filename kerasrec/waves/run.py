"""The stage `emit`: a schedule to stock TensorFlow ops, run wave by wave."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import partial

import tensorflow as tf

from kerasrec.graph.fire import fire
from kerasrec.graph.graph import order_of
from kerasrec.graph.values import Region, Value
from kerasrec.schedule.instructions import Direction, Loop, Section, Tokens
from kerasrec.schedule.schedule import Schedule
from kerasrec.waves.barriers import with_open_tokens
from kerasrec.waves.call_path import call_path
from kerasrec.waves.limits import Limits
from kerasrec.waves.loops import LoopRun, State
from kerasrec.waves.registers import Registers
from kerasrec.waves.results import Outcome, Tensors
from kerasrec.waves.store import WaveStore
from kerasrec.waves.sums import Sums


class ScheduleRun:
    """One run of a schedule; what it keeps serves all derivatives.

    Args:
        schedule: what to run.
        shared: tensors of SHARED values.
        limits: bounds on depth, width and memory.
    """

    def __init__(self, schedule: Schedule, shared: dict[Value, tf.Tensor], limits: Limits):
        self.schedule = schedule
        self.graph = schedule.graph
        self.limits = limits
        self.shared = shared
        self.store = WaveStore()
        self.num_waves: tf.Tensor | None = None

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0 on flat arguments, `[tokens, ...]` each."""
        run = self._with_shared(self.shared, [0])
        if not self.schedule.has_loops:
            self.limits.check_width(tf.shape(arguments[0])[0])
        sums = Sums()
        outputs = run._sweep(0, arguments, sums)
        self.store, self.num_waves = run.store, run.num_waves
        return Outcome({0: outputs}, sums.tables())

    def backward(
        self, given: Sequence[Sequence[tf.Tensor | None]], shared: dict[Value, tf.Tensor]
    ) -> Outcome:
        """Runs all sweeps after the first; may be called several times after `forward`.

        Args:
            given: for each of these sweeps, what comes in from outside: cotangents of flat outputs
              of an earlier sweep; anything for those without a gradient.
            shared: tensors of SHARED values, including the cotangents of sums over all tokens.
        """
        run = self._with_shared(shared, range(1, 1 + len(given)))
        found = {}
        for index, tensors in enumerate(given, start=1):
            if order_of(index) != order_of(index - 1):
                sums = Sums()
            found[index] = run._sweep(index, tensors, sums)
        return Outcome(found, sums.gradients(shared))

    def _with_shared(self, shared: dict[Value, tf.Tensor], sweeps: Iterable[int]) -> ScheduleRun:
        """A run that goes on from this one, with what all tokens share in some sweeps."""
        run = copy.copy(self)
        run.store = self.store.copy()
        run.shared = dict(shared)
        for one in self.schedule.prepared_for(sweeps):
            inputs = [
                fire(value.node, [])[0] if value.node.op == "Const" else run.shared[value]
                for value in one.inputs
            ]
            tensors = fire(one.node, inputs, has_gradient=False)
            run.shared.update(zip(one.outputs, tensors, strict=True))
        return run

    def _sweep(
        self, index: int, given: Sequence[tf.Tensor | None], sums: Sums
    ) -> list[tf.Tensor | None]:
        """Runs a sweep; returns its outputs for the outside, None for those without a gradient."""
        sweep = self.graph.bodies[self.graph.entry].sweeps[index]
        if self.schedule.has_loops:
            given = with_open_tokens(given)
        inside = [tensor for node, tensor in zip(sweep.parameters, given, strict=True) if node]
        found: Tensors = []
        end: State | None = None
        for section in self.schedule.sections:
            if section.sweep != index:
                continue
            if not isinstance(section, Loop):
                found = self._all_tokens(section, inside, sums) or found
                if end is not None and self.num_waves is None:
                    self._check_limits(end)
                continue
            end = self._loop(section, inside, sums)
            if section.direction is Direction.UP:
                found = end.carry[self.graph.entry]
        if self.schedule.has_loops:
            found = with_open_tokens(found)
        outputs = iter(found)
        return [node and next(outputs) for node in sweep.outputs]

    def _all_tokens(self, section: Section, given: Tensors, sums: Sums) -> Tensors:
        """Runs a section for all tokens; what it returns to the outside, if there are no loops."""
        results: Tensors = []
        for segment in section.segments:
            with tf.name_scope(f"stage_{section.stage}_hoisted"):
                registers = self._registers(segment.body, None)
                registers.given = given
                registers.run(segment.instructions)
                registers.reduce(sums)
                results += registers.results
        return results

    def _registers(self, body: str, wave: tf.Tensor | None) -> Registers:
        meaning = self.graph.meaning_of_labels
        return Registers(body, self.shared, self.store, wave, meaning)

    def _loop(self, loop: Loop, given: Tensors, sums: Sums) -> State:
        bytes_kept = {name: self.schedule.bytes_kept(name) for name in self.graph.bodies}
        run = LoopRun(
            self.graph, loop, self.store, self._registers, self.num_waves, self._goes_on, bytes_kept
        )
        return run.run(None if loop.direction is Direction.UP else given, sums)

    def _goes_on(self, state: State) -> tf.Tensor:
        waiting = state.width
        return (waiting > 0) & self.limits.allow(state.wave, waiting, *state.memory)

    def _check_limits(self, end: State) -> None:
        """Fails where the first loop was stopped; later loops wait for that."""
        tag = partial(call_path, self.graph, self.store, end.wave, end.carry)
        (memory,) = end.memory
        check = self.limits.check(self.graph, end.wave, end.width, memory, tag)
        with tf.control_dependencies([check]):
            self.num_waves = tf.identity(end.wave)

    def notes(self) -> tf.Tensor:
        """What `forward` ran, in order: int32 `[steps, 3]`, each (stage, wave, depth)."""
        if self.num_waves is None:
            return tf.constant([[0, 0, 0], [1, 0, 0]])
        waves = tf.range(self.num_waves)
        down = tf.stack([tf.zeros_like(waves), waves, waves], 1)
        up = tf.stack([tf.ones_like(waves), waves[::-1], waves[::-1]], 1)
        return tf.concat([down, up], 0)

    def sizes(self) -> dict[Region | str, tf.Tensor]:
        """How many tokens each wave has, int32 `[waves]` by the name of a body and by regions.

        The schedule must save them.
        """
        found: dict[Region | str, tf.Tensor] = {}
        for section, segment, one in self.schedule.instructions():
            for item in one.writes:
                if isinstance(item, Region) and not section.sweep:
                    found[item] = self.store.sizes(Tokens(segment.body, item))
        for name in self.graph.bodies:
            found[name] = self.store.sizes(Tokens(name))
        return found
