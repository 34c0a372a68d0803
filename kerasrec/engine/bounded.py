"""Runs any program with a bound on how many tokens run at once.

Kostopoulou's thesis of 2018, section 5.3.1, leaves open how to bound the parallelism of recursion:
calls cannot be stalled like the steps of a loop, because calls that run wait for those that were
stalled. A stack answers it. A wave that is wider than the bound is cut: its first tokens run to
their end, then the next, until all have returned. Only tokens at one depth wait for their turn, and
those whose turn it is can always go deeper.

It is the machine of `stack.py` with three changes. A call only stores the arguments at its depth; a
separate step then takes one piece after the other from there, and joins what they return. Values
are stored under the depth of their wave instead of its number, and are replaced by those of the
next wave at that depth. Nothing is kept for a backward pass. So memory grows with the depth times
the bound, and not with the number of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import tensorflow as tf

from kerasrec.engine.calls import empty
from kerasrec.engine.forward_only import ForwardOnly
from kerasrec.engine.frame import Frame
from kerasrec.engine.limits import Limits
from kerasrec.engine.plan import Part, Plan, plan
from kerasrec.engine.results import Outcome, State, Tensors
from kerasrec.engine.stack import StackRun, dynamic_array
from kerasrec.engine.store import Slot
from kerasrec.engine.sums import Sums
from kerasrec.engine.wave_run import WaveRun
from kerasrec.graph.graph import Body, TaggedGraph
from kerasrec.graph.values import Value


class BoundedRun(ForwardOnly):
    """One run of any program.

    Args:
        extended: plan of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth and width.
        waves: makes a run by the engine for its gradient.
        parallel_tokens: how many tokens may run at once.
    """

    def __init__(
        self,
        extended: Plan,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
        waves: Callable[[Plan, dict[Value, tf.Tensor], Limits], WaveRun],
        parallel_tokens: int,
    ):
        super().__init__(extended, shared, limits, waves)
        forward = plan(_forward_part(extended.graph), is_linear=False)
        self._machine = _BoundedMachine(forward, shared, limits, parallel_tokens)

    def run(self, arguments: Tensors) -> Outcome:
        """Runs all tokens, at most `parallel_tokens` at once."""
        return self._machine.forward(arguments)


def _forward_part(graph: TaggedGraph) -> TaggedGraph:
    """An extended graph without its gradient."""
    bodies = {name: replace(body, sweeps=body.sweeps[:1]) for name, body in graph.bodies.items()}
    sites = {label: replace(site, trips=site.trips[:1]) for label, site in graph.call_sites.items()}
    return TaggedGraph(bodies, graph.entry, sites, graph.shared)


class _BoundedMachine(StackRun):
    """The machine, with more registers than that of `StackRun`.

    By depth, it has:

    * `waiting`: arguments of all tokens that are called at a depth.
    * `returned`: what those that have had their turn have returned.
    * `resume`: the segment that goes on, one depth higher up, when all have returned.

    And, not by depth, `collected`: what COLLECT nodes have collected, by the number of the step.
    """

    def __init__(
        self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits, parallel_tokens: int
    ):
        super().__init__(plan, shared, limits)
        self.parallel_tokens = parallel_tokens
        self.take = {name: len(self.segments) + place for place, name in enumerate(self.names)}

    def _first_sweep(self, arguments: Tensors, sums: Sums) -> Tensors:
        self.sums = sums
        return self._walk(arguments)

    def _first_state(self, arguments: Tensors) -> State:
        """All tokens of the entry wait for their turn; the outside waits for them."""
        registers = super()._first_state(arguments)
        kept = ("wave", "depth", "width", "memory", "arguments", "returns")
        state = {
            **{name: registers[name] for name in kept},
            "counter": tf.constant(-1),
            "depth": tf.constant(-1),
            "num_collected": {name: tf.constant(0) for name in self.names},
            "resume": dynamic_array(tf.int32, []),
            "waiting": self._arrays(lambda body: [node.output() for node in body.parameters]),
            "returned": self._arrays(lambda body: [node.output() for node in body.outputs]),
            "collected": self._arrays(
                lambda body: [value for node in body.collects for value in node.inputs]
            ),
        }
        return self._call(-1, self.graph.entry, registers["arguments"][self.graph.entry], state)

    def _arrays(self, values: Callable[[Body], list[Value]]) -> dict[str, list[tf.TensorArray]]:
        return {
            name: [
                dynamic_array(value.type.dtype, value.type.tensor_shape()) for value in values(body)
            ]
            for name, body in self.bodies.items()
        }

    def _noted(self, state: State) -> State:
        """There is no later sweep that would read notes."""
        return state

    def _call(self, back: int, callee: str, arguments: Tensors, state: State) -> State:
        """Stores the arguments, one depth further down, for `_take_turns`."""
        depth = state["depth"] + 1
        nothing = empty(self.bodies[callee].outputs)
        return {
            **state,
            "counter": tf.constant(self.take[callee]),
            "depth": depth,
            "wave": depth,
            "width": tf.shape(arguments[0])[0],
            "resume": state["resume"].write(depth, back),
            "waiting": {
                **state["waiting"],
                callee: _written(state["waiting"][callee], depth, arguments),
            },
            "returned": {
                **state["returned"],
                callee: _written(state["returned"][callee], depth, nothing),
            },
            "returns": {**state["returns"], callee: nothing},
        }

    def _other_steps(self, state: State) -> list[Callable[[], State]]:
        return [partial(self._take_turns, name, state) for name in self.names]

    def _take_turns(self, callee: str, state: State) -> State:
        """Stores what a piece has returned; calls with the next, or goes on after the last."""
        depth = state["depth"]
        waiting = [array.read(depth) for array in state["waiting"][callee]]
        returned = [
            tf.concat([array.read(depth), piece], 0)
            for array, piece in zip(
                state["returned"][callee], state["returns"][callee], strict=True
            )
        ]
        start = tf.shape(returned[0])[0]
        is_done = start >= tf.shape(waiting[0])[0]
        piece = [tensor[start : start + self.parallel_tokens] for tensor in waiting]
        depth_of_next = depth - tf.cast(is_done, tf.int32)
        return {
            **state,
            "counter": tf.where(is_done, state["resume"].read(depth), self.first[callee]),
            "depth": depth_of_next,
            "wave": depth_of_next,
            "arguments": {**state["arguments"], callee: piece},
            "returns": {**state["returns"], callee: returned},
            "returned": {
                **state["returned"],
                callee: _written(state["returned"][callee], depth, returned),
            },
        }

    def _return(self, body: str, frame: Frame, state: State) -> State:
        """Passes the results to `_take_turns`, and stores what the body collects."""
        frame.run(self.plan.nodes.get((body, Part(self.plan.rounds, is_bulk=True)), ()))
        collected = [
            frame.get(value) for node in self.bodies[body].collects for value in node.inputs
        ]
        place = state["num_collected"][body]
        return {
            **state,
            "counter": tf.constant(self.take[body]),
            "returns": {
                **state["returns"],
                body: [frame.get(node.output()) for node in self.bodies[body].outputs],
            },
            "num_collected": {**state["num_collected"], body: place + 1},
            "collected": {
                **state["collected"],
                body: _written(state["collected"][body], place, collected),
            },
        }

    def _waiting(self, end: State, depth: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return end["resume"].read(depth), depth - 1

    def _place_in_call(self, end: State, body: str, wave: tf.Tensor, token: tf.Tensor) -> tf.Tensor:
        return tf.shape(end["returned"][body][0].read(wave))[0] + token

    def _ended(self, state: State, slots: Sequence[Slot]) -> Tensors:
        self.store.keep(dict(zip(slots, state["arrays"], strict=True)))
        shared = self.store.shared
        frame = Frame(self.plan, tf.constant(0), shared, shared.__getitem__)
        for name, body in self.bodies.items():
            collected = iter([array.concat() for array in state["collected"][name]])
            for node in body.collects:
                tensors = [next(collected) for _ in node.inputs]
                self.sums.collect(node, tensors, frame)
        return state["returns"][self.graph.entry]


def _written(
    arrays: Sequence[tf.TensorArray], place: tf.Tensor, tensors: Tensors
) -> list[tf.TensorArray]:
    return [array.write(place, tensor) for array, tensor in zip(arrays, tensors, strict=True)]
