"""Helpers for tests of programs that XLA compiles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import tensorflow as tf

from kerasrec._src.emit.results import Outcome
from kerasrec._src.frames.rows_xla import compiled_run

_TAKEN_OVER = "taken over by waves"


def _same(tensor: tf.Tensor | tf.IndexedSlices | None) -> tf.Tensor | tf.IndexedSlices | None:
    return (
        tensor
        if tensor is None
        else tf.nest.map_structure(tf.identity, tensor, expand_composites=True)
    )


def _without_waves(
    has_failed: tf.Tensor, compiled: Callable[[], Outcome], waves: Callable[[], Outcome]
) -> Outcome:
    outcome = compiled()
    with tf.control_dependencies([tf.debugging.Assert(~has_failed, [_TAKEN_OVER])]):
        sweeps = {index: list(map(_same, sweep)) for index, sweep in outcome.sweeps.items()}
        return Outcome(sweeps, {key: _same(total) for key, total in outcome.sums.items()})


def _with_failing_waves(
    has_failed: tf.Tensor, compiled: Callable[[], Outcome], waves: Callable[[], Outcome]
) -> Outcome:
    def fail() -> Outcome:
        with tf.control_dependencies([tf.debugging.Assert(False, [_TAKEN_OVER])]):
            return waves()

    return _unless_failed(has_failed, compiled, fail)


_unless_failed = compiled_run.unless_failed


@contextmanager
def never_by_waves(traces_waves: bool = False) -> Iterator[None]:
    """Compiled runs that are traced in here fail where waves would take them over.

    Args:
        traces_waves: whether waves are traced all the same, which takes 33% of the time.
    """
    instead = _with_failing_waves if traces_waves else _without_waves
    with mock.patch.object(compiled_run, "unless_failed", instead):
        yield
