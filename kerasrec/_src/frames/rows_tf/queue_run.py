"""Runs any program: a machine of queues.

Each call is a frame. A frame waits for the calls that it has made; when the last of them has
returned, it enters the queue of its next place. The machine takes a queue and runs the segment of
its place on all of its frames as one block, wherever in the recursion they are: the papers' firing
rule (Kostopoulou et al., section 2.2), for all tokens of a place at once. New frames enter the
queue of place 0 of their body. The machine is one `tf.while_loop`, with the places as the branches
of a `tf.switch_case`.

The machine records its blocks. Later sweeps go through the same blocks again, the gradient from the
last to the first. When a frame runs, the gradients of the frames that it called are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from kerasrec._src.emit.arrays import joined, num_rows
from kerasrec._src.emit.control_flow import flat, keyed, run_loop, switch
from kerasrec._src.emit.limits import Scalars, walk_up
from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.emit.schedule_run import ScheduleRun, tensor_of
from kerasrec._src.emit.sums import Sums
from kerasrec._src.frames.layout import FRAME, Layout
from kerasrec._src.frames.rows_tf.block import AllFrames
from kerasrec._src.frames.rows_tf.buffers import LiveStore, Trace
from kerasrec._src.frames.rows_tf.step import LiveStep
from kerasrec._src.frames.rows_tf.sweeps import first_state, next_place, run_later_sweep, waiting
from kerasrec._src.graph.graph import present
from kerasrec._src.graph.values import Region
from kerasrec._src.schedule.instructions import Select
from kerasrec._src.schedule.sections import Loop, Place, Queues


@dataclass(eq=False)
class QueueRun(ScheduleRun):
    """One run of any program.

    With a bound, a block takes at most that many frames, the newest first, and a frame is forgotten
    when all frames called together with it have returned. Then only frames of one block wait for
    their turn at each depth: memory grows with the depth times the bound, and not with the number
    of calls. The 2018 thesis, section 5.3.1, leaves open how to bound the parallelism of recursion:
    calls cannot be stalled like the steps of a loop, because running calls wait for the stalled
    ones. Here, the frames whose turn it is can always go deeper. With a bound, there are no later
    sweeps.

    Args:
        schedule: The schedule to run.
        shared: The tensors of SHARED values.
        limits: The bounds on depth, width and memory.
        bound: The number of frames that run at once; None for all.
    """

    bound: int | None = None

    def __post_init__(self) -> None:
        self.layout = Layout(self.schedule)
        self.store = LiveStore(self.layout)
        self.recorded: list[Region | str] = []
        self.roots: tf.Tensor
        self.record: tf.TensorArray

    def loop(self, loop: Loop, given: Tensors, sums: Sums) -> Tensors:
        """Runs the queues of a sweep."""
        if not isinstance(loop, Queues):
            raise TypeError(type(loop).__name__)
        if not loop.sweep:
            return self._first_sweep(given, sums)
        run_later_sweep(loop, self.store, self.shared, self.roots, given)
        return self._outputs(loop.sweep)

    def registers(self, body: str) -> AllFrames:
        """Registers for all frames of a body."""
        return AllFrames(self.store, body, self.shared)

    def notes(self) -> tf.Tensor:
        """The steps of `forward`, int32 `[steps, 3]`: place in turn, step, and largest depth."""
        places, depths, *_ = tf.unstack(self.record.stack(), axis=1)
        return tf.stack([places, tf.range(tf.size(places)), depths], 1)

    def sizes(self) -> dict[Region | str, tf.Tensor]:
        """The number of tokens of a body or a region in each step, int32 `[steps]`."""
        _, _, *sizes = tf.unstack(self.record.stack(), axis=1)
        return dict(zip(self.recorded, sizes, strict=True))

    def recording(self) -> QueueRun:
        """Returns the same run, which also records the number of tokens in each step."""
        self.recorded += self.graph.bodies
        for section, _, instruction in self.schedule.instructions():
            if isinstance(instruction, Select) and not section.sweep and not instruction.at_use:
                self.recorded += instruction.regions
        return self

    def _first_sweep(self, arguments: Tensors, sums: Sums) -> Tensors:
        state = self._first_state(arguments)
        end = run_loop(self._goes_on, self._iterate, state)
        self._take_over(end, sums)
        with tf.control_dependencies([self._check(end)]):
            return [tf.identity(tensor) for tensor in self._outputs(0)]

    def _first_state(self, arguments: Tensors) -> State:
        """Returns the state before the first block."""
        self.roots = tf.range(num_rows(arguments[0]))
        return first_state(self.layout, self.bound, self.recorded, arguments)

    def _take_over(self, end: State, sums: Sums) -> None:
        """Stores the values kept by the first sweep; with a bound, also the collected ones."""
        self.store.counts, self.store.done = end["counts"], end["buffers"]
        self.store.arrays = end["kept"]
        if self.bound is None:
            self.store.trace = Trace(end["step"], end["trace"], end["numbers"])
            self.record = end.get("record")
            return
        for node, arrays in zip(self.graph.collects, end["collected"], strict=True):
            tables = [joined(array)[0] for array in arrays]
            sums.collect(node, tables, tensor_of(node.size, self.shared) if node.size else None)

    def _goes_on(self, state: State) -> tf.Tensor:
        is_waiting = tf.reduce_any(waiting(state, self.layout) > 0)
        depth, width, *_ = tf.unstack(state["called"], 4)
        return is_waiting & self.limits.allow(depth, width, self._memory(state))

    def _iterate(self, state: State) -> State:
        """Fires the queue whose turn it is."""
        chosen = next_place(state, self.layout)
        if self.bound is None:
            state = {**state, "trace": state["trace"].write(state["step"], chosen)}
        branches = [partial(self._step, key, state) for key in self.layout.order]
        found = keyed(switch(chosen, branches), state)
        return {**found, "step": state["step"] + 1, "last": chosen}

    def _step(self, key: Place, state: State) -> State:
        step = self._make_step(key, state)
        step.run()
        return flat(step.state())

    def _make_step(self, key: Place, state: State) -> LiveStep:
        return LiveStep(self.store, self.shared, self.bound, self.recorded, key, state)

    def _memory(self, state: State) -> tf.Tensor:
        """The least number of bytes that frames and rows keep, an int64 scalar."""
        return tf.add_n(
            [
                tf.cast(state["counts"][space], tf.int64) * num_bytes
                for space, num_bytes in self.layout.bytes_kept.items()
            ]
        )

    def _outputs(self, sweep: int) -> Tensors:
        """The results of a sweep for the outside."""
        outputs = present(self.graph.bodies[self.graph.entry].sweeps[sweep].outputs)
        return [
            self._of_roots(self.store.done[self.layout.output(self.graph.entry, sweep, number)])
            for number in range(len(outputs))
        ]

    def _of_roots(self, rows: tf.Tensor) -> tf.Tensor:
        """The rows of root tokens, `[tokens, ...]`, from those of all frames of the entry."""
        return rows[: tf.size(self.roots)]

    def _check(self, end: State) -> tf.Tensor:
        """Fails if the run was stopped by a limit."""
        depth, width, body, number = tf.unstack(end["called"], 4)
        width = tf.where(tf.reduce_any(waiting(end, self.layout) > 0), width, 0)
        tag = partial(self._tag, body, number)
        return self.limits.check(self.graph, depth, width, self._memory(end), tag)

    def _tag(self, body: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """The tag of a frame: the labels of the calls that lead to it."""
        names = list(self.graph.bodies)
        callers = [0] * self.graph.num_labels
        for site in self.graph.call_sites.values():
            callers[site.label] = names.index(site.caller) if site.caller else 0

        def frame(body: tf.Tensor, number: tf.Tensor) -> list[tf.Tensor]:
            rows = [self.store.done[("frame", name)][:, : len(FRAME)] for name in names]
            branches = [partial(tf.gather, found, number) for found in rows]
            return tf.unstack(switch(body, branches), len(FRAME))

        def caller(depth: tf.Tensor, state: Scalars) -> tuple[tf.Tensor, Scalars]:
            of_caller, label, _ = frame(*state)
            return label, (tf.gather(tf.constant(callers), label), of_caller)

        return walk_up(frame(body, number)[FRAME.index("depth")], (body, number), caller)
