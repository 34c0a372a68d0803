"""Passes over the plan of a program of several rounds; results are the same without them.

They do what those of `schedule/passes` do for programs of one round.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf

from kerasrec.engine.keeping import cut_again, recomputed
from kerasrec.engine.plan import Changes, Plan
from kerasrec.engine.products import columns_apart, transposed_once

Pass = Callable[[Plan], Changes]


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
        *([recomputed] if recomputes else []),
        cut_again,
    ]
