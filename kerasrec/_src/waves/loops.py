"""A loop of a schedule as a `tf.while_loop` over waves.

A wave is all tokens of one depth. Since every body makes at most one round of calls, the waves of a
program form a line: wave w calls wave w + 1, which contains the tokens of all call sites. Thus the
recursion over tokens is a linear recursion over waves. Loops are made of stock ops, and TensorFlow
removes those that a run does not need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from kerasrec._src.emit.arrays import array_of, num_rows, one_tensor
from kerasrec._src.emit.control_flow import apart, empty
from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.sums import Sums
from kerasrec._src.graph.graph import present
from kerasrec._src.graph.nodes import Accumulate
from kerasrec._src.graph.values import Value
from kerasrec._src.half_precision import in_float32
from kerasrec._src.host import has_gpu
from kerasrec._src.schedule.instructions import OfKind, Reduce, Returned, Save, TokenCount
from kerasrec._src.schedule.linkage import Together, alternating
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Direction, Loop
from kerasrec._src.waves.store import WaveRegisters, WaveStore

ByBody = dict[str, WaveRegisters]
Carry = dict[str, Tensors]


class WaveState(NamedTuple):
    """The state of a loop when it reaches a wave.

    Args:
        wave: The number of the wave, an int32 scalar.
        carry: For each body, the values passed to the wave: arguments for its tokens, or in a loop
            that goes up, results of the tokens that it has called.
        arrays: The values that the waves so far have saved.
        totals: The sums that they have added up, in float32 where the values are half-precision.
        memory: The bits of `bytes_kept`: int32 `[2]` if there is a GPU, since a loop carries int32
            on the host, and int64 on the GPU.
    """

    wave: tf.Tensor
    carry: Carry
    arrays: list[tf.TensorArray]
    totals: Tensors
    memory: Tensors

    @property
    def bytes_kept(self) -> Tensors:
        """The bytes kept so far, an int64 scalar; an empty list except in the first loop."""
        return [tf.bitcast(bits, tf.int64) for bits in self.memory]

    @property
    def width(self) -> tf.Tensor:
        """The number of tokens that have been called and wait for this wave."""
        return tf.add_n([num_rows(tensors[0]) for tensors in self.carry.values()])


@dataclass
class LoopRun:
    """Runs a loop.

    Args:
        schedule: The program's schedule.
        loop: The loop.
        shared: The tensors of SHARED values.
        limits: The bounds on depth, width and memory.
        store: The values that other segments have saved; takes those that the loop saves.
        num_waves: The number of waves, an int32 scalar; None in the first loop.
    """

    schedule: Schedule
    loop: Loop
    shared: dict[Value, tf.Tensor]
    limits: Limits
    store: WaveStore
    num_waves: tf.Tensor | None

    def __post_init__(self) -> None:
        self.graph = self.schedule.graph
        self.is_up = self.loop.direction is Direction.UP
        self.is_first = self.num_waves is None
        sweeps = {name: body.sweeps[self.loop.sweep] for name, body in self.graph.bodies.items()}
        # The nodes whose values a wave passes to the next.
        self._carried = {
            name: present(sweep.outputs if self.is_up else sweep.parameters)
            for name, sweep in sweeps.items()
        }
        self._saves, self._reduces = self._all(Save), self._all(Reduce)

    def run(self, given: Tensors, sums: Sums) -> WaveState:
        """Runs the loop; returns its final state.

        Args:
            given: The values that the outside passes to the entry; not read by a loop that goes up.
            sums: Takes the values that are added up wave by wave.
        """
        end: WaveState = tf.while_loop(
            lambda *variables: self._goes_on(WaveState(*variables)),
            lambda *variables: self._turn(WaveState(*variables)),
            self._start(given),
            parallel_iterations=1,
            name=f"stage_{self.loop.stage}_loop",
        )
        for (_, save), array in zip(self._saves, end.arrays, strict=True):
            self.store.keep(save.item, array)
        for (_, reduce), total in zip(self._reduces, end.totals, strict=True):
            if isinstance(reduce.node, Accumulate):
                sums.accumulate(reduce.node, total)
        return end

    def results(self, end: WaveState) -> Tensors:
        """The results of the loop for the outside, from its final state."""
        return end.carry[self.graph.entry] if self.is_up else []

    def _all(self, kind: type[OfKind]) -> list[tuple[str, OfKind]]:
        """The instructions of a kind, each with the body that runs it."""
        return [(each.body, one) for each in self.loop.segments for one in each.of(kind)]

    def _start(self, given: Tensors) -> WaveState:
        """Returns the state before the first wave; the numbers of tokens are open in its shapes."""
        carry = {name: empty(nodes) for name, nodes in self._carried.items()}
        if not self.is_up:
            carry = self._first_carry(carry, given)
        types = [reduce.node.inputs[0].type for _, reduce in self._reduces]
        no_bytes = tf.constant([0, 0]) if has_gpu() else tf.constant(0, tf.int64)
        first = tf.constant(0)
        if self.num_waves is not None and self.is_up:
            last = self.num_waves - 1
            is_whole = self.loop.is_for_all_waves or self.schedule.is_by_level
            first = last if is_whole else tf.minimum(last, 0)
        return WaveState(
            first,
            carry,
            [array_of(_spec(save), self.num_waves) for _, save in self._saves],
            [in_float32(tf.zeros(item.shape or (), item.dtype)) for item in types],
            [no_bytes] if self.is_first else [],
        )

    def _first_carry(self, carry: Carry, given: Tensors) -> Carry:
        """Returns the values passed to the first wave; `carry` has values without tokens."""
        return {**carry, self.graph.entry: given}

    def _goes_on(self, state: WaveState) -> tf.Tensor:
        if self.is_first:
            waiting = state.width
            return (waiting > 0) & self.limits.contain(state.wave, waiting, *state.bytes_kept)
        return state.wave >= 0 if self.is_up else state.wave < self.num_waves

    def _turn(self, state: WaveState) -> WaveState:
        """Runs all segments on the wave that the loop has reached."""
        state = state._replace(
            carry={name: apart(tensors) for name, tensors in state.carry.items()}
        )
        by_body = {
            segment.body: WaveRegisters(
                self.graph, segment.body, self.shared, self.store, state.wave
            )
            for segment in self.loop.segments
        }
        if self.is_up:
            self._run_up(by_body, state)
            carry = self._returned(by_body, state)
        else:
            before = self._give(by_body, state)
            for segment in self.loop.segments:
                by_body[segment.body].run(segment.instructions)
            carry = self._passed_on(by_body, before, state)
        saves = zip(self._saves, state.arrays, strict=True)
        reduced = [by_body[name].get(reduce.node.inputs[0]) for name, reduce in self._reduces]
        return WaveState(
            state.wave + (-1 if self.is_up else 1),
            carry,
            [
                array.write(state.wave, by_body[name].get(save.item))
                for (name, save), array in saves
            ],
            [total + in_float32(more) for total, more in zip(state.totals, reduced, strict=True)],
            [
                tf.bitcast(kept + self._bytes_kept(by_body), bits.dtype)
                for kept, bits in zip(state.bytes_kept, state.memory, strict=True)
            ],
        )

    def _give(self, by_body: ByBody, state: WaveState) -> Carry:
        """Gives a wave the values passed to it; returns the rest of them."""
        for name, registers in by_body.items():
            registers.given = state.carry[name]
        return {}

    def _run_up(self, by_body: ByBody, state: WaveState) -> None:
        """Runs the segments of a wave in a loop that goes up.

        Instructions before the last `Returned` run first: they tell how returned values are
        divided.
        """
        later = {}
        for segment in self.loop.segments:
            receivers = segment.of(Returned)
            last = segment.instructions.index(receivers[-1]) if receivers else 0
            head = [first for first in segment.instructions[:last] if first not in receivers]
            by_body[segment.body].run(head)
            later[segment.body] = segment.without(head).instructions
        self._hand_back(by_body, state)
        for name, rest in later.items():
            by_body[name].run(rest)

    def _hand_back(self, by_body: ByBody, state: WaveState) -> None:
        """Divides the results of bodies among the call sites that called them."""
        receivers = self._receivers(by_body)
        for callee, tensors in state.carry.items():
            groups = [receivers[group] for group in alternating(self.graph.sites_to(callee))]
            if len(groups) > 1 and tensors:
                sizes = [
                    registers.get(receiver.divides) * len(receiver.sites)
                    for registers, receiver in groups
                    if receiver.divides
                ]
                pieces = [tf.split(tensor, sizes) for tensor in tensors]
            else:
                pieces = [[tensor] * len(groups) for tensor in tensors]
            for place, (registers, receiver) in enumerate(groups):
                registers.returns[receiver] = [piece[place] for piece in pieces]

    def _receivers(self, by_body: ByBody) -> dict[Together, tuple[WaveRegisters, Returned]]:
        """The instructions that receive results, by call sites that call for the same tokens."""
        return {receiver.sites: (by_body[name], receiver) for name, receiver in self._all(Returned)}

    def _returned(self, by_body: ByBody, state: WaveState) -> Carry:
        """The results that a wave returns to the wave of its callers."""
        return {name: registers.results for name, registers in by_body.items()}

    def _passed_on(self, by_body: ByBody, before: Carry, state: WaveState) -> Carry:
        """The values that a wave passes to the next."""
        sent, carry = self._sent(by_body), {}
        for name, nodes in self._carried.items():
            columns = [sent[group] for group in alternating(self.graph.sites_to(name))]
            joint = [one_tensor(tensors) for tensors in zip(*columns, strict=True)]
            carry[name] = joint if columns else empty(nodes)
        return carry

    def _sent(self, by_body: ByBody) -> dict[Together, Tensors]:
        """The values that a wave sends, by call sites that call for the same tokens."""
        return {
            send.sites: tensors
            for registers in by_body.values()
            for send, tensors in registers.sent.items()
        }

    def _bytes_kept(self, by_body: ByBody) -> tf.Tensor:
        """The least number of bytes that a wave keeps for the backward pass, an int64 scalar."""
        return tf.add_n(
            [
                tf.cast(registers.get(TokenCount(name)), tf.int64) * self.schedule.bytes_kept(name)
                for name, registers in by_body.items()
            ]
        )


def _spec(save: Save) -> tf.TensorSpec:
    """The spec of the values that a wave saves."""
    if isinstance(save.item, TokenCount):
        return tf.TensorSpec([], tf.int32)
    if isinstance(save.item, Value):
        return save.item.type.tensor_spec()
    return tf.TensorSpec([None], tf.int32)
