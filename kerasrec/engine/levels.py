"""Runs programs of one round: a loop down the waves, a loop up, and the same for the gradient.

A wave is all tokens of a body at one depth. Since every body calls once, the waves of a program
lie in a line: wave w calls wave w + 1, in which the tokens of all call sites follow each other.
So the recursion over tokens is a linear recursion over waves, and a stage of the plan is one loop
over them. Loops are of stock ops; what a run does not need TensorFlow removes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec.engine.calls import (
    empty,
    hand_back,
    passed_arguments,
    passed_cotangents,
    present,
    shapes,
    tensors_of_present,
    with_open_tokens,
)
from kerasrec.engine.frame import Frame
from kerasrec.engine.limits import Limits
from kerasrec.engine.path import caller_of, one_of, walk_up
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.results import Gradients, Outcome, Sums, Tensors
from kerasrec.engine.store import WaveStore, new_arrays, scope_of
from kerasrec.graph.graph import Node, Value

Carry = dict[str, Tensors]
Frames = dict[str, Frame]


@dataclass
class _Sweep:
    """A loop over the waves of a stage.

    Args:
        stage: of the plan.
        start: the first wave.
        step: to the next wave.
        goes_on: whether to go on, from (wave, carry, bytes that are kept by now).
        carried: the nodes whose tensors a wave hands to the next, by body.
        enter: puts what a wave is handed into the frames.
        leave: takes what it hands on out of them.
    """

    stage: int
    start: tf.Tensor
    step: int
    goes_on: Callable[[tf.Tensor, Carry, tf.Tensor], tf.Tensor]
    carried: dict[str, list[Node]]
    enter: Callable[[Frames, Carry], None]
    leave: Callable[[Frames], Carry]


class LevelRun:
    """One run of a program of one round.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth and width.
    """

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits):
        self.plan = plan
        self.graph = plan.graph
        self.bodies = plan.graph.bodies
        self.sites = {name: plan.graph.sites_to(name) for name in self.bodies}
        self.limits = limits
        self.store = WaveStore(plan, shared)
        self.num_waves: tf.Tensor

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs stages 0 and 1."""
        sums = Sums()
        self._down(arguments)
        self.store.run_bulk(0, sums)
        outputs = self._up()
        self.store.run_bulk(1, sums)
        return Outcome(outputs, sums.tables())

    def backward(self, cotangents: Tensors, shared: dict[Value, tf.Tensor]) -> Gradients:
        """Runs stages 2 to 4, after `forward`.

        Args:
            cotangents: for each flat output of the entry; anything for outputs without gradient.
            shared: tensors of SHARED values, the cotangents of tables among them.
        """
        self.store = self.store.copy()
        self.store.shared = shared
        sums = Sums()
        self.store.run_bulk(2, sums)
        self._gradient_down(cotangents)
        self.store.run_bulk(3, sums)
        arguments = self._gradient_up()
        self.store.run_bulk(4, sums)
        return Gradients(arguments, sums.gradients(shared))

    def notes(self) -> tf.Tensor:
        """What `forward` ran, in order: int32 `[steps, 3]`, each (stage, wave, depth)."""
        waves = tf.range(self.num_waves)
        down = tf.stack([tf.zeros_like(waves), waves, waves], 1)
        up = tf.stack([tf.ones_like(waves), waves[::-1], waves[::-1]], 1)
        return tf.concat([down, up], 0)

    def _down(self, arguments: Tensors) -> None:
        """Stage 0: each wave computes the arguments of the next, until nobody calls."""

        def width(carry: Carry) -> tf.Tensor:
            return tf.add_n([tf.shape(tensors[0])[0] for tensors in carry.values()])

        def goes_on(wave: tf.Tensor, carry: Carry, memory: tf.Tensor) -> tf.Tensor:
            waiting = width(carry)
            return ((wave == 0) | (waiting > 0)) & self.limits.allow(wave, waiting, memory)

        def enter(frames: Frames, carry: Carry) -> None:
            for name, frame in frames.items():
                frame.set(self.bodies[name].parameters, carry[name])

        def leave(frames: Frames) -> Carry:
            return {
                name: passed_arguments(body, self.sites[name], frames)
                for name, body in self.bodies.items()
            }

        carried = {name: body.parameters for name, body in self.bodies.items()}
        sweep = _Sweep(0, tf.constant(0), 1, goes_on, carried, enter, leave)
        wave, carry, memory = self._run(sweep, arguments)
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

    def _up(self) -> Tensors:
        """Stage 1: each wave returns to the one before; the first returns to the outside."""

        def enter(frames: Frames, carry: Carry) -> None:
            for name, tensors in carry.items():
                hand_back(self.sites[name], frames, tensors, lambda site: site.returns)

        carried = {name: body.outputs for name, body in self.bodies.items()}
        return self._sweep_up(1, carried, enter)

    def _gradient_down(self, cotangents: Tensors) -> None:
        """Stage 3: cotangents of outputs go down, from the caller to the called."""
        carried = {name: present(body.gradient_parameters) for name, body in self.bodies.items()}

        def enter(frames: Frames, carry: Carry) -> None:
            for name, frame in frames.items():
                frame.set(carried[name], carry[name])

        def leave(frames: Frames) -> Carry:
            return {
                name: passed_cotangents(body, self.sites[name], frames)
                for name, body in self.bodies.items()
            }

        entry = self.bodies[self.graph.entry]
        given = tensors_of_present(entry.gradient_parameters, cotangents)
        sweep = _Sweep(
            3, tf.constant(0), 1, lambda wave, *_: wave < self.num_waves, carried, enter, leave
        )
        self._run(sweep, given)

    def _gradient_up(self) -> list[tf.Tensor | None]:
        """Stage 4: cotangents of arguments come up, from the called to the caller."""
        carried = {name: present(body.gradient_outputs) for name, body in self.bodies.items()}
        entry = self.bodies[self.graph.entry]
        if not any(carried.values()):
            return [None] * len(entry.parameters)

        def enter(frames: Frames, carry: Carry) -> None:
            for name, tensors in carry.items():
                hand_back(
                    self.sites[name], frames, tensors, lambda site: present(site.gradient_returns)
                )

        found = iter(self._sweep_up(4, carried, enter))
        return [None if node is None else next(found) for node in entry.gradient_outputs]

    def _sweep_up(
        self, stage: int, carried: dict[str, list[Node]], enter: Callable[[Frames, Carry], None]
    ) -> Tensors:
        """A loop from the last wave to the first; returns what the first hands to the outside."""

        def leave(frames: Frames) -> Carry:
            return {
                name: [frames[name].get(node.output()) for node in nodes]
                for name, nodes in carried.items()
            }

        sweep = _Sweep(
            stage, self.num_waves - 1, -1, lambda wave, *_: wave >= 0, carried, enter, leave
        )
        return self._run(sweep, None)[1][self.graph.entry]

    def _run(self, sweep: _Sweep, given: Tensors | None) -> tuple[tf.Tensor, Carry, tf.Tensor]:
        """Runs a loop: all bodies fire on their wave, and what is kept is written down.

        Args:
            sweep: the loop.
            given: what the outside hands to the entry.

        Returns:
            The wave it ended with, what the last wave handed on, and the bytes that are kept.
        """
        part = Part(sweep.stage, is_bulk=False)
        slots = [slot for name in self.bodies for slot in self.store.slots(name, part)]
        is_first = sweep.stage == 0
        arrays = new_arrays(slots, 0 if is_first else self.num_waves, is_dynamic=is_first)
        first = {name: empty(nodes) for name, nodes in sweep.carried.items()}
        if given is not None:
            nodes = sweep.carried[self.graph.entry]
            first[self.graph.entry] = with_open_tokens(nodes, given)

        def iterate(
            wave: tf.Tensor, carry: Carry, memory: tf.Tensor, listed: list[tf.TensorArray]
        ) -> tuple:
            frames = {name: self._frame(sweep.stage, name, wave, carry) for name in self.bodies}
            sweep.enter(frames, carry)
            for name, frame in frames.items():
                frame.run(self.plan.nodes.get((name, part), ()))
            written = [
                array.write(wave, slot.of(frames[slot.body]))
                for slot, array in zip(slots, listed, strict=True)
            ]
            for name, frame in frames.items() if is_first else ():
                memory += self.plan.bytes_kept(name, frame.count(None))
            return wave + sweep.step, sweep.leave(frames), memory, written

        wave, carry, memory, filled = tf.while_loop(
            lambda wave, carry, memory, _: sweep.goes_on(wave, carry, memory),
            iterate,
            (sweep.start, first, tf.constant(0, tf.int64), list(arrays.values())),
            shape_invariants=(
                tf.TensorShape([]),
                {name: shapes(nodes) for name, nodes in sweep.carried.items()},
                tf.TensorShape([]),
                [tf.TensorShape(None)] * len(slots),
            ),
            parallel_iterations=1,
            name=scope_of(part),
        )
        self.store.keep(dict(zip(slots, filled, strict=True)))
        return wave, carry, memory

    def _frame(self, stage: int, name: str, wave: tf.Tensor, carry: Carry) -> Frame:
        if stage == 0:
            return self.store.frame(name, wave, tf.shape(carry[name][0])[0])
        return self.store.frame(name, wave, self.store.num_tokens(name, wave))
