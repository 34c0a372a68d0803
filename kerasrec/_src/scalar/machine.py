"""A stack machine for programs of plain numbers, made of ops that XLA compiles into one loop.

A frame of the stack holds a call's arguments, the results of its calls so far, and a counter: the
place in the program that it has reached. Calls of a routine are made in the order of the graph,
except that tail calls come last; calls of a branch that was not chosen are skipped. Place k of a
routine means that its first k calls are done or skipped. A step of the machine computes the whole
routine from the frame (a value that is not known yet may be anything, and nothing uses it). Then it
either makes the next call or returns. A step is straight-line code, without branches. A tail call,
with a result that is returned unchanged, takes the frame of its caller, so the stack does not grow,
however many tail calls follow each other.

The gradient is a program for the same machine (`sweeps.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import tensorflow as tf

from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.graph.values import Value
from kerasrec._src.scalar.frame import COUNTER, MARK, Frame, FrameLayout, RoutineCall, TokenValues


@dataclass
class Made:
    """A call that a step may make: whether it does, bool `[1]`, and the arguments, `[1]` each."""

    is_made: tf.Tensor
    call: RoutineCall
    arguments: Tensors


@dataclass
class Decision:
    """The decision of a step, before the machine moves.

    Args:
        calls: The calls that it may make; at most one is made.
        results: The results if it makes no call, `[1]` each, by slot.
        frames: The values of each routine, and whether this routine is done, bool `[1]`: it
            returns, or leaves that to a tail call.
    """

    calls: list[Made] = field(default_factory=list)
    results: dict[int, tf.Tensor] = field(default_factory=dict)
    frames: dict[str, tuple[TokenValues, tf.Tensor]] = field(default_factory=dict)

    @property
    def made(self) -> list[Made]:
        """The calls that pass arguments; all others are skipped."""
        return [made for made in self.calls if made.call.arguments]

    @cached_property
    def is_tail_call(self) -> tf.Tensor:
        """Whether a tail call is made, a bool scalar."""
        return _any([made for made in self.calls if made.call.is_tail])

    @cached_property
    def is_call(self) -> tf.Tensor:
        """Whether a call is made, a bool scalar."""
        return _any(self.made)

    @cached_property
    def is_skip(self) -> tf.Tensor:
        """Whether a call is skipped that passes no arguments, a bool scalar."""
        return _any([made for made in self.calls if not made.call.arguments])


class Machine:
    """Steps of the machine for one set of routines.

    Its state is a dict:

    * `depth`: int32, how many calls wait; -1 when the first has returned.
    * `frame`: the frame that runs.
    * `stack`: the frames that wait.

    Args:
        layout: The layout of the routines.
        shared: The tensors of SHARED values.
    """

    def __init__(self, layout: FrameLayout, shared: dict[Value, tf.Tensor]):
        self.layout = layout
        self.shared = shared

    def idle(self, size: tf.Tensor) -> State:
        """Returns the state before any call, with a stack that has room for `size` frames."""
        frame = [tf.zeros([1], dtype) for dtype in self.layout.dtypes]
        return {"depth": tf.constant(-1), "frame": frame, "stack": self.layout.empty(size)}

    def begin(self, state: State, routine: str, arguments: Tensors, mark: tf.Tensor) -> State:
        """Returns the state before the first step of a call from outside; arguments `[1]` each."""
        frame = [tf.constant([self.layout.first[routine]]), mark, *state["frame"][MARK + 1 :]]
        for slot, argument in zip(self._parameters(routine), arguments, strict=True):
            frame[slot] = argument
        return {**state, "depth": tf.constant(0), "frame": frame}

    def results(self, state: State, routine: str) -> Tensors:
        """Returns the results of the call from outside, `[1]` each."""
        return [state["frame"][slot] for slot in self.layout.results[routine]]

    def look(
        self, frame: Frame, known: Mapping[str, Mapping[Value, tf.Tensor]] | None = None
    ) -> Decision:
        """Finds the next call of the frame that runs, or its results.

        Args:
            frame: The frame.
            known: Further values, by routine.
        """
        step, counter = Decision(), frame[COUNTER]
        for name, routine in self.layout.routines.items():
            further = known[name] if known else {}
            values = TokenValues({**further, **self.layout.values(name, frame)}, self.shared)
            first = self.layout.first[name]
            stays = (counter >= first) & (counter <= first + len(routine.calls))
            hands_on = tf.constant([False])
            for call in routine.calls:
                is_next = stays & (counter < self.layout.places[call.label])
                is_made = is_next & values.is_alive(call.region)
                stays &= ~is_made
                if call.is_tail:
                    hands_on |= is_made
                step.calls.append(Made(is_made, call, list(map(values.get, call.arguments))))
            for slot, value in zip(self.layout.results[name], routine.outputs, strict=True):
                result = values.get(value)
                step.results[slot] = tf.where(stays, result, step.results.get(slot, result))
            step.frames[name] = (values, stays | hands_on)
        return step

    def move(self, state: State, step: Decision, mark: tf.Tensor) -> State:
        """Makes the call of a step, with a mark for the new frame; or skips it, or returns."""
        depth, layout = state["depth"], self.layout
        places = [layout.places[made.call.label] for made in step.calls]
        stays = [_chosen(step.calls, places, state["frame"][COUNTER]), *state["frame"][MARK:]]
        stack = layout.write(state["stack"], depth, stays)
        caller = layout.read(stack, tf.maximum(depth - 1, 0))
        firsts = [layout.first[made.call.callee] for made in step.made]
        called = [_chosen(step.made, firsts, stays[COUNTER]), mark, *stays[MARK + 1 :]]
        for made in step.made:
            slots = self._parameters(made.call.callee)
            _set(called, made.is_made, zip(slots, made.arguments, strict=True))
        returned = list(caller)
        for name, routine in layout.routines.items():
            for call in routine.calls:
                is_back = tf.equal(caller[COUNTER], layout.places[call.label])
                slots = [layout.slots[name][value] for value in call.results]
                results = [step.results[slot] for slot in layout.results[call.callee]]
                _set(returned, is_back, zip(slots, results, strict=bool(slots)))
        _set(returned, tf.equal(depth, 0), step.results.items())

        def next_of(on_call: tf.Tensor, on_return: tf.Tensor, on_skip: tf.Tensor) -> tf.Tensor:
            moved = tf.where(step.is_call, on_call, on_return)
            has_skips = len(step.made) < len(step.calls)
            return tf.where(step.is_skip, on_skip, moved) if has_skips else moved

        below = tf.where(step.is_tail_call, depth, depth + 1)
        return {
            "depth": next_of(below, depth - 1, depth),
            "frame": list(map(next_of, called, returned, stays)),
            "stack": stack,
        }

    def _parameters(self, routine: str) -> list[int]:
        """The slots of the arguments of a routine."""
        return [
            self.layout.slots[routine][value] for value in self.layout.routines[routine].parameters
        ]


def _any(calls: Sequence[Made]) -> tf.Tensor:
    """Whether one of the calls is made, a bool scalar."""
    return tf.reduce_any([made.is_made for made in calls]) if calls else tf.constant(False)


def _chosen(calls: Sequence[Made], numbers: Sequence[int], default: tf.Tensor) -> tf.Tensor:
    """The number of the call that is made; the default if none is."""
    for made, number in zip(calls, numbers, strict=True):
        default = tf.where(made.is_made, number, default)
    return default


def _set(frame: Frame, where: tf.Tensor, values: Iterable[tuple[int, tf.Tensor]]) -> None:
    """Sets slots of a frame if a bool `[1]` is true."""
    for slot, value in values:
        frame[slot] = tf.where(where, value, frame[slot])
