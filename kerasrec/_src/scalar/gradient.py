"""The backward pass of the scalar engine: each token runs again, with a log, and then backwards.

When a frame returns, it is written to the log. So the log contains frames in the order in which
they returned, and a frame comes after the frames of the calls that it made. The gradient makes
these calls in the opposite order, so the frame of every call is the next one up the log. A frame in
the log contains the arguments of its call and the results of the calls that it made. All other
values are computed from these again.
"""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.graph.graph import TaggedGraph, present
from kerasrec._src.graph.values import Value
from kerasrec._src.scalar.frame import FrameLayout, empty_like, empty_rows, routines_of
from kerasrec._src.scalar.machine import Machine


class ScalarGradient:
    """Gradients of a program on a block of tokens.

    Args:
        graph: A program without obstacles, including those of gradients.
        shared: The tensors of SHARED values.
    """

    def __init__(self, graph: TaggedGraph, shared: dict[Value, tf.Tensor]):
        self.graph = graph
        self.entry = graph.bodies[graph.entry]
        self.forward = Machine(FrameLayout(routines_of(graph, keeps_frames=True)), shared)
        self.backward = Machine(FrameLayout(routines_of(graph, sweep=1)), shared)
        nodes = [node for body in graph.bodies.values() for node in body.accumulates]
        self.wanted = list(dict.fromkeys(node.to for node in nodes))

    @property
    def has_tail_calls(self) -> bool:
        """Whether the program has tail calls, which nest here, but not when only values run."""
        return FrameLayout(routines_of(self.graph)).has_tail_calls

    @property
    def row_bytes(self) -> int:
        """The number of bytes of a row of the log."""
        return self.forward.layout.row_bytes + tf.int32.size

    def run(
        self,
        num_frames: tf.Tensor,
        num_rows: tf.Tensor,
        first: tf.Tensor,
        num_tokens: tf.Tensor,
        arguments: Tensors,
        cotangents: Tensors,
    ) -> State:
        """Runs until the block is done or a token needs more room; XLA can compile it.

        Args:
            num_frames: The number of frames for which the stacks have room, int32.
            num_rows: The number of frames for which the log has room, int32.
            first: The token of the block to begin with, int32.
            num_tokens: The number of real tokens in the block, int32.
            arguments: A tensor `[block]` for each argument of the program.
            cotangents: A tensor `[block]` for each output that has a cotangent.

        Returns:
            A dict of `token`: int32, the one that did not finish, or `num_tokens`; `results`:
            `[block]` for each argument that has a gradient; `sums`: for each SHARED value, its
            gradient over the tokens that finished.
        """
        outputs = present(self.entry.sweeps[1].outputs)
        state = {
            "token": first,
            "is_full": tf.constant(False),
            "forward": self.forward.stack(num_frames),
            "backward": self.backward.stack(num_frames),
            # Frames by dtype; `start` is the length of the log when the frame began.
            "log": {
                "start": empty_rows(num_rows, 1, tf.int32),
                **self.forward.layout.empty_frames(num_rows),
            },
            "results": [empty_like(arguments[0], node.types[0].dtype) for node in outputs],
            "sums": [tf.zeros(value.type.shape or (), value.type.dtype) for value in self.wanted],
        }

        def run_token(state: State) -> tuple[State]:
            token = state["token"]
            given = [tf.gather(tensor, token)[tf.newaxis] for tensor in arguments]
            state, num_logged = self._down(state, given)
            given = [tf.gather(tensor, token)[tf.newaxis] for tensor in cotangents]
            return (self._back(state, given, num_logged),)

        (state,) = tf.while_loop(
            lambda state: (state["token"] < num_tokens) & ~state["is_full"],
            run_token,
            (state,),
            name="tokens",
        )
        return {
            "token": state["token"],
            "fault": tf.constant(0),
            "results": [rows.stack() for rows in state["results"]],
            "sums": state["sums"],
        }

    def _down(self, state: State, arguments: Tensors) -> tuple[State, tf.Tensor]:
        """Runs a token forward; returns the number of frames in the log."""
        size, num_rows = state["forward"]["places"].size(), state["log"]["start"].size()
        start = tf.constant([0])
        registers = self.forward.registers(state["forward"])
        registers = self.forward.begin(self.graph.entry, arguments, start, registers)

        def goes_on(registers: State, log: State, count: tf.Tensor) -> tf.Tensor:
            depth = registers["depth"]
            return (depth >= 0) & (depth < size) & (count[0] < num_rows)

        def iterate(
            registers: State, log: State, count: tf.Tensor
        ) -> tuple[State, State, tf.Tensor]:
            step = self.forward.look(registers, {})
            row = {name: tf.concat(columns, 0) for name, columns in registers["columns"].items()}
            row["start"] = registers["mark"]
            log = {name: rows.write(count[0], row[name]) for name, rows in log.items()}
            registers = self.forward.move(registers, step, count)
            return registers, log, count + tf.cast(~step.is_call, tf.int32)

        registers, log, count = tf.while_loop(
            goes_on, iterate, (registers, state["log"], start), name="steps"
        )
        is_full = registers["depth"] >= 0
        return {**state, "is_full": is_full, "forward": registers["stack"], "log": log}, count

    def _back(self, state: State, cotangents: Tensors, num_logged: tf.Tensor) -> State:
        """Runs a token backwards, if it has finished."""
        log = state["log"]
        registers = self.backward.registers(state["backward"])
        last = num_logged - 1
        registers = self.backward.begin(self.graph.entry, cotangents, last, registers)
        registers["depth"] = tf.where(state["is_full"], -1, registers["depth"])

        def iterate(
            registers: State, above: tf.Tensor, sums: Tensors
        ) -> tuple[State, tf.Tensor, Tensors]:
            known = self._logged(log, registers["mark"][0])
            step = self.backward.look(registers, known)
            child = above - 1
            record = tf.where(step.is_left, child, registers["mark"])
            start = log["start"].read(tf.maximum(record[0], 0))
            sums = self._added(step.frames, sums)
            registers = self.backward.move(registers, step, child)
            return registers, tf.where(step.is_call, child, start), sums

        registers, _, sums = tf.while_loop(
            lambda registers, *_: registers["depth"] >= 0,
            iterate,
            (registers, last, state["sums"]),
            name="steps_back",
        )
        results = self.backward.results(self.graph.entry, registers)
        return {
            **state,
            "token": state["token"] + tf.cast(~state["is_full"], tf.int32),
            "backward": registers["stack"],
            "results": [
                array.write(state["token"], result[0])
                for array, result in zip(state["results"], results, strict=True)
            ],
            "sums": sums,
        }

    def _logged(self, log: State, record: tf.Tensor) -> dict[str, dict[Value, tf.Tensor]]:
        """The values of a frame when it returned, for each body whose frame it may be."""
        layout = self.forward.layout
        rows = {
            dtype.name: tf.split(log[dtype.name].read(record), width)
            for dtype, width in layout.widths.items()
        }
        return {name: layout.read(name, rows) for name in layout.routines}

    def _added(self, frames: State, sums: Tensors) -> Tensors:
        """The sums plus what the frame that returns contributes to SHARED values."""
        found = dict(zip(self.wanted, sums, strict=True))
        for name, (frame, returns) in frames.items():
            for node in self.graph.bodies[name].accumulates:
                value = node.to
                gives = (returns & frame.is_alive(node.region))[0]
                part = tf.reshape(frame.get(node.inputs[0]), found[value].shape)
                found[value] += tf.where(gives, part, tf.zeros_like(part))
        return list(found.values())
