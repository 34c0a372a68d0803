"""Passes: schedule to schedule. They change how a program runs, and not its results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import tensorflow as tf

from kerasrec._src.schedule.check import check_schedule
from kerasrec._src.schedule.passes.by_place import (
    branches_apart,
    hoist_by_place,
    products_later,
)
from kerasrec._src.schedule.passes.columns import side_by_side, split_matmul, transpose_once
from kerasrec._src.schedule.passes.first_loop import decide_at_once, integers_by_level
from kerasrec._src.schedule.passes.keep_less import (
    cut_again,
    move_again,
    rematerialize,
    sum_by_wave,
)
from kerasrec._src.schedule.schedule import Schedule

Pass = Callable[[Schedule], Schedule]
# Those of waves, and of queues run in waves, in order.
WAVE_PASSES: tuple[Pass, ...] = (
    split_matmul,
    transpose_once,
    side_by_side,
    sum_by_wave,
    rematerialize,
    cut_again,
    decide_at_once,
    integers_by_level,
)
# Those of the engine "compiled", in order.
BLOCK_PASSES: tuple[Pass, ...] = (
    transpose_once,
    cut_again,
    move_again,
    branches_apart,
    products_later,
    hoist_by_place,
)


def optimize(schedule: Schedule, passes: Sequence[Pass]) -> Schedule:
    """A schedule after passes, in order; checked after each."""
    for run in passes:
        function = run.func if isinstance(run, partial) else run
        name = getattr(function, "__name__", repr(run))
        schedule = replace(run(schedule), passes=(*schedule.passes, name))
        check_schedule(schedule)
    return schedule


def default_passes(recomputes: bool = False) -> list[Pass]:
    """The passes that suit the devices of this machine.

    Args:
        recomputes: whether memory matters more than time.
    """
    threads = tf.config.threading.get_inter_op_parallelism_threads() or os.cpu_count() or 1
    is_split = threads > 1 and not tf.config.list_physical_devices("GPU")
    left_out: set[Pass] = set() if is_split else {split_matmul}
    if not recomputes:
        left_out |= {sum_by_wave, rematerialize}
    return [run for run in WAVE_PASSES if run not in left_out]
