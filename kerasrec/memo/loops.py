"""A loop of a schedule over the levels of a program in which equal calls are one call."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec.emit.results import Tensors
from kerasrec.emit.sums import Sums
from kerasrec.memo.calls import groups_of
from kerasrec.memo.plan import Plan
from kerasrec.schedule.instructions import Returned
from kerasrec.schedule.linkage import Together
from kerasrec.schedule.sections import Direction
from kerasrec.waves.loops import Carry, LoopRun, State
from kerasrec.waves.registers import WaveRegisters


@dataclass
class LevelLoop(LoopRun):
    """Runs a loop, level by level. What it carries from level to level are the rows that are live.

    Args:
        plan: when each call runs; further arguments as for `LoopRun`.
    """

    plan: Plan

    def run(self, given: Tensors | None, sums: Sums) -> State:
        """Runs it; arguments as for `LoopRun`. Of the state at its end, the outside reads rows."""
        end = super().run(given, sums)
        if self._is_up:
            entry = self.graph.entry
            rows = [
                tf.gather(tensor, self.plan.rows_of_roots(self.graph))
                for tensor in end.carry[entry]
            ]
            end = end._replace(carry={**end.carry, entry: rows})
        return end

    @property
    def _is_first(self) -> bool:
        return False

    @property
    def _reads_arguments(self) -> bool:
        return self.loop.direction is Direction.CALLS

    def _first_carry(self, carry: Carry, given: Tensors | None) -> Carry:
        if self._reads_arguments:
            return {}
        if given is None:
            return carry
        entry = self.graph.entry
        num_live = self.plan.num_live[entry] * self.plan.copies
        places = self.plan.rows_of_roots(self.graph)
        rows = [tf.math.unsorted_segment_sum(item, places, num_live) for item in given]
        return {**carry, entry: rows}

    def _give(self, found: dict[str, WaveRegisters], state: State) -> Carry:
        """Hands a level what is passed to it, and goes back to what was live before it."""
        wave = state.wave
        if self._reads_arguments:
            for name, registers in found.items():
                registers.given = self.plan.arguments_of(self.graph, name, wave)
            return {}
        before = {}
        for name, tensors in state.carry.items():
            here, live = self.plan.size(name, wave), self.plan.num_live_before(name, wave)
            kept = self.plan.rows_kept(name, wave)
            rows = [tf.math.unsorted_segment_sum(item, kept, here + live) for item in tensors]
            found[name].given = [item[:here] for item in rows]
            before[name] = [item[here:] for item in rows]
        return before

    def _passed_on(self, found: dict[str, WaveRegisters], before: Carry, state: State) -> Carry:
        """What is live before a level, with what the level passes to it added up."""
        if self._reads_arguments:
            return {}
        sent = {
            one.sites: tensors
            for registers in found.values()
            for one, tensors in registers.sent.items()
        }
        for group, tensors in sent.items():
            callee = group[0].callee
            rows = self.plan.rows_read(group, state.wave)
            before[callee] = [
                whole + tf.math.unsorted_segment_sum(item, rows, tf.shape(whole)[0])
                for whole, item in zip(before[callee], tensors, strict=True)
            ]
        return before

    def _hand_back(self, found: dict[str, WaveRegisters], state: State) -> None:
        """Gives calls what they read of the rows that are live."""
        returned: dict[Together, tuple[WaveRegisters, Returned]] = {
            one.sites: (found[name], one) for name, one in self._all(Returned)
        }
        for group in groups_of(self.graph):
            rows = self.plan.rows_read(group, state.wave)
            registers, one = returned[group]
            tensors = state.carry[group[0].callee]
            registers.returns[one] = [tf.gather(tensor, rows) for tensor in tensors]

    def _returned(self, found: dict[str, WaveRegisters], state: State) -> Carry:
        """The rows that are live when a level has returned."""
        after = {}
        for name, registers in found.items():
            kept = self.plan.rows_kept(name, state.wave)
            pairs = zip(registers.results, state.carry[name], strict=True)
            after[name] = [tf.gather(tf.concat(pair, 0), kept) for pair in pairs]
        return after
