"""Runs a schedule as programs that XLA compiles: one for the values, one for their gradient.

XLA compiles separately for each size of its inputs. Open sizes are therefore padded to the next
power of two: root tokens, tables that all tokens share, and the room for frames. The number of
frames is not known beforehand; a run that runs out of room begins again with more. XLA does not
raise some errors of TensorFlow's kernels, such as that for an index outside a table. If such an
error is due, or a bound on depth, room or the number of sizes is met, waves run the program from
the start: they raise the error, or finish the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import tensorflow as tf

from kerasrec._src.emit.control_flow import run_loop
from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, State, Tensors
from kerasrec._src.emit.run import Run
from kerasrec._src.emit.schedule_run import ScheduleRun
from kerasrec._src.errors import or_nothing
from kerasrec._src.frames.rows_xla.programs import Gradient, Values
from kerasrec._src.frames.rows_xla.sizes import KnownSizes, known_num_rows
from kerasrec._src.graph.values import Value
from kerasrec._src.host import integers_on_host
from kerasrec._src.options import Options
from kerasrec._src.private import not_inlined
from kerasrec._src.schedule.schedule import Schedule

_GROWTH = 8


class CompiledRun(Run):
    """One run of a program.

    Args:
        schedule: The schedule in queues.
        keeps: Whether it keeps the values that a gradient reads.
        make_wave_run: Makes a run in waves from the tensors of SHARED values.
        known: The sizes for which XLA has compiled the program; beyond their bound, waves run it.
            None if the code around it is also compiled.
        shared: The tensors of SHARED values.
        limits: The bounds on depth and memory.
    """

    values_of = Values

    def __init__(
        self,
        schedule: Schedule,
        keeps: bool,
        make_wave_run: Callable[[dict[Value, tf.Tensor]], ScheduleRun] | None,
        known: KnownSizes | None,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
    ):
        self.schedule = schedule
        self.keeps = keeps
        self.make_wave_run = make_wave_run
        self.known = known
        self.shared = shared
        self.limits = limits
        self.arguments: Tensors
        self._values: Values
        self._found: State

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0."""
        with integers_on_host():
            self.arguments = arguments
            given = self.schedule, self.limits, self.shared, self.keeps, self.known
            values = self.values_of(*given)
            self._values, num_roots = values, known_num_rows(arguments[0])
            found = self._found = self._run_values(arguments, num_roots)
            return self._unless_failed(
                lambda: values.outcome(found, num_roots),
                lambda: self._wave_run().forward(arguments),
            )

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs the other sweeps."""
        with integers_on_host():
            num_roots = known_num_rows(self.arguments[0])
            gradient = Gradient(self._values, shared)
            return self._unless_failed(
                lambda: gradient.run(self._found, given, num_roots),
                lambda: self._wave_run().whole(self.arguments, given, shared),
            )

    def _run_values(self, arguments: Tensors, num_roots: tf.Tensor) -> State:
        """Runs the values, with more room if there was not enough; see `Values.run`."""
        values, most = self._values, self._values.room.most_frames
        capacity = values.room.first_capacity(num_roots)
        first = values.run(arguments, num_roots, capacity)

        def is_full(found: State) -> tf.Tensor:
            return found["failures"][0] > 0

        def run(state: State) -> State:
            capacity = state["capacity"]
            capacity = tf.where(capacity > most // _GROWTH, most, capacity * _GROWTH)
            return {"found": values.run(arguments, num_roots, capacity), "capacity": capacity}

        def with_more_room() -> State:
            found: State = run_loop(
                lambda state: is_full(state["found"]) & (state["capacity"] < most),
                run,
                {"found": first, "capacity": capacity},
            )["found"]
            return found

        found: State = tf.cond(is_full(first), not_inlined(with_more_room), lambda: first)
        return found

    def _unless_failed(
        self, compiled: Callable[[], Outcome], waves: Callable[[], Outcome]
    ) -> Outcome:
        """Returns the results of the compiled program, or those of waves if it has failed."""
        return unless_failed(self._has_failed(), compiled, waves)

    def _has_failed(self) -> tf.Tensor:
        """Whether waves must run the program, a bool scalar; in whichever graph is being built."""
        return tf.reduce_any(self._found["failures"] > 0)

    def _wave_run(self) -> ScheduleRun:
        """Makes a run in waves."""
        assert self.make_wave_run is not None
        return self.make_wave_run(self.shared)


class RunWithinXla(CompiledRun):
    """One run inside a program that XLA compiles as a whole: `tf.function(jit_compile=True)`.

    It cannot begin again with more room, be handed to waves, or raise an error. Therefore the room
    for calls is known beforehand, and if a run fails, all its results are NaN, or the largest
    integer.

    Args:
        schedule: The schedule in queues.
        keeps: Whether it keeps the values that a gradient reads.
        options: The user's options, which bound calls and rows.
        shared: The tensors of SHARED values.
        limits: The bounds on depth.
    """

    def __init__(
        self,
        schedule: Schedule,
        keeps: bool,
        options: Options,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
    ):
        super().__init__(schedule, keeps, None, None, shared, limits)
        self.options = options

    def _run_values(self, arguments: Tensors, num_roots: tf.Tensor) -> State:
        values = self._values
        capacity = values.room.capacity_within(num_roots, self.options)
        return values.run(arguments, num_roots, capacity, self.options)

    def _unless_failed(
        self, compiled: Callable[[], Outcome], waves: Callable[[], Outcome]
    ) -> Outcome:
        has_failed = self._has_failed()

        def checked(tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
            if isinstance(tensor, tf.IndexedSlices):
                values = or_nothing(has_failed, tensor.values)
                return tf.IndexedSlices(values, tensor.indices, tensor.dense_shape)
            return or_nothing(has_failed, tensor)

        return compiled().map(checked)


def unless_failed(
    has_failed: tf.Tensor, compiled: Callable[[], Outcome], waves: Callable[[], Outcome]
) -> Outcome:
    """Returns the results of the compiled program, or those of waves if it has failed."""
    found: list[Outcome] = []

    def of_compiled() -> list[tf.Tensor]:
        found.append(compiled())
        return found[0].flat()

    def of_waves() -> list[tf.Tensor]:
        outcome = waves()
        in_order = {key: outcome.sums[key] for key in found[0].sums}
        return replace(outcome, sums=in_order).flat()

    # The branch that is traced first determines the structure.
    tensors = iter(tf.cond(~has_failed, of_compiled, not_inlined(of_waves)))

    def next_like(tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
        parts = [next(tensors) for _ in tf.nest.flatten(tensor, expand_composites=True)]
        return tf.nest.pack_sequence_as(tensor, parts, expand_composites=True)

    return found[0].map(next_like)
