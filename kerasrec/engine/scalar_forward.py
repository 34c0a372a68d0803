"""The scalar engine's way forward: a block of tokens, one after the other."""

from __future__ import annotations

import tensorflow as tf

from kerasrec.engine.results import Tensors
from kerasrec.engine.scalar_frame import Layout, forward_routines
from kerasrec.engine.scalar_machine import Machine, array_of, grown
from kerasrec.graph.graph import TaggedGraph, Value


class Forward:
    """Runs a program on a block of tokens.

    Its state is a dict, so that a run that was stopped goes on with more room:

    * `token`: int32, the next of the block; `fault`: int32, which message tells why an op failed,
      or 0.
    * `registers`: of the machine, for the token that is under way.
    * `results`: `[block]` for each output.

    Args:
        graph: a program without `scalar_ops.obstacles`.
        shared: tensors of SHARED values.
    """

    def __init__(self, graph: TaggedGraph, shared: dict[Value, tf.Tensor]):
        self.graph = graph
        self.machine = Machine(Layout(forward_routines(graph)), shared)
        self.messages: dict[str, int] = {}

    def first_state(self, block: int) -> dict:
        """The state before the first token, with no room for frames."""
        outputs = self.graph.bodies[self.graph.entry].outputs
        return {
            "token": tf.constant(0),
            "fault": tf.constant(0),
            "registers": self.machine.registers(),
            "results": [tf.zeros([block], node.types[0].dtype) for node in outputs],
        }

    def grown(self, state: dict, size: tf.Tensor) -> dict:
        """The state with room for `size` frames."""
        registers = state["registers"]
        stack = grown(registers["stack"], size)
        return {**state, "registers": {**registers, "stack": stack}}

    def run(self, state: dict, arguments: Tensors, num_tokens: tf.Tensor) -> dict:
        """Runs until the block is done, the stack is full, or an op fails; XLA can compile it.

        Args:
            state: with room for some frames.
            arguments: `[block]` for each argument of the program.
            num_tokens: int32, how many of the block are real.
        """
        registers = state["registers"]
        size = tf.shape(registers["stack"]["places"])[0]
        stack = tf.nest.map_structure(array_of, registers["stack"])
        state = {
            **state,
            "registers": {**registers, "stack": stack},
            "results": tf.nest.map_structure(array_of, state["results"]),
        }

        def goes_on(state: dict) -> tf.Tensor:
            return (state["registers"]["depth"] < size) & tf.equal(state["fault"], 0)

        def run_token(state: dict) -> tuple[dict]:
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
        stack = {name: rows.stack() for name, rows in state["registers"]["stack"].items()}
        return {
            **state,
            "registers": {**state["registers"], "stack": stack},
            "results": [
                tf.ensure_shape(rows.stack(), arguments[0].shape) for rows in state["results"]
            ],
        }

    def _begun(self, state: dict, arguments: Tensors) -> dict:
        """The state with the next token's call begun, unless one is under way."""
        old = state["registers"]
        given = [tf.gather(tensor, state["token"])[tf.newaxis] for tensor in arguments]
        new = self.machine.begin(self.graph.entry, given, old["mark"], old)
        is_next = old["depth"] < 0
        chosen = {
            name: tf.nest.map_structure(
                lambda one, other: tf.where(is_next, one, other), new[name], old[name]
            )
            for name in ("depth", "counter", "columns")
        }
        return {**state, "registers": {**old, **chosen}}

    def _step(self, state: dict) -> dict:
        registers, fault = state["registers"], state["fault"]
        step = self.machine.look(registers, {})
        for name, (frame, returns) in step.frames.items():
            for message, is_fault in frame.faults(self.graph.bodies[name]):
                number = self.messages.setdefault(message, len(self.messages) + 1)
                fault = tf.where((returns & is_fault)[0], number, fault)
        moved = self.machine.move(registers, step, registers["mark"])
        return {**state, "registers": moved, "fault": fault}

    def _ended(self, state: dict) -> dict:
        """The state with the token's results written down, if it has come to its end."""
        registers, token = state["registers"], state["token"]
        results = self.machine.results(self.graph.entry, registers)
        return {
            **state,
            "token": token + tf.cast(registers["depth"] < 0, tf.int32),
            "results": [
                array.write(token, result[0])
                for array, result in zip(state["results"], results, strict=True)
            ],
        }
