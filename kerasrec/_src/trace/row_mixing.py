"""Finds ops that compute one value from the entries of several tokens' rows.

`rows.values` holds the entries of all tokens that run together, and an op that sorts them or adds
them up ignores where rows begin. Its result may become right again when it is combined with a
tensor that says where rows begin. Examples are the difference of two cumulative sums, and a shift
by one entry that is masked at the beginnings of rows. So values computed along the axis of entries
are followed until then. A value of all entries, such as their sum, can never become right again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.axes import Axes, Lost, Place, gathered, sizes
from kerasrec._src.ops.table import Is, Ragged, facts_of, has, places_after
from kerasrec._src.ops.views import has_open_rows
from kerasrec._src.trace.known import Entries, Known
from kerasrec._src.trace.token_mixing import loses_tokens


def entries_after(operation: tf.Operation, inputs: Sequence[Known]) -> Sequence[Entries | None]:
    """Returns what is known of an op's outputs as values of entries; None if nothing is.

    Args:
        operation: Any op that does not make one value per token from rows.
        inputs: What is known of its inputs.
    """
    outputs, given = operation.outputs, [item.entries for item in inputs]
    facts = facts_of(operation.type)
    if facts.ragged is Ragged.LOOKS_UP:
        return [*[None] * (len(outputs) - 1), given[-2] or Entries(axis=0)]
    if facts.ragged is Ragged.FROM_LIST:
        return [*[None] * (len(outputs) - 1), Entries(axis=0)]
    if facts.ragged is Ragged.MAKES_RANGES:
        return [None, Entries(axis=0, crosses_rows=any(item.kind is Kind.WAVE for item in inputs))]
    indices = facts_of(operation.inputs[1].op.type) if facts.axes is gathered else None
    if indices and indices.ragged is Ragged.MAKES_RANGES:
        return [given[0]]  # rows[:, 1:]
    if _reads_all(operation, inputs):
        return [Entries(is_total=True)] * len(outputs)
    if not any(given):
        return [None] * len(outputs)
    if facts.axes is sizes:
        return [item and Entries(is_size=True) for item in given]
    # Other inputs are places and sizes, which may depend on all entries.
    read = given if facts.is_elementwise else given[:1]
    is_total = any(item.is_total for item in read if item)
    if any(item.kind is not Kind.SHARED and not item.entries for item in inputs):
        return [Entries(is_total=True) if is_total else None] * len(outputs)
    return [
        replace(item, is_total=is_total or item.is_total) for item in _of_entries(operation, given)
    ]


def _of_entries(operation: tf.Operation, given: Sequence[Entries | None]) -> Iterator[Entries]:
    """Yields what is known of outputs that are computed only from entries and shared values."""
    axes = [item.axis if item else None for item in given]
    places = places_after(operation, axes)
    crosses = _crosses_rows(operation, axes, places)
    known = [item for item in given if item]
    is_elementwise = facts_of(operation.type).is_elementwise
    for output, place in zip(operation.outputs, places, strict=True):
        is_moved = isinstance(place, int) and place > 0
        has_axis = is_moved or _has_open_axis(output)
        has_size = is_elementwise and has_axis and any(one.is_size for one in known)
        yield Entries(
            axis=place
            if isinstance(place, int) and place > 0
            else 0
            if has_open_rows(output)
            else None,
            crosses_rows=crosses or has_size or any(one.crosses_rows for one in known),
            is_total=crosses and (has(operation.type, Is.SHARES) or not has_axis),
            is_size=all(one.is_size for one in known) and not has_axis,
        )


def _reads_all(operation: tf.Operation, inputs: Sequence[Known]) -> bool:
    """Whether an op computes a total of all entries, or the share of each entry in a total."""
    if not inputs or inputs[0].kind is not Kind.WAVE or not operation.inputs[0].dtype.is_floating:
        return False
    before, after = operation.inputs[0].shape, operation.outputs[0].shape
    if has(operation.type, Is.SHARES):
        return before.rank == 1 and before[0] is None
    is_known = before.rank is not None and after.is_fully_defined()
    return has(operation.type, Is.TOTAL) and is_known and None in before


def _has_open_axis(tensor: tf.Tensor) -> bool:
    """Whether the size of some axis is not known while tracing."""
    return tensor.shape.rank is None or None in tensor.shape


def _crosses_rows(operation: tf.Operation, axes: Axes, places: Sequence[Place]) -> bool:
    """Whether an op computes along the axis of entries."""
    is_lookup = facts_of(operation.type).axes is gathered and axes[1] is not None
    if is_lookup or has(operation.type, Is.ACROSS_ROWS):
        return False
    if any(isinstance(place, Lost) for place in places):
        return True
    is_lost = not any(map(_has_open_axis, operation.outputs))
    return is_lost and 0 in axes and any(loses_tokens(operation, one) for one in operation.outputs)
