"""A stack machine for programs of plain numbers, made of ops that XLA compiles into one loop.

A frame of the stack holds a call's arguments, what its own calls have returned so far, and a
counter: the place in the program that it has reached. Calls of a routine are made in the order of
the graph, except that tail calls come last; calls of a branch that was not chosen are skipped.
Place k of a routine means that its first k calls are done or skipped. A step of the machine
computes the whole routine from the frame (a value that is not known yet may be anything, and
nothing uses it). Then it either makes the next call or returns. So a step is straight-line code,
without branches. A tail call, whose result is returned unchanged, takes the frame of its caller, so
the stack does not grow, however many tail calls follow each other.

The gradient is a program for the same machine (`gradient.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.graph.values import Value
from kerasrec._src.scalar.frame import Column, FrameLayout, RoutineCall, ScalarFrame, empty_rows

Columns = dict[str, Tensors]


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
        results: The results if it makes no call, `[1]` each, by column.
        frames: The values of each routine, and whether this routine is done, bool `[1]`: it
            returns, or leaves that to a tail call.
    """

    calls: list[Made] = field(default_factory=list)
    results: dict[Column, tf.Tensor] = field(default_factory=dict)
    frames: dict[str, tuple[ScalarFrame, tf.Tensor]] = field(default_factory=dict)

    @property
    def made(self) -> list[Made]:
        """The calls that pass arguments."""
        return [item for item in self.calls if item.call.arguments]

    @property
    def left(self) -> list[Made]:
        """The calls that are skipped."""
        return [item for item in self.calls if not item.call.arguments]

    @property
    def is_tail_call(self) -> tf.Tensor:
        """Whether a tail call is made, a bool scalar."""
        return _any([item for item in self.calls if item.call.is_tail])

    @property
    def is_call(self) -> tf.Tensor:
        """Whether a call is made, a bool scalar."""
        return _any(self.made)

    @property
    def is_left(self) -> tf.Tensor:
        """Whether a call is skipped, a bool scalar."""
        return _any(self.left)


