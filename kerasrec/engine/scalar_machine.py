"""A stack machine for programs of plain numbers, of ops that XLA compiles into one loop.

A frame of the stack holds a call's arguments, what its own calls have returned so far, and a
counter: the place in the program where it stands. Calls of a body are made in the order in which
they stand in the graph; those of a branch that was not chosen are left out. Place k of a body means
"the first k calls are behind us". A step of the machine computes the whole body from the frame
(what is not known yet counts as it lies, and is not looked at), and either makes the first call
that is not behind us, or returns. So there is nothing to branch on: a step is straight code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.engine.results import Tensors
from kerasrec.engine.scalar_frame import Column, Layout, ScalarFrame
from kerasrec.graph.graph import CallSite, TaggedGraph, Value


@dataclass
class _Call:
    """A call that a step may make.

    Args:
        is_made: bool `[1]`, whether it does.
        site: the call site.
        arguments: `[1]` each.
    """

    is_made: tf.Tensor
    site: CallSite
    arguments: Tensors


@dataclass
class _Return:
    """What a step gives back if it makes no call.

    Args:
        place: int32 `[1]`, where the caller stands.
        row: the caller's frame, as lists of `[1]` tensors by dtype.
        results: `[1]` each, by the column in which a result is handed over.
        is_last: bool, whether the token has come to its end.
    """

    place: tf.Tensor
    row: dict[tf.DType, Tensors]
    results: dict[Column, tf.Tensor]
    is_last: tf.Tensor


class Machine:
    """The machine for one program.

    Its state is a dict:

    * `token`: int32, the next of the block to be run; `fault`: int32, which message tells why the
      run failed, or 0.
    * `depth`: int32, how many calls wait, -1 between two tokens; `counter`: int32 `[1]`.
    * `columns`: the frame that runs, by dtype a list of `[1]` tensors.
    * `counters`: int32 `[size, 1]`, and `stacks`: by dtype `[size, width]`, the frames that wait.
    * `results`: `[block]` for each output of the program.

    Args:
        graph: a program without `scalar_ops.obstacles`.
        shared: tensors of SHARED values.
    """

    def __init__(self, graph: TaggedGraph, shared: dict[Value, tf.Tensor]):
        self.bodies = graph.bodies
        self.graph = graph
        self.entry = graph.bodies[graph.entry]
        self.shared = shared
        self.layout = Layout(graph)
        self.messages: dict[str, int] = {}

    @property
    def result_dtypes(self) -> list[tf.DType]:
        """Dtypes of the program's outputs."""
        return [node.types[0].dtype for node in self.entry.outputs]

    def first_state(self, block: int) -> dict:
        """The state before the first token of a block, with no room for frames."""
        widths = self.layout.widths
        return {
            "token": tf.constant(0),
            "depth": tf.constant(-1),
            "fault": tf.constant(0),
            "counter": tf.constant([0]),
            "columns": {dtype.name: [tf.zeros([1], dtype)] * widths[dtype] for dtype in widths},
            "counters": tf.zeros([0, 1], tf.int32),
            "stacks": {dtype.name: tf.zeros([0, widths[dtype]], dtype) for dtype in widths},
            "results": [tf.zeros([block], dtype) for dtype in self.result_dtypes],
        }

    def grown(self, state: dict, size: int) -> dict:
        """The state with room for `size` frames."""

        def grow(rows: tf.Tensor) -> tf.Tensor:
            grown = tf.pad(rows, [[0, size - tf.shape(rows)[0]], [0, 0]])
            return tf.ensure_shape(grown, [size, rows.shape[1]])

        return {
            **state,
            "counters": grow(state["counters"]),
            "stacks": {name: grow(rows) for name, rows in state["stacks"].items()},
        }

    def run(self, state: dict, arguments: Tensors, num_tokens: tf.Tensor) -> dict:
        """Runs until the block is done, the stack is full, or an op fails.

        Args:
            state: with room for some frames.
            arguments: `[block]` for each argument of the program.
            num_tokens: int32, how many of the block are real.
        """
        size = state["counters"].shape[0]

        def goes_on(state: dict) -> tf.Tensor:
            return (state["depth"] < size) & tf.equal(state["fault"], 0)

        def run_token(state: dict) -> tuple[dict]:
            (state,) = tf.while_loop(
                lambda state: (state["depth"] >= 0) & goes_on(state),
                lambda state: (self._step(state),),
                (self._begun(state, arguments),),
            )
            return (self._ended(state),)

        (state,) = tf.while_loop(
            lambda state: (state["token"] < num_tokens) & goes_on(state),
            run_token,
            (_with_arrays(state),),
        )
        return _with_tensors(state)

    def _begun(self, state: dict, arguments: Tensors) -> dict:
        """The state with the next token's arguments in its frame, unless a token is under way."""
        is_next = state["depth"] < 0
        columns = {name: list(tensors) for name, tensors in state["columns"].items()}
        for node, tensor in zip(self.entry.parameters, arguments, strict=True):
            column = self.layout.columns[node.output()]
            row = columns[column.dtype.name]
            argument = tf.gather(tensor, state["token"])[tf.newaxis]
            row[column.place] = tf.where(is_next, argument, row[column.place])
        return {
            **state,
            "depth": tf.maximum(state["depth"], 0),
            "counter": tf.where(is_next, self.layout.first[self.entry.name], state["counter"]),
            "columns": columns,
        }

    def _ended(self, state: dict) -> dict:
        """The state with the token's results written down, if it has come to its end."""
        columns = self.layout.results[self.entry.name]
        return {
            **state,
            "token": state["token"] + tf.cast(state["depth"] < 0, tf.int32),
            "results": [
                array.write(state["token"], state["columns"][column.dtype.name][column.place][0])
                for array, column in zip(state["results"], columns, strict=True)
            ],
        }

    def _step(self, state: dict) -> dict:
        """Makes the next call of the frame that runs, or returns from it."""
        depth, counter = state["depth"], state["counter"]
        calls: list[_Call] = []
        results: dict[Column, tf.Tensor] = {}
        fault = state["fault"]
        for name, body in self.bodies.items():
            first, sites = self.layout.first[name], self.layout.calls[name]
            frame = self._frame(name, state)
            stays = (counter >= first) & (counter <= first + len(sites))
            for site in sites:
                is_next = stays & (counter < self.layout.places[site.label])
                is_made = is_next & frame.is_alive(site.calls[0].region)
                stays &= ~is_made
                arguments = [frame.get(call.inputs[0]) for call in site.calls]
                calls.append(_Call(is_made, site, arguments))
            for column, node in zip(self.layout.results[name], body.outputs, strict=True):
                result = frame.get(node.output())
                results[column] = tf.where(stays, result, results.get(column, result))
            for message, is_fault in frame.faults(body):
                number = self.messages.setdefault(message, len(self.messages) + 1)
                fault = tf.where((stays & is_fault)[0], number, fault)

        is_call = tf.reduce_any([call.is_made for call in calls]) if calls else tf.constant(False)
        places = [self.layout.places[call.site.label] for call in calls]
        counters = state["counters"].write(depth, _chosen(calls, places, counter))
        stacks = {
            name: rows.write(depth, tf.concat(state["columns"][name], 0))
            for name, rows in state["stacks"].items()
        }
        caller = tf.maximum(depth - 1, 0)
        back = _Return(
            counters.read(caller),
            {
                dtype: tf.split(stacks[dtype.name].read(caller), width)
                for dtype, width in self.layout.widths.items()
            },
            results,
            tf.equal(depth, 0),
        )
        callees = [self.layout.first[call.site.callee] for call in calls]
        return {
            **state,
            "fault": fault,
            "depth": tf.where(is_call, depth + 1, depth - 1),
            "counter": tf.where(is_call, _chosen(calls, callees, back.place), back.place),
            "columns": {
                dtype.name: [
                    self._next(Column(dtype, place), is_call, calls, back) for place in range(width)
                ]
                for dtype, width in self.layout.widths.items()
            },
            "counters": counters,
            "stacks": stacks,
        }

    def _frame(self, body: str, state: dict) -> ScalarFrame:
        known = {
            value: state["columns"][column.dtype.name][column.place]
            for value, column in self.layout.columns_of(body)
        }
        return ScalarFrame(known, self.shared)

    def _next(
        self, column: Column, is_call: tf.Tensor, calls: Sequence[_Call], back: _Return
    ) -> tf.Tensor:
        """What stands in a column of the next frame: an argument, or what the caller has there."""
        found = returned = back.row[column.dtype][column.place]
        for call in calls:
            parameters = self.bodies[call.site.callee].parameters
            for node, argument in zip(parameters, call.arguments, strict=True):
                if self.layout.columns[node.output()] == column:
                    found = tf.where(call.is_made, argument, found)
            results = self.layout.results[call.site.callee]
            for node, result in zip(call.site.returns, results, strict=True):
                if self.layout.columns[node.output()] == column:
                    is_back = tf.equal(back.place, self.layout.places[call.site.label])
                    returned = tf.where(is_back, back.results[result], returned)
        if column in self.layout.results[self.entry.name]:
            returned = tf.where(back.is_last, back.results[column], returned)
        return tf.where(is_call, found, returned)


def _chosen(calls: Sequence[_Call], numbers: Sequence[int], default: tf.Tensor) -> tf.Tensor:
    """The number of the call that is made; the default if none is."""
    for call, number in zip(calls, numbers, strict=True):
        default = tf.where(call.is_made, number, default)
    return default


def _with_arrays(state: dict) -> dict:
    """The state with its tables as TensorArrays, which XLA writes in place."""

    def array(rows: tf.Tensor) -> tf.TensorArray:
        return tf.TensorArray(
            rows.dtype, rows.shape[0], element_shape=rows.shape[1:], clear_after_read=False
        ).unstack(rows)

    return {
        **state,
        "counters": array(state["counters"]),
        "stacks": {name: array(rows) for name, rows in state["stacks"].items()},
        "results": [array(rows) for rows in state["results"]],
    }


def _with_tensors(state: dict) -> dict:
    return {
        **state,
        "counters": state["counters"].stack(),
        "stacks": {name: rows.stack() for name, rows in state["stacks"].items()},
        "results": [rows.stack() for rows in state["results"]],
    }
