"""Runs any program: a machine with a stack of waves that wait for a return.

Where a body calls, and calls again with what was returned, its waves do not lie in a line but form
a tree, and the machine walks it: a segment of a body runs on one wave; if it calls, the wave waits
on a stack while the wave it called runs; when that returns, the next segment runs. One
`tf.while_loop` holds it, with the segments as the branches of a `tf.switch_case`.

The gradient is the same walk backwards. The machine has noted which segment it ran on which wave,
and the gradient's segments follow the notes from the last to the first: so each finds what its
callee's gradient handed up, and needs no stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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
from kerasrec.engine.store import Slot, TokensSlot, WaveStore, new_arrays
from kerasrec.graph.graph import CallSite, Node, Value


@dataclass(frozen=True)
class Segment:
    """Nodes of a body between two rounds of calls.

    Args:
        body: its name.
        place: its place among the body's segments.
        stages: forward stages it covers.
        gradient_stages: stages of its gradient.
        before: call sites whose returns it begins with; empty for the first.
        after: call sites that call when it ends; empty for the last, which returns.
    """

    body: str
    place: int
    stages: tuple[int, ...]
    gradient_stages: tuple[int, ...]
    before: tuple[CallSite, ...]
    after: tuple[CallSite, ...]


def segments_of(plan: Plan) -> list[Segment]:
    """All segments of a program, body by body."""
    last = plan.last_stage
    found = []
    for name in plan.graph.bodies:
        groups = plan.groups[name]
        for place in range(len(groups) + 1):
            is_end = place == len(groups)
            stages = tuple(range(place, plan.rounds + 1)) if is_end else (place,)
            found.append(
                Segment(
                    name,
                    place,
                    stages,
                    tuple(sorted(last - stage for stage in stages)),
                    tuple(groups.get(place, ())),
                    tuple(groups.get(place + 1, ())),
                )
            )
    return found


class StackRun:
    """One run of any program.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth and width.
    """

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits):
        self.plan = plan
        self.graph = plan.graph
        self.bodies = plan.graph.bodies
        self.names = list(self.bodies)
        self.limits = limits
        self.store = WaveStore(plan, shared)
        self.segments = segments_of(plan)
        self.first = {
            item.body: place for place, item in enumerate(self.segments) if not item.place
        }
        self.trace: tf.TensorArray
        self.num_steps: tf.Tensor
        self.num_waves: tf.Tensor

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs all forward stages."""
        sums = Sums()
        outputs = self._walk(arguments)
        self.store.run_bulk(self.plan.rounds, sums)
        return Outcome(outputs, sums.tables())

    def backward(self, cotangents: Tensors, shared: dict[Value, tf.Tensor]) -> Gradients:
        """Runs all gradient stages, after `forward`; arguments as in `LevelRun.backward`."""
        self.store = self.store.copy()
        self.store.shared = shared
        sums = Sums()
        self.store.run_bulk(self.plan.first_gradient_stage, sums)
        arguments = self._walk_back(cotangents)
        self.store.run_bulk(self.plan.last_stage, sums)
        return Gradients(arguments, sums.gradients(shared))

    def notes(self) -> tf.Tensor:
        """What `forward` ran, in order: int32 `[steps, 3]`, each (segment, wave, depth)."""
        return self.trace.stack()

    def _walk(self, arguments: Tensors) -> Tensors:
        """The machine. A step runs the segment `counter` on the wave `wave` of its body."""
        slots = self._slots(range(self.plan.rounds + 1))
        state = self._first_state(arguments)
        state["arrays"] = list(new_arrays(slots, 0, is_dynamic=True).values())

        def goes_on(state: dict) -> tf.Tensor:
            return (state["counter"] >= 0) & self.limits.allow(
                state["depth"], state["width"], state["memory"]
            )

        def iterate(state: dict) -> tuple[dict]:
            state = self._noted(state)
            branches = [
                lambda segment=segment: self._step(segment, slots, state)
                for segment in self.segments
            ]
            return (tf.switch_case(state["counter"], [*branches, *self._other_steps(state)]),)

        (end,) = tf.while_loop(
            goes_on,
            iterate,
            (state,),
            shape_invariants=(self._invariants(state),),
            parallel_iterations=1,
        )
        waiting = tf.where(end["counter"] >= 0, end["width"], 0)
        outputs = self._ended(end, slots)
        tag = partial(self._tag, end)
        check = self.limits.check(self.graph, end["depth"], waiting, end["memory"], tag)
        with tf.control_dependencies([check]):
            return [tf.identity(output) for output in outputs]

    def _first_state(self, arguments: Tensors) -> dict:
        """The machine before its first step.

        The stack holds (segment, wave) pairs that wait for a return; its lowest entry is the
        outside, segment -1. Registers hold what a callee gets and what it returns; they are read
        by the step after the one that wrote them.
        """
        entry = self.graph.entry
        given = with_open_tokens(self.bodies[entry].parameters, arguments)
        empties = {name: empty(body.parameters) for name, body in self.bodies.items()}
        return {
            "counter": tf.constant(self.first[entry]),
            "wave": tf.constant(0),
            "depth": tf.constant(0),
            "width": tf.shape(arguments[0])[0],
            "memory": self.plan.bytes_kept(entry, tf.shape(arguments[0])[0]),
            "num_waves": tf.one_hot(self.names.index(entry), len(self.names), dtype=tf.int32),
            "step": tf.constant(0),
            "arguments": {**empties, entry: given},
            "returns": {name: empty(body.outputs) for name, body in self.bodies.items()},
            "stack": dynamic_array(tf.int32, [2]).write(0, [-1, 0]),
            "trace": dynamic_array(tf.int32, [3]),
        }

    def _invariants(self, state: dict) -> dict:
        found: dict[str, Any] = tf.nest.map_structure(_open_shape, state)
        for name, body in self.bodies.items():
            found["arguments"][name] = shapes(body.parameters)
            found["returns"][name] = shapes(body.outputs)
        return found

    def _noted(self, state: dict) -> dict:
        """The state with a note for the way back: which segment runs on which wave, how deep."""
        note = [state["counter"], state["wave"], state["depth"]]
        trace = state["trace"].write(state["step"], note)
        return {**state, "trace": trace, "step": state["step"] + 1}

    def _other_steps(self, state: dict) -> list[Callable[[], dict]]:
        """Steps that are not those of a segment; there are none here."""
        return []

    def _ended(self, state: dict, slots: Sequence[Slot]) -> Tensors:
        """Takes over what the machine has left; returns what it returns to the outside."""
        self.num_steps = state["step"]
        self.trace = state["trace"]
        self.num_waves = state["num_waves"]
        self.store.keep(dict(zip(slots, state["arrays"], strict=True)))
        return state["returns"][self.graph.entry]

    def _tag(self, end: dict) -> tf.Tensor:
        """The tag of a token that was not called, from the waves that wait for a return."""
        returning = [segment for segment in self.segments if segment.before]
        if not returning:
            return tf.zeros([0], tf.int32)

        def caller(depth: tf.Tensor, state: tuple) -> tuple[tf.Tensor, tuple]:
            back, wave = self._waiting(end, depth)

            def of(segment: Segment) -> tuple:
                num_tokens = self.store.num_tokens(segment.body, wave)
                frame = self.store.frame(segment.body, wave, num_tokens)
                place, token = caller_of(segment.before, {segment.body: frame}, *state)
                labels = [site.label for site in segment.before]
                return tf.gather(labels, place), self._place_in_call(end, segment.body, wave, token)

            places = [returning.index(item) if item.before else -1 for item in self.segments]
            branches = [partial(of, segment) for segment in returning]
            label, token = one_of(tf.gather(places, back), branches)
            return label, (token,)

        return walk_up(end["depth"], (tf.constant(0),), caller)

    def _waiting(self, end: dict, depth: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The segment that goes on when the calls at a depth return, and its wave."""
        entry = end["stack"].read(depth)
        return entry[0], entry[1]

    def _place_in_call(self, end: dict, body: str, wave: tf.Tensor, token: tf.Tensor) -> tf.Tensor:
        """Place of a wave's token among all that were called with it."""
        return token

    def _step(self, segment: Segment, slots: Sequence[Slot], state: dict) -> dict:
        """Runs a segment on one wave and says what is next."""
        wave = state["wave"]
        arrays = dict(zip(slots, state["arrays"], strict=True))
        if segment.place == 0:
            given = state["arguments"][segment.body]
            num_tokens = tf.shape(given[0])[0]
        else:
            num_tokens = arrays[TokensSlot(segment.body)].read(wave)[0]
        before = self._without(segment.body, segment.stages, arrays)
        frame = self.store.frame(segment.body, wave, num_tokens, before)
        frames = {segment.body: frame}
        if segment.place == 0:
            frame.set(self.bodies[segment.body].parameters, given)
        else:
            returned = state["returns"][segment.before[0].callee]
            hand_back(segment.before, frames, returned, lambda site: site.returns)
        self._fire(segment.body, segment.stages, frame)
        state = {**state, "arrays": self._write(segment.stages, segment.body, arrays, wave, frame)}
        if segment.after:
            body = self.bodies[segment.after[0].callee]
            arguments = passed_arguments(body, segment.after, frames)
            return self._call(self.segments.index(segment) + 1, body.name, arguments, state)
        return self._return(segment.body, frame, state)

    def _call(self, back: int, callee: str, arguments: Tensors, state: dict) -> dict:
        """Calls with a new wave, to return to the segment `back`; without tokens goes on there."""
        width = tf.shape(arguments[0])[0]
        is_call = width > 0
        place = self.names.index(callee)
        depth = state["depth"] + tf.cast(is_call, tf.int32)
        entry = tf.where(is_call, [back, state["wave"]], state["stack"].read(state["depth"]))
        return {
            **state,
            "stack": state["stack"].write(depth, entry),
            "depth": depth,
            "width": width,
            "memory": state["memory"] + self.plan.bytes_kept(callee, width),
            "counter": tf.where(is_call, self.first[callee], back),
            "wave": tf.where(is_call, state["num_waves"][place], state["wave"]),
            "num_waves": state["num_waves"]
            + tf.one_hot(place, len(self.names), dtype=tf.int32) * tf.cast(is_call, tf.int32),
            "arguments": {**state["arguments"], callee: arguments},
            "returns": {**state["returns"], callee: empty(self.bodies[callee].outputs)},
        }

    def _return(self, body: str, frame: Frame, state: dict) -> dict:
        """Returns to the wave that waits."""
        outputs = [frame.get(node.output()) for node in self.bodies[body].outputs]
        waiting = state["stack"].read(state["depth"])
        return {
            **state,
            "returns": {**state["returns"], body: outputs},
            "counter": waiting[0],
            "wave": waiting[1],
            "depth": state["depth"] - 1,
            "width": tf.constant(0),
        }

    def _walk_back(self, cotangents: Tensors) -> list[tf.Tensor | None]:
        """The machine's notes from the last to the first, the gradient of each."""
        stages = range(self.plan.rounds + 2, self.plan.last_stage + 1)
        slots = self._slots(stages)
        sizes = {name: self.num_waves[place] for place, name in enumerate(self.names)}
        arrays = {
            slot: array
            for name in self.names
            for slot, array in new_arrays(
                [slot for slot in slots if slot.body == name], sizes[name], is_dynamic=False
            ).items()
        }
        slots = list(arrays)
        entrances = {name: present(body.gradient_parameters) for name, body in self.bodies.items()}
        exits = {name: present(body.gradient_outputs) for name, body in self.bodies.items()}
        entry = self.bodies[self.graph.entry]
        outputs = {name: empty(nodes) for name, nodes in entrances.items()}
        given = tensors_of_present(entry.gradient_parameters, cotangents)
        outputs[self.graph.entry] = with_open_tokens(entrances[self.graph.entry], given)
        state = {
            "outputs": outputs,
            "arguments": {name: empty(nodes) for name, nodes in exits.items()},
            "arrays": list(arrays.values()),
        }
        invariants = {
            "outputs": {name: shapes(nodes) for name, nodes in entrances.items()},
            "arguments": {name: shapes(nodes) for name, nodes in exits.items()},
            "arrays": [tf.TensorShape(None)] * len(slots),
        }

        def iterate(step: tf.Tensor, state: dict) -> tuple[tf.Tensor, dict]:
            note = self.trace.read(step)
            branches = [
                lambda segment=segment: self._step_back(segment, slots, state, note[1])
                for segment in self.segments
            ]
            return step - 1, tf.switch_case(note[0], branches)

        _, end = tf.while_loop(
            lambda step, _: step >= 0,
            iterate,
            (self.num_steps - 1, state),
            shape_invariants=(tf.TensorShape([]), invariants),
            parallel_iterations=1,
        )
        self.store.keep(dict(zip(slots, end["arrays"], strict=True)))
        found = iter(end["arguments"][self.graph.entry])
        return [None if node is None else next(found) for node in entry.gradient_outputs]

    def _step_back(
        self, segment: Segment, slots: Sequence[Slot], state: dict, wave: tf.Tensor
    ) -> dict:
        """The gradient of a segment on one wave."""
        arrays = dict(zip(slots, state["arrays"], strict=True))
        body = self.bodies[segment.body]
        num_tokens = self.store.num_tokens(segment.body, wave)
        before = self._without(segment.body, segment.gradient_stages, arrays)
        frame = self.store.frame(segment.body, wave, num_tokens, before)
        frames = {segment.body: frame}
        if segment.after:
            returned = state["arguments"][segment.after[0].callee]
            hand_back(segment.after, frames, returned, lambda site: present(site.gradient_returns))
        else:
            frame.set(present(body.gradient_parameters), state["outputs"][segment.body])
        self._fire(segment.body, segment.gradient_stages, frame)
        state = {
            **state,
            "arrays": self._write(segment.gradient_stages, segment.body, arrays, wave, frame),
        }
        if segment.before:
            callee = segment.before[0].callee
            called = self.bodies[callee]
            passed = passed_cotangents(called, segment.before, frames)
            nothing = empty(present(called.gradient_outputs))
            return {
                **state,
                "outputs": {**state["outputs"], callee: passed},
                "arguments": {**state["arguments"], callee: nothing},
            }
        found = [frame.get(node.output()) for node in present(body.gradient_outputs)]
        return {**state, "arguments": {**state["arguments"], segment.body: found}}

    def _slots(self, stages: Sequence[int]) -> list[Slot]:
        return [
            slot
            for name in self.names
            for stage in stages
            for slot in self.store.slots(name, Part(stage, is_bulk=False))
        ]

    def _without(
        self, body: str, stages: Sequence[int], arrays: dict[Slot, tf.TensorArray]
    ) -> dict[Slot, tf.TensorArray]:
        """The arrays that other segments fill."""
        own = {
            slot for stage in stages for slot in self.store.slots(body, Part(stage, is_bulk=False))
        }
        return {slot: array for slot, array in arrays.items() if slot not in own}

    def _fire(self, body: str, stages: Sequence[int], frame: Frame) -> None:
        for stage in stages:
            nodes: Sequence[Node] = self.plan.nodes.get((body, Part(stage, is_bulk=False)), ())
            frame.run(nodes)

    def _write(
        self,
        stages: Sequence[int],
        body: str,
        arrays: dict[Slot, tf.TensorArray],
        wave: tf.Tensor,
        frame: Frame,
    ) -> list[tf.TensorArray]:
        """The arrays, after what a segment keeps was written down."""
        written = dict(arrays)
        for stage in stages:
            for slot in self.store.slots(body, Part(stage, is_bulk=False)):
                written[slot] = arrays[slot].write(wave, slot.of(frame))
        return list(written.values())


def dynamic_array(dtype: tf.DType, shape: Any) -> tf.TensorArray:
    """An empty TensorArray that grows; its elements can be read again and again."""
    return tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=shape, clear_after_read=False)


def _open_shape(item: Any) -> tf.TensorShape:
    return tf.TensorShape(None) if isinstance(item, tf.TensorArray) else item.shape