class Machine:
    """Steps of the machine for one set of routines.

    Its registers are a dict:

    * `depth`: int32, how many calls wait; -1 when the first has returned.
    * `counter`: int32 `[1]`, the place in the program.
    * `mark`: int32 `[1]`, a number that stays with the frame, for the code that uses the machine.
    * `columns`: the frame that runs, by dtype a list of `[1]` tensors.
    * `stack`: TensorArrays of frames that wait, by dtype `[size, width]`, and `places`,
      `[size, 2]`: counter and mark.

    Args:
        layout: The layout of the routines.
        shared: The tensors of SHARED values.
    """

    def __init__(self, layout: FrameLayout, shared: dict[Value, tf.Tensor]):
        self.layout = layout
        self.shared = shared

    def stack(self, size: tf.Tensor) -> dict[str, tf.TensorArray]:
        """Makes an empty stack, with room for `size` frames."""
        return {"places": empty_rows(size, 2, tf.int32), **self.layout.empty_frames(size)}

    def registers(self, stack: dict[str, tf.TensorArray]) -> State:
        """Returns the registers before any call."""
        widths = self.layout.widths
        return {
            "depth": tf.constant(-1),
            "counter": tf.constant([0]),
            "mark": tf.constant([0]),
            "columns": {dtype.name: [tf.zeros([1], dtype)] * widths[dtype] for dtype in widths},
            "stack": stack,
        }

    def begin(self, routine: str, arguments: Tensors, mark: tf.Tensor, registers: State) -> State:
        """Returns registers before the first step of a call from outside; arguments `[1]` each."""
        columns = {name: list(tensors) for name, tensors in registers["columns"].items()}
        values = self.layout.routines[routine].parameters
        for value, argument in zip(values, arguments, strict=True):
            column = self.layout.columns[routine][value]
            columns[column.dtype.name][column.place] = argument
        return {
            **registers,
            "depth": tf.constant(0),
            "counter": tf.constant([self.layout.first[routine]]),
            "mark": mark,
            "columns": columns,
        }

    def results(self, routine: str, registers: State) -> Tensors:
        """Returns the results of the call from outside, `[1]` each."""
        return [
            registers["columns"][column.dtype.name][column.place]
            for column in self.layout.results[routine]
        ]

    def look(self, registers: State, known: dict[str, dict[Value, tf.Tensor]]) -> Decision:
        """Finds the next call of the running frame, or its results.

        Args:
            registers: The registers of the machine.
            known: Further values, by routine.
        """
        step = Decision()
        counter = registers["counter"]
        for name, routine in self.layout.routines.items():
            held = self.layout.read(name, registers["columns"])
            frame = ScalarFrame({**known.get(name, {}), **held}, self.shared)
            first = self.layout.first[name]
            stays = (counter >= first) & (counter <= first + len(routine.calls))
            hands_on = tf.constant([False])
            for call in routine.calls:
                is_next = stays & (counter < self.layout.places[call.label])
                is_made = is_next & frame.is_alive(call.region)
                stays &= ~is_made
                if call.is_tail:
                    hands_on |= is_made
                step.calls.append(Made(is_made, call, [frame.get(item) for item in call.arguments]))
            for column, value in zip(self.layout.results[name], routine.outputs, strict=True):
                result = frame.get(value)
                step.results[column] = tf.where(stays, result, step.results.get(column, result))
            step.frames[name] = (frame, stays | hands_on)
        return step

    def move(self, registers: State, step: Decision, mark: tf.Tensor) -> State:
        """Makes the call of a step, with a mark for the new frame; or skips it, or returns."""
        depth, stack = registers["depth"], registers["stack"]
        is_call, is_left = step.is_call, step.is_left
        places = [self.layout.places[item.call.label] for item in step.calls]
        here = _chosen(step.calls, places, registers["counter"])
        written = {
            name: rows.write(depth, tf.concat(registers["columns"][name], 0))
            for name, rows in stack.items()
            if name != "places"
        }
        written["places"] = stack["places"].write(depth, tf.concat([here, registers["mark"]], 0))
        caller = tf.maximum(depth - 1, 0)
        place, caller_mark = tf.split(written["places"].read(caller), 2)
        row = {
            dtype.name: tf.split(written[dtype.name].read(caller), width)
            for dtype, width in self.layout.widths.items()
        }
        callees = [self.layout.first[item.call.callee] for item in step.made]
        returned = self._returned(step, row, place, tf.equal(depth, 0))
        called = self._called(step.made, registers["columns"])

        def next_of(on_call: tf.Tensor, on_return: tf.Tensor, stays: tf.Tensor) -> tf.Tensor:
            moved = tf.where(is_call, on_call, on_return)
            return tf.where(is_left, stays, moved) if step.left else moved

        return {
            **registers,
            "depth": next_of(tf.where(step.is_tail_call, depth, depth + 1), depth - 1, depth),
            "counter": next_of(_chosen(step.made, callees, here), place, here),
            "mark": next_of(mark, caller_mark, registers["mark"]),
            "columns": tf.nest.map_structure(next_of, called, returned, registers["columns"]),
            "stack": written,
        }

    def _called(self, made: Sequence[Made], columns: Columns) -> Columns:
        """The frame of the call that is made."""
        found = {name: list(tensors) for name, tensors in columns.items()}
        for item in made:
            callee = item.call.callee
            values = self.layout.routines[callee].parameters
            for value, argument in zip(values, item.arguments, strict=True):
                column = self.layout.columns[callee][value]
                row = found[column.dtype.name]
                row[column.place] = tf.where(item.is_made, argument, row[column.place])
        return found

    def _returned(
        self, step: Decision, row: Columns, place: tf.Tensor, is_last: tf.Tensor
    ) -> Columns:
        """The frame of the caller, with the results in it; for the outside, only the results."""
        found = {name: list(tensors) for name, tensors in row.items()}
        for name, routine in self.layout.routines.items():
            for call in routine.calls:
                is_back = tf.equal(place, self.layout.places[call.label])
                pairs = zip(
                    call.results, self.layout.results[call.callee], strict=bool(call.results)
                )
                for value, result in pairs:
                    column = self.layout.columns[name][value]
                    tensors = found[column.dtype.name]
                    kept = tensors[column.place]
                    tensors[column.place] = tf.where(is_back, step.results[result], kept)
        for column, result in step.results.items():
            tensors = found[column.dtype.name]
            tensors[column.place] = tf.where(is_last, result, tensors[column.place])
        return found


def _any(made: Sequence[Made]) -> tf.Tensor:
    """Whether one of the calls is made, a bool scalar."""
    return tf.reduce_any([item.is_made for item in made]) if made else tf.constant(False)


def _chosen(calls: Sequence[Made], numbers: Sequence[int], default: tf.Tensor) -> tf.Tensor:
    """The number of the call that is made; the default if none is."""
    for item, number in zip(calls, numbers, strict=True):
        default = tf.where(item.is_made, number, default)
    return default
