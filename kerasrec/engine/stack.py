"""Runs any program: a machine with a stack of waves that wait for a return.

Where a body calls, and calls again with what was returned, its waves do not lie in a line but form
a tree, and the machine walks it: a segment of a body runs on one wave; if it calls, the wave waits
on a stack while the wave it called runs; when that returns, the next segment runs. One
`tf.while_loop` holds it, with the segments as the branches of a `tf.switch_case`.

The gradient is the same walk backwards. The machine has noted which segment it ran on which wave,
and the gradient's segments follow the notes from the last to the first: so each finds what its
callee's gradient returned, and needs no stack. Sweeps of further derivatives follow the notes, too,
those of even number from the first to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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
from kerasrec.engine.results import State, Tensors
from kerasrec.engine.segments import Segment, segments_of
from kerasrec.engine.store import Slot, TokensSlot, new_arrays
from kerasrec.engine.sums import Sums
from kerasrec.engine.wave_run import WaveRun
from kerasrec.graph.graph import present
from kerasrec.graph.values import Value


class StackRun(WaveRun):
    """One run of any program; arguments as for `WaveRun`."""

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits):
        super().__init__(plan, shared, limits)
        self.names = list(self.bodies)
        self.segments = segments_of(plan)
        self.first = {
            item.body: place for place, item in enumerate(self.segments) if not item.place
        }
        self.trace: tf.TensorArray
        self.num_steps: tf.Tensor
        self.num_waves: tf.Tensor

    def notes(self) -> tf.Tensor:
        """What `forward` ran; the number of a segment says what."""
        return self.trace.stack()

    def _first_sweep(self, arguments: Tensors, sums: Sums) -> Tensors:
        outputs = self._walk(arguments)
        self.store.run_bulk(self.plan.last_stage(0), sums)
        return outputs

    def _later_sweep(self, index: int, given: Sequence[tf.Tensor | None], sums: Sums) -> Tensors:
        outputs = self._walk_again(index, given)
        self.store.run_bulk(self.plan.last_stage(index), sums)
        return outputs

    def _walk(self, arguments: Tensors) -> Tensors:
        """The machine. A step runs the segment `counter` on the wave `wave` of its body."""
        slots = self._slots(0)
        state = self._first_state(arguments)
        state["arrays"] = list(new_arrays(slots, 0, is_dynamic=True).values())

        def goes_on(state: State) -> tf.Tensor:
            return (state["counter"] >= 0) & self.limits.allow(
                state["depth"], state["width"], state["memory"]
            )

        def iterate(state: State) -> tuple[State]:
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

    def _first_state(self, arguments: Tensors) -> State:
        """The machine before its first step.

        The stack holds (segment, wave) pairs that wait for a return; its lowest entry is the
        outside, segment -1. Registers hold what a callee gets and what it returns; they are read
        by the step after the one that wrote them.
        """
        entry = self.graph.entry
        empties = {name: empty(body.parameters) for name, body in self.bodies.items()}
        return {
            "counter": tf.constant(self.first[entry]),
            "wave": tf.constant(0),
            "depth": tf.constant(0),
            "width": tf.shape(arguments[0])[0],
            "memory": self.plan.bytes_kept(entry, tf.shape(arguments[0])[0]),
            "num_waves": tf.one_hot(self.names.index(entry), len(self.names), dtype=tf.int32),
            "step": tf.constant(0),
            "arguments": {**empties, entry: arguments},
            "returns": {name: empty(body.outputs) for name, body in self.bodies.items()},
            "stack": dynamic_array(tf.int32, [2]).write(0, [-1, 0]),
            "trace": dynamic_array(tf.int32, [3]),
        }

    def _invariants(self, state: State) -> State:
        found: dict[str, Any] = tf.nest.map_structure(_open_shape, state)
        for name, body in self.bodies.items():
            found["arguments"][name] = shapes(body.parameters)
            found["returns"][name] = shapes(body.outputs)
        return found

    def _noted(self, state: State) -> State:
        """The state with a note for later sweeps: which segment runs on which wave, how deep."""
        note = [state["counter"], state["wave"], state["depth"]]
        trace = state["trace"].write(state["step"], note)
        return {**state, "trace": trace, "step": state["step"] + 1}

    def _other_steps(self, state: State) -> list[Callable[[], State]]:
        """Steps that are not those of a segment; there are none here."""
        return []

    def _ended(self, state: State, slots: Sequence[Slot]) -> Tensors:
        """Stores what later sweeps read; returns the outputs of the program."""
        self.num_steps = state["step"]
        self.trace = state["trace"]
        self.num_waves = state["num_waves"]
        self.store.keep(dict(zip(slots, state["arrays"], strict=True)))
        return state["returns"][self.graph.entry]

    def _tag(self, end: State) -> tf.Tensor:
        """The tag of a token that was not called, from the waves that wait for a return."""
        returning = [segment for segment in self.segments if segment.before]
        if not returning:
            return tf.zeros([0], tf.int32)

        def caller(depth: tf.Tensor, state: Scalars) -> tuple[tf.Tensor, Scalars]:
            back, wave = self._waiting(end, depth)

            def of(segment: Segment) -> Scalars:
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

    def _waiting(self, end: State, depth: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The segment that goes on when the calls at a depth return, and its wave."""
        entry = end["stack"].read(depth)
        return entry[0], entry[1]

    def _place_in_call(self, end: State, body: str, wave: tf.Tensor, token: tf.Tensor) -> tf.Tensor:
        """Place of a wave's token among all that were called with it."""
        return token

    def _step(self, segment: Segment, slots: Sequence[Slot], state: State) -> State:
        """Runs a segment on one wave and sets what runs next."""
        wave = state["wave"]
        arrays = dict(zip(slots, state["arrays"], strict=True))
        if segment.place == 0:
            given = apart(state["arguments"][segment.body])
            num_tokens = tf.shape(given[0])[0]
        else:
            num_tokens = arrays[TokensSlot(segment.body)].read(wave)[0]
        before = self._without(segment, 0, arrays)
        frame = self.store.frame(segment.body, wave, num_tokens, before)
        frames = {segment.body: frame}
        if segment.place == 0:
            frame.set(self.bodies[segment.body].parameters, given)
        else:
            returned = apart(state["returns"][segment.before[0].callee])
            hand_back(0, segment.before, frames, returned)
        self._fire(segment, 0, frame)
        state = {**state, "arrays": self._write(segment, 0, arrays, wave, frame)}
        if segment.after:
            body = self.bodies[segment.after[0].callee]
            arguments = passed(body, 0, segment.after, frames)
            return self._call(self.segments.index(segment) + 1, body.name, arguments, state)
        return self._return(segment.body, frame, state)

    def _call(self, back: int, callee: str, arguments: Tensors, state: State) -> State:
        """Calls with a new wave, to return to the segment `back`; without tokens, goes there."""
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

    def _return(self, body: str, frame: Frame, state: State) -> State:
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

    def _walk_again(self, index: int, given: Sequence[tf.Tensor | None]) -> Tensors:
        """A later sweep: the steps that the machine has noted, for an odd sweep the last first."""
        slots = self._slots(index)
        sizes = {name: self.num_waves[place] for place, name in enumerate(self.names)}
        arrays = {
            slot: array
            for name in self.names
            for slot, array in new_arrays(
                [slot for slot in slots if slot.body == name], sizes[name], is_dynamic=False
            ).items()
        }
        slots = list(arrays)
        sweeps = {name: body.sweeps[index] for name, body in self.bodies.items()}
        entrances = {name: present(sweep.parameters) for name, sweep in sweeps.items()}
        exits = {name: present(sweep.outputs) for name, sweep in sweeps.items()}
        entry = self.graph.entry
        tensors = tensors_of_present(sweeps[entry].parameters, given)
        arguments = {name: empty(nodes) for name, nodes in entrances.items()}
        state = {
            "arguments": {**arguments, entry: tensors},
            "returns": {name: empty(nodes) for name, nodes in exits.items()},
            "arrays": list(arrays.values()),
        }
        invariants = {
            "arguments": {name: shapes(nodes) for name, nodes in entrances.items()},
            "returns": {name: shapes(nodes) for name, nodes in exits.items()},
            "arrays": [tf.TensorShape(None)] * len(slots),
        }
        first, step = (self.num_steps - 1, -1) if index % 2 else (tf.constant(0), 1)

        def iterate(place: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
            note = self.trace.read(place)
            branches = [
                lambda segment=segment: self._step_again(segment, index, slots, state, note[1])
                for segment in self.segments
            ]
            return place + step, tf.switch_case(note[0], branches)

        _, end = tf.while_loop(
            lambda place, _: (place >= 0) & (place < self.num_steps),
            iterate,
            (first, state),
            shape_invariants=(tf.TensorShape([]), invariants),
            parallel_iterations=1,
        )
        self.store.keep(dict(zip(slots, end["arrays"], strict=True)))
        return end["returns"][entry]

    def _step_again(
        self, segment: Segment, index: int, slots: Sequence[Slot], state: State, wave: tf.Tensor
    ) -> State:
        """A segment of a later sweep on one wave."""
        arrays = dict(zip(slots, state["arrays"], strict=True))
        sweep = self.bodies[segment.body].sweeps[index]
        num_tokens = self.store.num_tokens(segment.body, wave)
        others = self._without(segment, index, arrays)
        frame = self.store.frame(segment.body, wave, num_tokens, others)
        frames = {segment.body: frame}
        before, after = segment.before_in(index), segment.after_in(index)
        if before:
            hand_back(index, before, frames, apart(state["returns"][before[0].callee]))
        else:
            frame.set(present(sweep.parameters), apart(state["arguments"][segment.body]))
        self._fire(segment, index, frame)
        state = {**state, "arrays": self._write(segment, index, arrays, wave, frame)}
        if after:
            callee = self.bodies[after[0].callee]
            arguments = passed(callee, index, after, frames)
            nothing = empty(present(callee.sweeps[index].outputs))
            return {
                **state,
                "arguments": {**state["arguments"], callee.name: arguments},
                "returns": {**state["returns"], callee.name: nothing},
            }
        found = [frame.get(node.output()) for node in present(sweep.outputs)]
        return {**state, "returns": {**state["returns"], segment.body: found}}

    def _slots(self, index: int) -> list[Slot]:
        """What the loop of a sweep stores."""
        stages = range(self.plan.first_stage(index), self.plan.last_stage(index) + 1)
        return [slot for name in self.names for slot in self._slots_of(name, stages)]

    def _slots_of(self, body: str, stages: Sequence[int]) -> list[Slot]:
        return [
            slot for stage in stages for slot in self.store.slots(body, Part(stage, is_bulk=False))
        ]

    def _without(
        self, segment: Segment, index: int, arrays: dict[Slot, tf.TensorArray]
    ) -> dict[Slot, tf.TensorArray]:
        """The arrays that other segments fill."""
        own = set(self._slots_of(segment.body, segment.stages[index]))
        return {slot: array for slot, array in arrays.items() if slot not in own}

    def _fire(self, segment: Segment, index: int, frame: Frame) -> None:
        for stage in segment.stages[index]:
            frame.run(self.plan.nodes.get((segment.body, Part(stage, is_bulk=False)), ()))

    def _write(
        self,
        segment: Segment,
        index: int,
        arrays: dict[Slot, tf.TensorArray],
        wave: tf.Tensor,
        frame: Frame,
    ) -> list[tf.TensorArray]:
        """The arrays with what a segment keeps written into them."""
        written = dict(arrays)
        for slot in self._slots_of(segment.body, segment.stages[index]):
            written[slot] = arrays[slot].write(wave, slot.of(frame))
        return list(written.values())


def dynamic_array(dtype: tf.DType, shape: Any) -> tf.TensorArray:
    """An empty TensorArray that grows; its elements can be read again and again."""
    return tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=shape, clear_after_read=False)


def _open_shape(item: Any) -> tf.TensorShape:
    return tf.TensorShape(None) if isinstance(item, tf.TensorArray) else item.shape
