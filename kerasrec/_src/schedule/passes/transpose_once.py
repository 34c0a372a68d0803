"""The pass `transpose_once`."""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.schedule.edit import Edits, edited, fires, prepared
from kerasrec._src.schedule.instructions import Fire
from kerasrec._src.schedule.passes.products import is_transposing
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Loop


def transpose_once(schedule: Schedule) -> Schedule:
    """Transposes a weight before a loop that multiplies by its transpose.

    With few rows, a product takes longer if it has to transpose the weight.
    """
    name = transpose_once.__name__
    edits: Edits = {}
    ready: list[Fire] = []
    for section, _, one in schedule.instructions():
        if isinstance(section, Loop) and isinstance(one, Fire) and is_transposing(one):
            value, weight = one.inputs
            before, transposed = prepared(lambda item: [tf.transpose(item)], [weight], name)
            ready += before
            inputs = [value, *transposed]
            edits = {**edits, one: fires(lambda *of: [tf.matmul(*of)], inputs, one.outputs, name)}
    return edited(schedule, edits, ready)
