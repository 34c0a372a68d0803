"""Runs a schedule whose waves form a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.schedule_run import ScheduleRun
from kerasrec._src.emit.sums import Sums
from kerasrec._src.graph.values import Region
from kerasrec._src.schedule.instructions import TokenCount
from kerasrec._src.schedule.loads_and_saves import with_loads_and_saves
from kerasrec._src.schedule.sections import Loop, Section
from kerasrec._src.waves.call_path import call_path
from kerasrec._src.waves.loops import LoopRun, WaveState
from kerasrec._src.waves.store import WaveRegisters, WaveStore


@dataclass(eq=False)
class WaveRun(ScheduleRun):
    """One run of a schedule, wave by wave; the arguments are those of `ScheduleRun`."""

    def __post_init__(self) -> None:
        self.store = WaveStore()
        self.num_waves: tf.Tensor | None = None
        self._end: WaveState | None = None

    def loop(self, loop: Loop, given: Tensors, sums: Sums) -> Tensors:
        """Runs a loop over waves; only a loop that goes up returns values."""
        run = self.loop_run(loop)
        self._end = run.run(given, sums)
        return run.results(self._end)

    def loop_run(self, loop: Loop) -> LoopRun:
        """Returns what runs a loop."""
        return LoopRun(self.schedule, loop, self.shared, self.limits, self.store, self.num_waves)

    def all_tokens(self, section: Section, given: Tensors, sums: Sums) -> Tensors:
        """Runs a section for all tokens; after the first loop, the number of waves is known."""
        found = super().all_tokens(section, given, sums)
        if self._end is not None and self.num_waves is None:
            self._check_limits(self._end)
        return found

    def recording(self) -> WaveRun:
        """Returns the same run, which also records the number of tokens in each region."""
        return type(self)(
            with_loads_and_saves(self.schedule, saves_sizes=True), self.shared, self.limits
        )

    def registers(self, body: str) -> WaveRegisters:
        """Registers for the tokens of all waves."""
        return WaveRegisters(self.graph, body, self.shared, self.store, None)

    def _check_limits(self, end: WaveState) -> None:
        """Fails if the first loop was stopped; later loops wait for this check."""
        (memory,) = end.bytes_kept
        bounded = end.wave, end.width, memory
        check = self.limits.check(self.graph, *bounded, **self._describes_call(end))
        with tf.control_dependencies([check]):
            self.num_waves = tf.identity(end.wave)

    def _describes_call(self, end: WaveState) -> dict[str, Callable[[], tf.Tensor]]:
        """The description of a call that the first loop did not make; see `Limits.check`."""
        return {"tag": partial(call_path, self.graph, self.store, end.wave, end.carry)}

    def notes(self) -> tf.Tensor:
        """The steps of `forward` in order: int32 `[steps, 3]`, each (stage, wave, depth)."""
        if self.num_waves is None:
            return tf.constant([[0, 0, 0]])
        waves = tf.range(self.num_waves)
        down = tf.stack([tf.zeros_like(waves), waves, waves], 1)
        up = tf.stack([tf.ones_like(waves), waves[::-1], waves[::-1]], 1)
        return tf.concat([down, up], 0)

    def sizes(self) -> dict[Region | str, tf.Tensor]:
        """The numbers of tokens in the waves, int32 `[waves]` by name of a body and by regions."""
        found: dict[Region | str, tf.Tensor] = {}
        for section, segment, instruction in self.schedule.instructions():
            for item in instruction.writes:
                if isinstance(item, Region) and not section.sweep:
                    found[item] = self.store.sizes(TokenCount(segment.body, item))
        for name in self.graph.bodies:
            found[name] = self.store.sizes(TokenCount(name))
        return found
