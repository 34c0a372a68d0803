"""The programs that XLA compiles: the values of a block of tokens, and their gradient.

The gradient runs each token again, with a log, and then backwards. When a frame returns, it is
written to the log. The log contains frames in the order in which they returned, and a frame comes
after the frames of the calls that it made. The gradient makes these calls in the opposite order, so
the frame of every call is the next one up the log. A frame in the log contains the arguments of its
call and the results of the calls that it made. All other values are computed from these again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.graph.carried import NUM_LABELS
from kerasrec._src.graph.graph import TaggedGraph, present
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.scalar.frame import COUNTER, MARK, FrameLayout, FrameRows, routines_of
from kerasrec._src.scalar.machine import Decision, Machine

# Tail calls take no memory that could run out, so only this bound stops endless ones.
MOST_TAIL_CALLS = 1_000_000_000
# The room with which a machine begins. Filling it with zeros costs little compared with the launch.
# If a long run needs more stack in the end, the run was wasted, so the stack begins large. A log
# that is too small ends a run early, so the log begins small.
_NUM_FRAMES = 1 << 12
_NUM_ROWS = 1 << 10


class ScalarForward:
    """Runs a program on a block of tokens.

    The mark of a frame is the number of tail calls in a row.

    Args:
        graph: A program without `ops.obstacles`.
        shared: The tensors of SHARED values.
        limits: The bounds on depth and memory.

    Attributes:
        first_size: The room with which a block begins: the number of frames on the stack.
        most: The largest room.
    """

    def __init__(self, graph: TaggedGraph, shared: dict[Value, tf.Tensor], limits: Limits):
        self.graph = graph
        self.limits = limits
        self.machine = Machine(FrameLayout(routines_of(graph)), shared)
        self.messages: dict[str, int] = {}
        self.first_size, self.most = _NUM_FRAMES, limits.max_depth

    def run(
        self, size: tf.Tensor, first: tf.Tensor, num_tokens: tf.Tensor, given: Tensors
    ) -> State:
        """Runs until the block is done, a token needs more room, or an op fails.

        Args:
            size: The room, int32.
            first: The token of the block to begin with, int32.
            num_tokens: The number of real tokens in the block, int32.
            given: The tensors given to each token, `[block]` each.

        Returns:
            A dict of `token`: int32, the one that did not finish, or `num_tokens`; `fault`: int32,
            0 unless an op failed; `results`: `[block]` each; `sums`: over the tokens that finished;
            and `labels`: int32, of the newest calls on a full stack, the newest first.
        """
        machine, entry = self.machine, self.graph.entry

        def run_token(arguments: Tensors, state: State) -> tuple[State, Tensors, tf.Tensor]:
            begun = machine.begin(state["machine"], entry, arguments, tf.constant([0]))
            (state,) = tf.while_loop(
                lambda state: _is_inside(state["machine"], size) & tf.equal(state["fault"], 0),
                lambda state: (self._step(state),),
                ({**state, "machine": begun},),
                name="steps",
            )
            is_ended = (state["machine"]["depth"] < 0) & tf.equal(state["fault"], 0)
            return state, machine.results(state["machine"], entry), is_ended

        state = {"machine": machine.idle(size), "fault": tf.constant(0)}
        outputs = self.graph.bodies[entry].outputs
        found, state = _run_tokens(run_token, state, first, num_tokens, given, outputs)
        places = state["machine"]["stack"][0].stack()[-NUM_LABELS:, COUNTER]
        labels = tf.gather(tf.constant(machine.layout.labels), tf.reverse(places, [0]))
        return {**found, "fault": state["fault"], "labels": labels, "sums": []}

    def check(self, state: State, num_tokens: tf.Tensor) -> list[tf.Operation]:
        """Returns ops that fail if an op has failed, or the stack was too small."""
        is_sound = tf.equal(state["fault"], 0)
        stopped = tf.where(is_sound & (state["token"] < num_tokens), 1, 0)
        depth, nothing = tf.constant(self.most), tf.constant(0, tf.int64)
        messages = tf.constant(["", *(f"{self.limits.name}: {item}" for item in self.messages)])
        return [
            tf.debugging.Assert(is_sound, [messages[state["fault"]]]),
            self.limits.check(self.graph, depth, stopped, nothing, lambda: state["labels"]),
        ]

    def _step(self, state: State) -> State:
        machine, fault = state["machine"], state["fault"]
        step = self.machine.look(machine["frame"])
        for name, (values, is_done) in step.frames.items():
            for message, is_fault in values.faults(self.graph.bodies[name]):
                fault = tf.where((is_done & is_fault)[0], self._number(message), fault)
        mark = machine["frame"][MARK]
        if self.machine.layout.has_tail_calls:
            mark = tf.where(step.is_tail_call, mark + 1, 0)
            most = MOST_TAIL_CALLS
            endless = f"{most:,} tail calls in a row. Does every path reach a base case?"
            fault = tf.where(tf.equal(mark[0], most), self._number(endless), fault)
        return {"machine": self.machine.move(machine, step, mark), "fault": fault}

    def _number(self, message: str) -> int:
        return self.messages.setdefault(message, len(self.messages) + 1)


class ScalarGradient:
    """Gradients of a program on a block of tokens, with the methods of `ScalarForward`.

    The mark of a frame is, on the way forward, the length of the log when it began; on the way
    back, its place in the log.

    Args:
        graph: A program without obstacles, including those of gradients.
        shared: The tensors of SHARED values.
        limits: The bounds on depth and memory.
    """

    def __init__(self, graph: TaggedGraph, shared: dict[Value, tf.Tensor], limits: Limits):
        self.graph = graph
        self.limits = limits
        self.forward = Machine(FrameLayout(routines_of(graph, keeps_frames=True)), shared)
        self.backward = Machine(FrameLayout(routines_of(graph, sweep=1)), shared)
        nodes = [node for body in graph.bodies.values() for node in body.accumulates]
        self.wanted = list(dict.fromkeys(node.to for node in nodes))
        # Tail calls nest here, since all frames are needed.
        self._nests_more = FrameLayout(routines_of(graph)).has_tail_calls
        self.first_size = _NUM_ROWS
        self.most = min(limits.max_memory // self.forward.layout.num_bytes, (1 << 31) - 1)

    def run(
        self, size: tf.Tensor, first: tf.Tensor, num_tokens: tf.Tensor, given: Tensors
    ) -> State:
        """Runs until the block is done, or a token needs a longer log or a larger stack.

        `given` are the arguments of the program, then the cotangents of its results.
        """
        num_frames = size if self._nests_more else tf.minimum(size, self.limits.max_depth)
        entry = self.graph.bodies[self.graph.entry]
        num_arguments = len(entry.parameters)

        def run_token(given: Tensors, state: State) -> tuple[State, Tensors, tf.Tensor]:
            state, num_logged = self._down(state, given[:num_arguments], num_frames, size)
            is_ended = state["forward"]["depth"] < 0
            state = self._back(state, given[num_arguments:], num_logged, is_ended)
            return state, self.backward.results(state["backward"], self.graph.entry), is_ended

        state = {
            "forward": self.forward.idle(num_frames),
            "backward": self.backward.idle(num_frames),
            "log": self.forward.layout.empty(size),
            "sums": [tf.zeros(value.type.shape or (), value.type.dtype) for value in self.wanted],
        }
        outputs = present(entry.sweeps[1].outputs)
        found, state = _run_tokens(run_token, state, first, num_tokens, given, outputs)
        return {**found, "fault": tf.constant(0), "sums": state["sums"]}

    def check(self, state: State, num_tokens: tf.Tensor) -> list[tf.Operation]:
        """Returns ops that fail if there was no more memory for the log."""
        message = (
            f"{self.limits.name}: the gradient of one token keeps more bytes than "
            f"max_memory={self.limits.max_memory}. If the recursion is meant to be that deep, "
            "raise @kerasrec.recursive(max_memory=...)."
        )
        return [tf.debugging.Assert(state["token"] >= num_tokens, [message])]

    def _down(
        self, state: State, arguments: Tensors, num_frames: tf.Tensor, num_rows: tf.Tensor
    ) -> tuple[State, tf.Tensor]:
        """Runs a token forward; returns the number of frames in the log."""
        machine, start = self.forward, tf.constant([0])

        def iterate(
            state: State, log: FrameRows, count: tf.Tensor
        ) -> tuple[State, FrameRows, tf.Tensor]:
            step = machine.look(state["frame"])
            log = machine.layout.write(log, count[0], state["frame"])
            state = machine.move(state, step, count)
            return state, log, count + tf.cast(~step.is_call, tf.int32)

        end, log, count = tf.while_loop(
            lambda state, log, count: _is_inside(state, num_frames) & (count[0] < num_rows),
            iterate,
            (
                machine.begin(state["forward"], self.graph.entry, arguments, start),
                state["log"],
                start,
            ),
            name="steps",
        )
        return {**state, "forward": end, "log": log}, count

    def _back(
        self, state: State, cotangents: Tensors, num_logged: tf.Tensor, is_ended: tf.Tensor
    ) -> State:
        """Runs a token backwards, if it has finished."""
        machine, log = self.backward, state["log"]
        last = num_logged - 1
        begun = machine.begin(state["backward"], self.graph.entry, cotangents, last)
        begun["depth"] = tf.where(is_ended, begun["depth"], -1)

        def iterate(
            state: State, above: tf.Tensor, sums: Tensors
        ) -> tuple[State, tf.Tensor, Tensors]:
            layout, mark = self.forward.layout, state["frame"][MARK]
            logged = layout.read(log, mark[0])
            step = machine.look(
                state["frame"], {name: layout.values(name, logged) for name in layout.routines}
            )
            child = above - 1
            record = tf.where(step.is_skip, child, mark)
            start = layout.read(log, tf.maximum(record[0], 0))[MARK]
            state = machine.move(state, step, child)
            return state, tf.where(step.is_call, child, start), self._added(step, sums)

        end, _, sums = tf.while_loop(
            lambda state, *_: state["depth"] >= 0,
            iterate,
            (begun, last, state["sums"]),
            name="steps_back",
        )
        return {**state, "backward": end, "sums": sums}

    def _added(self, step: Decision, sums: Tensors) -> Tensors:
        """The sums plus the contribution of the returning frame to SHARED values."""
        found = dict(zip(self.wanted, sums, strict=True))
        for name, (values, is_done) in step.frames.items():
            for node in self.graph.bodies[name].accumulates:
                gives = (is_done & values.is_alive(node.region))[0]
                part = tf.reshape(values.get(node.inputs[0]), found[node.to].shape)
                found[node.to] += tf.where(gives, part, tf.zeros_like(part))
        return list(found.values())


def _is_inside(state: State, size: tf.Tensor) -> tf.Tensor:
    """Whether a call runs, and the stack has room for its frame."""
    return (state["depth"] >= 0) & (state["depth"] < size)


def _run_tokens(
    run_token: Callable[[Tensors, State], tuple[State, Tensors, tf.Tensor]],
    state: State,
    first: tf.Tensor,
    num_tokens: tf.Tensor,
    given: Tensors,
    outputs: Sequence[Node],
) -> tuple[State, State]:
    """Runs the tokens of a block one after another, until one of them does not end.

    Args:
        run_token: Takes the values given to a token, `[1]` each, and the state; returns the state,
            the token's results, `[1]` each, and whether it has ended, a bool scalar.
        state: Other values that tokens change.
        first: The token to begin with, int32.
        num_tokens: The number of tokens, int32.
        given: The values given to each token, `[block]` each.
        outputs: The nodes of the results.

    Returns:
        A dict of `token`, the token that did not end, or `num_tokens`, and `results`, `[block]`
        each; and the state.
    """

    def iterate(
        token: tf.Tensor, _: tf.Tensor, results: list[tf.TensorArray], state: State
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.TensorArray], State]:
        arguments = [tf.gather(tensor, token)[tf.newaxis] for tensor in given]
        state, found, is_ended = run_token(arguments, state)
        results = [
            array.write(token, result[0]) for array, result in zip(results, found, strict=True)
        ]
        return token + tf.cast(is_ended, tf.int32), is_ended, results, state

    dtypes = [node.types[0].dtype for node in outputs]
    empty = [tf.TensorArray(dtype, given[0].shape[0], element_shape=[]) for dtype in dtypes]
    token, _, results, state = tf.while_loop(
        lambda token, goes_on, *_: goes_on & (token < num_tokens),
        iterate,
        (first, tf.constant(True), empty, state),
        name="tokens",
    )
    return {"token": token, "results": [rows.stack() for rows in results]}, state
