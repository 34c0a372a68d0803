"""Runs any program: a machine of queues.

Each call is a frame. A frame waits for the calls that it has made; when the last of them has
returned, it stands in the queue of its next place. The machine takes a queue and fires all of its
frames as one block, wherever in the recursion they are: the papers' firing rule (Kostopoulou et
al., section 2.2), for all tokens of a place at once. New frames stand in the queue of place 0 of
their body. One `tf.while_loop` holds it, with the places as the branches of a `tf.switch_case`.

The machine notes its blocks. Later sweeps go through the same blocks again, the gradient from the
last to the first: so each frame finds there what its callees' gradients returned.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial

import tensorflow as tf

from kerasrec.engine.blocks import Blocks
from kerasrec.engine.calls import tensors_of_present
from kerasrec.engine.layout import FRAME
from kerasrec.engine.places import QueuePlan
from kerasrec.engine.queue_again import Again, Trace
from kerasrec.engine.queue_state import count, first_state, invariants, next_place, waiting
from kerasrec.engine.queue_step import Step
from kerasrec.graph.graph import order_of, present
from kerasrec.graph.values import Region, Value
from kerasrec.schedule.build import regions_of
from kerasrec.waves.barriers import with_open_tokens
from kerasrec.waves.limits import Limits
from kerasrec.waves.one_of import one_of
from kerasrec.waves.results import Outcome, State, Tensors
from kerasrec.waves.store import joined
from kerasrec.waves.sums import Sums
from kerasrec.waves.tags import Scalars, walk_up


class QueueRun:
    """One run of any program.

    With a bound, a block takes that many frames at most, the newest first, and a frame is forgotten
    when what was called with it has returned. So only frames of one block wait for their turn at
    each depth: memory grows with the depth times the bound, and not with the number of calls. The
    2018 thesis, section 5.3.1, leaves open how to bound the parallelism of recursion: calls cannot
    be stalled like the steps of a loop, because calls that run wait for those that were stalled.
    Here those whose turn it is can always go deeper. There are no later sweeps then.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth, width and memory.
        bound: how many frames run at once; None for all.
    """

    def __init__(
        self,
        plan: QueuePlan,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
        bound: int | None = None,
    ):
        self.plan: QueuePlan = plan
        self.graph = plan.graph
        self.bodies = plan.graph.bodies
        self.limits = limits
        self.bound = bound
        self.shared = shared
        self.blocks = Blocks(plan, shared)
        self.recorded: list[Region | str] = []
        self.num_roots: tf.Tensor
        self.trace: Trace
        self.record: tf.TensorArray

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0 on flat arguments, `[tokens, ...]` each."""
        sums = Sums()
        outputs = self._first_sweep(with_open_tokens(arguments), sums)
        return Outcome({0: with_open_tokens(outputs)}, sums.tables())

    def backward(
        self, given: Sequence[Sequence[tf.Tensor | None]], shared: dict[Value, tf.Tensor]
    ) -> Outcome:
        """Runs all sweeps after the first; may be called several times after `forward`.

        Args:
            given: for each of these sweeps, what comes in from outside: cotangents of flat outputs
              of an earlier sweep; anything for those without a gradient.
            shared: tensors of SHARED values, including the cotangents of sums over all tokens.
        """
        run = self._with(shared)
        found = {}
        for index, tensors in enumerate(given, start=1):
            if order_of(index) != order_of(index - 1):
                sums = Sums()
            outputs = iter(
                with_open_tokens(run._later_sweep(index, with_open_tokens(tensors), sums))
            )
            exits = self.bodies[self.graph.entry].sweeps[index].outputs
            found[index] = [None if node is None else next(outputs) for node in exits]
        return Outcome(found, sums.gradients(shared))

    def notes(self) -> tf.Tensor:
        """What `forward` ran: the place in the plan's order, the step, the largest depth."""
        places, depths, *_ = tf.unstack(self.record.stack(), axis=1)
        return tf.stack([places, tf.range(tf.size(places)), depths], 1)

    def sizes(self) -> dict[Region | str, tf.Tensor]:
        """How many tokens of a body or a region each step had, int32 `[steps]`."""
        _, _, *sizes = tf.unstack(self.record.stack(), axis=1)
        return dict(zip(self.recorded, sizes, strict=True))

    def recording(self) -> QueueRun:
        """The same run, which notes how many tokens each step has."""
        for name, body in self.bodies.items():
            regions = [region for siblings in regions_of(body) for region in siblings]
            self.recorded += [name, *regions]
        return self

    def _with(self, shared: dict[Value, tf.Tensor]) -> QueueRun:
        run = copy.copy(self)
        run.shared, run.blocks = shared, self.blocks.copy(shared)
        return run

    def _first_sweep(self, arguments: Tensors, sums: Sums) -> Tensors:
        self.num_roots = tf.shape(arguments[0])[0]
        state = first_state(self.blocks, self.bound, self.recorded, arguments)
        (end,) = tf.while_loop(
            self._goes_on,
            lambda state: (self._iterate(state),),
            (state,),
            shape_invariants=(invariants(state, self.blocks),),
            parallel_iterations=1,
        )
        self.blocks.keep(end)
        if self.bound is None:
            self.trace = Trace(end["step"], end["trace"], end["numbers"])
            self.record = end.get("record")
        else:
            self._take_collected(end, sums)
        with tf.control_dependencies([self._check(end)]):
            outputs = self._outputs(0)
        if self.bound is None:
            self.blocks.fire_hoisted(0, sums)
        return outputs

    def _later_sweep(self, index: int, given: Sequence[tf.Tensor | None], sums: Sums) -> Tensors:
        roots = self._results_of_roots() if index % 2 else tf.range(self.num_roots)
        parameters = self.bodies[self.graph.entry].sweeps[index].parameters
        Again(self.blocks, self.trace, index).run(roots, tensors_of_present(parameters, given))
        outputs = self._outputs(index)
        self.blocks.fire_hoisted(index, sums)
        return outputs

    def _goes_on(self, state: State) -> tf.Tensor:
        is_waiting = tf.reduce_any(waiting(state, self.blocks) > 0)
        depth, width, *_ = tf.unstack(state["called"], 4)
        return is_waiting & self.limits.allow(depth, width, self._memory(state))

    def _iterate(self, state: State) -> State:
        """Fires the queue whose turn it is."""
        chosen = next_place(state, self.blocks)
        if self.bound is None:
            state = {**state, "trace": state["trace"].write(state["step"], chosen)}
        branches = [
            partial(Step(self.blocks, self.bound, self.recorded, name, place).run, state)
            for name, place in self.plan.order
        ]
        found: State = one_of(chosen, branches)
        return {**found, "step": state["step"] + 1, "last": chosen}

    def _memory(self, state: State) -> tf.Tensor:
        """int64 scalar: how many bytes the frames keep, at least."""
        counts = [(name, count(state, self.blocks, name)) for name in self.bodies]
        return tf.add_n([self.plan.bytes_kept(name, number) for name, number in counts])

    def _take_collected(self, end: State, sums: Sums) -> None:
        """What COLLECT nodes have collected, step by step."""
        for node, arrays in zip(self.graph.collects, end["collected"], strict=True):
            tables = [joined(array)[0] for array in arrays]
            sums.collect(node, tables, self.shared[node.size] if node.size else None)

    def _outputs(self, sweep: int) -> Tensors:
        """What a sweep returns to the outside."""
        outputs = present(self.bodies[self.graph.entry].sweeps[sweep].outputs)
        return [
            self.blocks.done[("output", self.graph.entry, sweep, number)][: self.num_roots]
            for number in range(len(outputs))
        ]

    def _results_of_roots(self) -> tf.Tensor:
        """The frames that returned what the root tokens did."""
        roots = tf.range(self.num_roots)
        found = self.blocks.done.get(("result", self.graph.entry))
        return roots if found is None else tf.gather(found, roots)

    def _check(self, end: State) -> tf.Tensor:
        """Fails if the run was stopped by a limit."""
        depth, width, body, number = tf.unstack(end["called"], 4)
        width = tf.where(tf.reduce_any(waiting(end, self.blocks) > 0), width, 0)
        tag = partial(self._tag, body, number)
        return self.limits.check(self.graph, depth, width, self._memory(end), tag)

    def _tag(self, body: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """The tag of a frame: the labels of the calls that lead to it."""
        names = list(self.bodies)
        callers = [
            names.index(site.caller) if site.caller else 0
            for site in self.graph.call_sites.values()
        ]

        def frame(body: tf.Tensor, number: tf.Tensor) -> list[tf.Tensor]:
            rows = [self.blocks.done[("frame", name)][:, : len(FRAME)] for name in names]
            branches = [partial(tf.gather, found, number) for found in rows]
            return tf.unstack(one_of(body, branches), len(FRAME))

        def caller(depth: tf.Tensor, state: Scalars) -> tuple[tf.Tensor, Scalars]:
            of_caller, label, _ = frame(*state)
            return label, (tf.gather(tf.constant(callers), label), of_caller)

        return walk_up(frame(body, number)[FRAME.index("depth")], (body, number), caller)
