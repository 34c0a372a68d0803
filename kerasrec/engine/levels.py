"""Runs programs of one round: a loop down the waves, a loop up, and the same for the gradient.

A wave is all tokens of a body at one depth. Since every body calls once, the waves of a program
lie in a line: wave w calls wave w + 1, in which the tokens of all call sites follow each other.
So the recursion over tokens is a linear recursion over waves, and a stage of the plan is one loop
over them. Loops are of stock ops; what a run does not need TensorFlow removes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec.engine.calls import (
    empty,
    hand_back,
    passed,
    shapes,
    tensors_of_present,
    with_open_tokens,
)
from kerasrec.engine.frame import Frame
from kerasrec.engine.limits import Limits
from kerasrec.engine.path import caller_of, one_of, walk_up
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.results import Sums, Tensors
from kerasrec.engine.store import new_arrays, scope_of
from kerasrec.engine.wave_run import WaveRun
from kerasrec.graph.graph import Node, Value, present

Carry = dict[str, Tensors]
Frames = dict[str, Frame]


@dataclass
class _Loop:
    """A loop over the waves of a stage.

    Args:
        stage: of the plan.
        start: the first wave.
        step: to the next wave.
        goes_on: whether to go on, from the wave and, in the first loop, what it is handed and the
          bytes that are kept by now.
        carried: the nodes whose tensors a wave hands to the next, by body.
        enter: puts what a wave is handed into the frames.
        leave: takes what it hands on out of them.
    """

    stage: int
    start: tf.Tensor
    step: int
    goes_on: Callable[..., tf.Tensor]
    carried: dict[str, list[Node]]
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

    def _later_sweep(self, index: int, given: Sequence, sums: Sums) -> Tensors:
        self._down_again(index, given, sums)
        return self._back_up(index, sums)

    def _down(self, arguments: Tensors, sums: Sums) -> None:
        """Stage 0: each wave computes the arguments of the next, until nobody calls."""

        def width(carry: Carry) -> tf.Tensor:
            return tf.add_n([tf.shape(tensors[0])[0] for tensors in carry.values()])

        def goes_on(wave: tf.Tensor, carry: Carry, memory: tf.Tensor) -> tf.Tensor:
            waiting = width(carry)
            return (waiting > 0) & self.limits.allow(wave, waiting, memory)

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
        wave, carry, memory = self._run(loop, arguments, sums)
        if self.plan.changes.decides_at_once:
            self.store.decide()
        waiting = width(carry)
        tag = partial(self._tag, wave, carry)
        with tf.control_dependencies([self.limits.check(self.graph, wave, waiting, memory, tag)]):
            self.num_waves = tf.identity(wave)

    def _tag(self, wave: tf.Tensor, carry: Carry) -> tf.Tensor:
        """The tag of a token that was not called, from the waves that were."""
        names = list(self.bodies)
        called = [name for name in names if self.sites[name]]
        if not called:
            return tf.zeros([0], tf.int32)
        widths = tf.stack([tf.shape(carry[name][0])[0] for name in called])

        def caller(depth: tf.Tensor, state: tuple) -> tuple[tf.Tensor, tuple]:
            body, token = state

            def of(name: str) -> tuple:
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

    def _down_again(self, index: int, given: Sequence, sums: Sums) -> None:
        """The first stage of a later sweep: what comes in goes from the caller to the called."""
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
            lambda wave, *_: wave < self.num_waves,
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
                last, self.num_waves - 1, -1, lambda wave, *_: wave >= 0, carried, enter, leave
            )
            outputs = self._run(loop, None, sums)[1][self.graph.entry]
        self.store.run_bulk(last, sums)
        return outputs

    def _run(self, loop: _Loop, given: Tensors | None, sums: Sums) -> tuple:
        """Runs a loop: all bodies fire on their wave, and what is kept is written down.

        Args:
            loop: the loop.
            given: what the outside hands to the entry.
            sums: takes what was added up wave by wave.

        Returns:
            The wave it ended with, what the last wave handed on and, after the first loop, the
            bytes that are kept.
        """
        part = Part(loop.stage, is_bulk=False)
        slots = [slot for name in self.bodies for slot in self.store.slots(name, part)]
        summed = self._summed(part)
        types = [node.inputs[0].type for _, node in summed]
        is_first = loop.stage == 0
        arrays = new_arrays(slots, 0 if is_first else self.num_waves, is_dynamic=is_first)
        first = {name: empty(nodes) for name, nodes in loop.carried.items()}
        if given is not None:
            nodes = loop.carried[self.graph.entry]
            first[self.graph.entry] = with_open_tokens(nodes, given)

        def iterate(
            wave: tf.Tensor,
            carry: Carry,
            listed: list[tf.TensorArray],
            totals: Tensors,
            *memory: tf.Tensor,
        ) -> tuple:
            frames = {name: self._frame(loop.stage, name, wave, carry) for name in self.bodies}
            loop.enter(frames, carry)
            for name, frame in frames.items():
                frame.run(self.plan.nodes.get((name, part), ()))
            written = [
                array.write(wave, slot.of(frames[slot.body]))
                for slot, array in zip(slots, listed, strict=True)
            ]
            totals = [
                total + frames[name].get(node.inputs[0])
                for (name, node), total in zip(summed, totals, strict=True)
            ]
            for name, frame in frames.items() if is_first else ():
                memory = (memory[0] + self.plan.bytes_kept(name, frame.count(None)),)
            return wave + loop.step, loop.leave(frames), written, totals, *memory

        wave, carry, filled, totals, *memory = tf.while_loop(
            lambda wave, carry, _, __, *memory: loop.goes_on(wave, carry, *memory),
            iterate,
            (
                loop.start,
                first,
                list(arrays.values()),
                [tf.zeros(item.shape or (), item.dtype) for item in types],
                *([tf.constant(0, tf.int64)] if is_first else []),
            ),
            shape_invariants=(
                tf.TensorShape([]),
                {name: shapes(nodes) for name, nodes in loop.carried.items()},
                [tf.TensorShape(None)] * len(slots),
                [item.tensor_shape() for item in types],
                *([tf.TensorShape([])] if is_first else []),
            ),
            parallel_iterations=1,
            name=scope_of(part),
        )
        self.store.keep(dict(zip(slots, filled, strict=True)))
        for (_, node), total in zip(summed, totals, strict=True):
            sums.accumulate(node, total)
        return wave, carry, *memory

    def _summed(self, part: Part) -> list[tuple[str, Node]]:
        """The ACCUMULATE nodes of a loop, each with the name of its body."""
        nodes = self.plan.nodes
        return [
            (name, node)
            for name in self.bodies
            for node in nodes.get((name, part), ())
            if node.op == "ACCUMULATE"
        ]

    def _frame(self, stage: int, name: str, wave: tf.Tensor, carry: Carry) -> Frame:
        if stage == 0:
            return self.store.frame(name, wave, tf.shape(carry[name][0])[0])
        return self.store.frame(name, wave, self.store.num_tokens(name, wave))
