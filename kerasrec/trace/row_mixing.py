"""Which ops compute one value from the entries of several tokens' rows.

The entries of ragged rows, `rows.values`, are those of all tokens that run together, and an op that
sorts them or adds them up regards no row. What it gives may be right again once it meets a tensor
that says where rows begin: as the difference of two cumulative sums does, or a shift by one entry,
masked at the beginnings of rows. So what is computed along the axis of entries is followed until it
meets such a tensor; a value of all entries, as their sum is, never is right again.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.graph.types import Kind
from kerasrec.trace.known import Entries, Known, has_open_rows
from kerasrec.trace.token_axis import ELEMENTWISE, MIXED, SIZES, Axes, axes_after, loses_tokens
from kerasrec.trace.token_mixing import works_along_first_axis

# They choose or join entries. That makes other rows of them, which is no mistake.
_CHOICES = frozenset({"ConcatV2", "Where"})
# A softmax within each row may subtract the largest of all entries.
_EXTREMES = frozenset({"Max", "Min"})
# Their results are of all entries, although there is one for each.
_SHARES = frozenset({"Softmax", "LogSoftmax"})


def entries_after(operation: tf.Operation, inputs: Sequence[Known]) -> Sequence[Entries | None]:
    """What is known of an op's outputs as values of entries; None where nothing is.

    Args:
        operation: any that does not make one value per token from rows.
        inputs: what is known of its inputs.
    """
    outputs, given = operation.outputs, [item.entries for item in inputs]
    if operation.type == "RaggedGather":  # tf.gather(rows, node)
        return [*[None] * (len(outputs) - 1), given[-2] or Entries(axis=0)]
    if operation.type == "RaggedRange" and not any(item.kind is Kind.WAVE for item in inputs):
        return [None, Entries(axis=0)]  # tf.ragged.range(n)
    if operation.type == "GatherV2" and operation.inputs[1].op.type == "RaggedRange":
        return [given[0]]  # rows[:, 1:]
    if not any(given):
        return [None] * len(outputs)
    if operation.type in SIZES:
        return [item and Entries(is_size=True) for item in given]
    # Other inputs are places and sizes, in which all entries may have a part.
    read = given if operation.type in ELEMENTWISE else given[:1]
    is_total = any(item.is_total for item in read if item)
    if any(item.kind is not Kind.SHARED and not item.entries for item in inputs):
        return [Entries(is_total=True) if is_total else None] * len(outputs)
    axes = [item.axis if item else None for item in given]
    places = axes_after(operation, axes)
    crosses = _crosses_rows(operation, axes, places)
    crossed = crosses or any(item.crosses_rows for item in given if item)
    are_sizes = [item.is_size for item in given if item]
    found = []
    for output, place in zip(outputs, places, strict=True):
        is_moved = place is not None and place > 0
        has_axis = is_moved or has_open_rows(output)
        has_size = operation.type in ELEMENTWISE and has_axis and any(are_sizes)
        is_value_of_all = crosses and (operation.type in _SHARES or not has_axis)
        found.append(
            Entries(
                axis=place if is_moved else 0 if has_axis else None,
                crosses_rows=crossed or has_size,
                is_total=is_total or is_value_of_all,
                is_size=all(are_sizes) and not has_axis,
            )
        )
    return found


def _crosses_rows(operation: tf.Operation, axes: Axes, places: Axes) -> bool:
    """Whether an op computes along the axis of entries."""
    kind = operation.type
    if kind in _CHOICES or kind in _EXTREMES or (kind == "GatherV2" and axes[1] is not None):
        return False
    if MIXED in places or works_along_first_axis(operation, axes):
        return True
    is_lost = not any(map(has_open_rows, operation.outputs)) and not any(places)
    return is_lost and 0 in axes and any(loses_tokens(operation, one) for one in operation.outputs)
