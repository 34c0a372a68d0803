"""Passes over a plan that make its runs faster or smaller; results are the same without them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from kerasrec.engine.keeping import cut_again, decided_at_once, recomputed, summed_by_wave
from kerasrec.engine.places import plan_places
from kerasrec.engine.plan import Changes, Plan, plan
from kerasrec.engine.products import columns_apart, transposed_once

Pass = Callable[[Plan], Changes]


def optimize(found: Plan, passes: Sequence[Pass]) -> Plan:
    """A plan with the changes of passes, in order."""
    for changes in passes:
        planned = found.changes | changes(found)
        if found.is_linear:
            found = plan(found.graph, found.is_linear, planned)
        else:
            found = plan_places(found.graph, planned)
    return found


def default_passes(recomputes: bool = False) -> list[Pass]:
    """The passes that suit the devices of this machine.

    Args:
        recomputes: whether memory matters more than time.
    """
    threads = tf.config.threading.get_inter_op_parallelism_threads() or os.cpu_count() or 1
    is_apart = threads > 1 and not tf.config.list_physical_devices("GPU")
    return [
        *([columns_apart] if is_apart else []),
        transposed_once,
        *([summed_by_wave, recomputed] if recomputes else []),
        cut_again,
        decided_at_once,
    ]
