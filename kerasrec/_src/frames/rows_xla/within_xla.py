"""Runs a schedule inside a program that XLA compiles as a whole: `tf.function(jit_compile=True)`.

A run there cannot begin again with more room, be handed to waves, or raise an error. So the room
for calls is known beforehand, and if a run fails, all its results are NaN, or the largest integer.
"""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import Given, Outcome, State, Tensors
from kerasrec._src.errors import or_nothing
from kerasrec._src.frames.rows_xla.gradient import Gradient
from kerasrec._src.frames.rows_xla.padding import num_rows
from kerasrec._src.frames.rows_xla.values import Bounds, Values
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.schedule import Schedule


class RunWithinXla:
    """One run of a program.

    Args:
        schedule: The schedule in queues, with the gradient.
        forward_only: The same as for `CompiledRun`.
        bounds: The bounds on calls and rows.
        shared: The tensors of SHARED values.
        limits: The bounds on depth.
    """

    def __init__(
        self,
        schedule: Schedule,
        forward_only: Schedule | None,
        bounds: Bounds,
        shared: dict[Value, tf.Tensor],
        limits: Limits,
    ):
        self.schedule = schedule
        self.forward_only = forward_only
        self.bounds = bounds
        self.shared = shared
        self.limits = limits
        self.arguments: Tensors
        self._values: Values
        self._found: State

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0 on flat arguments, `[tokens, ...]` each."""
        self.arguments = arguments
        num_roots, keeps = num_rows(arguments[0]), self.forward_only is None
        values = Values(self.forward_only or self.schedule, self.limits, self.shared, keeps, None)
        self._values = values
        self._found = values.run_within(arguments, self.bounds)
        self._has_failed = tf.reduce_any(self._found["failures"] > 0)
        return unless(self._has_failed, values.outcome(self._found, num_roots))

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs the other sweeps; the arguments are those of `ScheduleRun.backward`."""
        if self.forward_only is not None:
            again = RunWithinXla(self.schedule, None, self.bounds, self.shared, self.limits)
            again.forward(self.arguments)
            return again.backward(given, shared)
        gradient = Gradient(self._values, shared)
        found = gradient.run(self._found, given, num_rows(self.arguments[0]))
        return unless(self._has_failed, found)


def unless(has_failed: tf.Tensor, outcome: Outcome) -> Outcome:
    """Returns the outcome; if a run has failed, NaN or the largest integer in place of it."""

    def of(tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
        if isinstance(tensor, tf.IndexedSlices):
            values = or_nothing(has_failed, tensor.values)
            return tf.IndexedSlices(values, tensor.indices, tensor.dense_shape)
        return or_nothing(has_failed, tensor)

    return outcome.map(of)
