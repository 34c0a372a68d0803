"""The forward pass of the scalar engine: a block of tokens, one after another."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.graph.carried import NUM_LABELS
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.scalar.frame import FrameLayout, empty_like, routines_of
from kerasrec._src.scalar.machine import Machine

# Tail calls take no memory that could run out, so only this bound stops endless ones.
MOST_TAIL_CALLS = 1_000_000_000


class ScalarForward:
    """Runs a program on a block of tokens.

    Args:
        graph: A program without `ops.obstacles`.
        shared: The tensors of SHARED values.
    """

    def __init__(self, graph: TaggedGraph, shared: dict[Value, tf.Tensor]):
        self.graph = graph
        self.machine = Machine(FrameLayout(routines_of(graph)), shared)
        self.messages: dict[str, int] = {}

    def run(
        self, size: tf.Tensor, first: tf.Tensor, num_tokens: tf.Tensor, arguments: Tensors
    ) -> State:
        """Runs until the block is done, the stack is full, or an op fails; XLA can compile it.

        Args:
            size: The number of frames for which the stack has room, int32.
            first: The token of the block to begin with, int32.
            num_tokens: The number of real tokens in the block, int32.
            arguments: A tensor `[block]` for each argument of the program.

        Returns:
            A dict of `token`: int32, the one that did not finish, or `num_tokens`; `fault`: int32,
            the number of the message that says why an op failed, or 0; `labels`: int32, of the
            newest calls on a full stack, the newest first; `results`: `[block]` for each output.
        """
        outputs = self.graph.bodies[self.graph.entry].outputs
        state = {
            "token": first,
            "fault": tf.constant(0),
            "registers": self.machine.registers(self.machine.stack(size)),
            "results": [empty_like(arguments[0], node.types[0].dtype) for node in outputs],
        }

        def goes_on(state: State) -> tf.Tensor:
            return (state["registers"]["depth"] < size) & tf.equal(state["fault"], 0)

        def run_token(state: State) -> tuple[State]:
            (state,) = tf.while_loop(
                lambda state: (state["registers"]["depth"] >= 0) & goes_on(state),
                lambda state: (self._step(state),),
                (self._begun(state, arguments),),
                name="steps",
            )
            return (self._ended(state),)

        (state,) = tf.while_loop(
            lambda state: (state["token"] < num_tokens) & goes_on(state),
            run_token,
            (state,),
            name="tokens",
        )
        places = state["registers"]["stack"]["places"].stack()[-NUM_LABELS:, 0]
        return {
            "token": state["token"],
            "fault": state["fault"],
            "labels": tf.gather(self.machine.layout.labels, tf.reverse(places, [0])),
            "results": [rows.stack() for rows in state["results"]],
            "sums": [],
        }

    def _begun(self, state: State, arguments: Tensors) -> State:
        """Begins the call of the next token."""
        registers = state["registers"]
        given = [tf.gather(tensor, state["token"])[tf.newaxis] for tensor in arguments]
        begun = self.machine.begin(self.graph.entry, given, registers["mark"], registers)
        return {**state, "registers": begun}

    def _step(self, state: State) -> State:
        registers, fault = state["registers"], state["fault"]
        step = self.machine.look(registers, {})
        for name, (frame, returns) in step.frames.items():
            for message, is_fault in frame.faults(self.graph.bodies[name]):
                fault = tf.where((returns & is_fault)[0], self._number(message), fault)
        mark = registers["mark"]
        if self.machine.layout.has_tail_calls:  # The mark is the number of tail calls in a row.
            mark = tf.where(step.is_tail_call, mark + 1, 0)
            most = MOST_TAIL_CALLS
            endless = f"{most:,} tail calls in a row. Does every path reach a base case?"
            fault = tf.where(tf.equal(mark[0], most), self._number(endless), fault)
        moved = self.machine.move(registers, step, mark)
        return {**state, "registers": moved, "fault": fault}

    def _number(self, message: str) -> int:
        return self.messages.setdefault(message, len(self.messages) + 1)

    def _ended(self, state: State) -> State:
        """Stores the token's results, if the token has finished."""
        registers, token = state["registers"], state["token"]
        results = self.machine.results(self.graph.entry, registers)
        is_ended = (registers["depth"] < 0) & tf.equal(state["fault"], 0)
        return {
            **state,
            "token": token + tf.cast(is_ended, tf.int32),
            "results": [
                array.write(token, result[0])
                for array, result in zip(state["results"], results, strict=True)
            ],
        }
