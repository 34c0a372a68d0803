"""Runs programs of one round: a loop down the waves, a loop up, and the same for the gradient.

A wave is all tokens of a body at one depth. Since every body calls once, the waves of a program
lie in a line: wave w calls wave w + 1, in which the tokens of all call sites are together.
So the recursion over tokens is a linear recursion over waves, and a stage of the plan is one loop
over them. Loops are made of stock ops; TensorFlow removes what a run does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from kerasrec.engine.barriers import apart
from kerasrec.engine.calls import (
    empty,
    hand_back,
    passed,
    shapes,
    tensors_of_present,
)
from kerasrec.engine.frame import Frame
from kerasrec.engine.limits import Limits
from kerasrec.engine.path import Scalars, caller_of, one_of, walk_up
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.results import Tensors
from kerasrec.engine.store import Slot, new_arrays, scope_of
from kerasrec.engine.sums import Sums
from kerasrec.engine.wave_run import WaveRun
from kerasrec.graph.graph import present
from kerasrec.graph.nodes import Accumulate
from kerasrec.graph.values import Node, Value

Carry = dict[str, Tensors]
Frames = dict[str, Frame]


class _State(NamedTuple):
    """The state of a loop when it comes to a wave.

    Args:
        wave: int32 scalar, the number of the wave.
        carry: what is passed to the wave, by body.
        arrays: what the waves before it have stored, in the order of the loop's slots.
        totals: what they have added up, in the order of the loop's ACCUMULATE nodes.
        memory: int64 scalar, the bytes kept so far; an empty list except in the first loop.
    """

    wave: tf.Tensor
    carry: Carry
    arrays: list[tf.TensorArray]
    totals: Tensors
    memory: Tensors


@dataclass
class _Loop:
    """A loop over the waves of a stage.

    Args:
        stage: of the plan.
        start: the first wave.
        step: to the next wave.
        goes_on: whether to run the wave that it has come to.
        carried: the nodes whose tensors a wave passes to the next, by body.
        enter: puts what is passed to a wave into the frames.
        leave: takes what the wave passes on out of the frames.
    """

    stage: int
    start: tf.Tensor
    step: int
    goes_on: Callable[[_State], tf.Tensor]
    carried: Mapping[str, Sequence[Node]]
    enter: Callable[[Frames, Carry], None]
    leave: Callable[[Frames], Carry]


class LevelRun(WaveRun):
    """One run of a program of one round; arguments as for `WaveRun`."""

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits):
        super().__init__(plan, shared, limits)
        self.sites = {name: plan.graph.sites_to(name) for name in self.bodies}
        self.num_waves: tf.Tensor

    def notes(self) -> tf.Tensor:
        """What `forward` ran; the number of a stage says what."""
        waves = tf.range(self.num_waves)
        down = tf.stack([tf.zeros_like(waves), waves, waves], 1)
        up = tf.stack([tf.ones_like(waves), waves[::-1], waves[::-1]], 1)
        return tf.concat([down, up], 0)

    def _first_sweep(self, arguments: Tensors, sums: Sums) -> Tensors:
        self._down(arguments, sums)
        return self._back_up(0, sums)

    def _later_sweep(self, index: int, given: Sequence[tf.Tensor | None], sums: Sums) -> Tensors:
        self.store.run_bulk(self.plan.first_stage(index) - 1, sums)
        self._down_again(index, given, sums)
        return self._back_up(index, sums)

    def _down(self, arguments: Tensors, sums: Sums) -> None:
        """Stage 0: each wave computes the arguments of the next, until no token calls."""

        def width(carry: Carry) -> tf.Tensor:
            return tf.add_n([tf.shape(tensors[0])[0] for tensors in carry.values()])

        def goes_on(state: _State) -> tf.Tensor:
            waiting = width(state.carry)
            return (waiting > 0) & self.limits.allow(state.wave, waiting, *state.memory)

        def enter(frames: Frames, carry: Carry) -> None:
            for name, frame in frames.items():
                frame.set(self.bodies[name].parameters, carry[name])

        def leave(frames: Frames) -> Carry:
            return {
                name: passed(body, 0, self.sites[name], frames)
                for name, body in self.bodies.items()
            }

        carried = {name: body.parameters for name, body in self.bodies.items()}
        loop = _Loop(0, tf.constant(0), 1, goes_on, carried, enter, leave)
        end = self._run(loop, arguments, sums)
        if self.plan.changes.decides_at_once:
            self.store.decide()
        waiting, (memory,) = width(end.carry), end.memory
        tag = partial(self._tag, end.wave, end.carry)
        check = self.limits.check(self.graph, end.wave, waiting, memory, tag)
        with tf.control_dependencies([check]):
            self.num_waves = tf.identity(end.wave)

    def _tag(self, wave: tf.Tensor, carry: Carry) -> tf.Tensor:
        """The tag of a token that was not called, from the waves that were."""
        names = list(self.bodies)
        called = [name for name in names if self.sites[name]]
        if not called:
            return tf.zeros([0], tf.int32)
        widths = tf.stack([tf.shape(carry[name][0])[0] for name in called])

        def caller(depth: tf.Tensor, state: Scalars) -> tuple[tf.Tensor, Scalars]:
            body, token = state

            def of(name: str) -> Scalars:
                sites = self.sites[name]
                frames = {other: self._frame(1, other, depth - 1, carry) for other in names}
                place, token_of_caller = caller_of(sites, frames, token)
                labels = [site.label for site in sites]
                callers = [
                    called.index(site.caller) if site.caller in called else 0 for site in sites
                ]
                return tf.gather(labels, place), tf.gather(callers, place), token_of_caller

            label, *of_caller = one_of(body, [partial(of, name) for name in called])
            return label, tuple(of_caller)

        first = tf.cast(tf.argmax(widths > 0), tf.int32)
        return walk_up(wave, (first, tf.constant(0)), caller)

    def _down_again(self, index: int, given: Sequence[tf.Tensor | None], sums: Sums) -> None:
        """The first stage of a later sweep: its inputs go from callers to callees."""
        carried = {
            name: present(body.sweeps[index].parameters) for name, body in self.bodies.items()
        }

        def enter(frames: Frames, carry: Carry) -> None:
            for name, frame in frames.items():
                frame.set(carried[name], carry[name])

        def leave(frames: Frames) -> Carry:
            return {
                name: passed(body, index, self.sites[name], frames)
                for name, body in self.bodies.items()
            }

        entry = self.bodies[self.graph.entry].sweeps[index]
        loop = _Loop(
            self.plan.first_stage(index),
            tf.constant(0),
            1,
            lambda state: state.wave < self.num_waves,
            carried,
            enter,
            leave,
        )
        self._run(loop, tensors_of_present(entry.parameters, given), sums)

    def _back_up(self, index: int, sums: Sums) -> Tensors:
        """The rest of a sweep: each wave returns to the one before, the first to the outside."""
        first, last = self.plan.first_stage(index), self.plan.last_stage(index)
        self.store.run_bulk(first, sums)
        carried = {name: present(body.sweeps[index].outputs) for name, body in self.bodies.items()}

        def enter(frames: Frames, carry: Carry) -> None:
            for name, tensors in carry.items():
                hand_back(index, self.sites[name], frames, tensors)

        def leave(frames: Frames) -> Carry:
            return {
                name: [frames[name].get(node.output()) for node in nodes]
                for name, nodes in carried.items()
            }

        outputs: Tensors = []
        if any(carried.values()) or self._summed(Part(last, is_bulk=False)):
            loop = _Loop(
                last, self.num_waves - 1, -1, lambda state: state.wave >= 0, carried, enter, leave
            )
            outputs = self._run(loop, None, sums).carry[self.graph.entry]
        self.store.run_bulk(last, sums)
        return outputs

    def _run(self, loop: _Loop, given: Tensors | None, sums: Sums) -> _State:
        """Runs a loop: all bodies fire on their wave, and what is kept is stored.

        Args:
            loop: the loop.
            given: what the outside passes to the entry.
            sums: takes what was added up wave by wave.

        Returns:
            The state at the end of the loop.
        """
        part = Part(loop.stage, is_bulk=False)
        slots = [slot for name in self.bodies for slot in self.store.slots(name, part)]
        summed = self._summed(part)
        start, invariants = self._start(loop, given, slots, summed)

        def iterate(*variables: Any) -> _State:
            state = _State(*variables)
            carry = {name: apart(tensors) for name, tensors in state.carry.items()}
            state = state._replace(carry=carry)
            frames = self._fired(loop, state)
            written = zip(slots, state.arrays, strict=True)
            added = zip(summed, state.totals, strict=True)
            return _State(
                state.wave + loop.step,
                loop.leave(frames),
                [array.write(state.wave, slot.of(frames[slot.body])) for slot, array in written],
                [total + frames[name].get(node.inputs[0]) for (name, node), total in added],
                [memory + self._bytes_kept(frames) for memory in state.memory],
            )

        end = tf.while_loop(
            lambda *variables: loop.goes_on(_State(*variables)),
            iterate,
            start,
            shape_invariants=invariants,
            parallel_iterations=1,
            name=scope_of(part),
        )
        self.store.keep(dict(zip(slots, end.arrays, strict=True)))
        for (_, node), total in zip(summed, end.totals, strict=True):
            sums.accumulate(node, total)
        return end

    def _start(
        self,
        loop: _Loop,
        given: Tensors | None,
        slots: Sequence[Slot],
        summed: Sequence[tuple[str, Node]],
    ) -> tuple[_State, _State]:
        """The state that a loop begins with, and its shapes for all waves."""
        is_first = loop.stage == 0
        arrays = new_arrays(slots, 0 if is_first else self.num_waves, is_dynamic=is_first)
        types = [node.inputs[0].type for _, node in summed]
        carry = {name: empty(nodes) for name, nodes in loop.carried.items()}
        if given is not None:
            carry[self.graph.entry] = given
        start = _State(
            loop.start,
            carry,
            list(arrays.values()),
            [tf.zeros(item.shape or (), item.dtype) for item in types],
            [tf.constant(0, tf.int64)] if is_first else [],
        )
        invariants = _State(
            tf.TensorShape([]),
            {name: shapes(nodes) for name, nodes in loop.carried.items()},
            [tf.TensorShape(None)] * len(slots),
            [item.tensor_shape() for item in types],
            [tf.TensorShape([])] * len(start.memory),
        )
        return start, invariants

    def _fired(self, loop: _Loop, state: _State) -> Frames:
        """Frames of the wave that a loop has come to, when their nodes have fired."""
        part = Part(loop.stage, is_bulk=False)
        frames = {
            name: self._frame(loop.stage, name, state.wave, state.carry) for name in self.bodies
        }
        loop.enter(frames, state.carry)
        for name, frame in frames.items():
            frame.run(self.plan.nodes.get((name, part), ()))
        return frames

    def _bytes_kept(self, frames: Frames) -> tf.Tensor:
        """int64 scalar: how many bytes a wave keeps in the forward pass, at least."""
        return tf.add_n(
            [self.plan.bytes_kept(name, frame.count(None)) for name, frame in frames.items()]
        )

    def _summed(self, part: Part) -> list[tuple[str, Accumulate]]:
        """The ACCUMULATE nodes of a loop, each with the name of its body."""
        nodes = self.plan.nodes
        return [
            (name, node)
            for name in self.bodies
            for node in nodes.get((name, part), ())
            if isinstance(node, Accumulate)
        ]

    def _frame(self, stage: int, name: str, wave: tf.Tensor, carry: Carry) -> Frame:
        if stage == 0:
            return self.store.frame(name, wave, tf.shape(carry[name][0])[0])
        return self.store.frame(name, wave, self.store.num_tokens(name, wave))
