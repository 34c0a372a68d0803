"""Checks of a batch, which may come from a file or from elsewhere, where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from kerasrec.datatypes.field import Choice, Field, Reference
from kerasrec.datatypes.kinds import KIND, Kind, Kinds

_MEND = "Encode values with Schema.encode."


def assertions(schema: Kinds, batch: Mapping[str, tf.RaggedTensor]) -> list[tf.Operation]:
    """Ops that raise InvalidArgumentError if tensors of a batch do not fit together.

    Every kind has as many rows as tree nodes, references lead to tree nodes of the same example and
    of the right kinds, and numbers of choices are among the choices.
    """
    nodes = batch[KIND]
    sizes = tf.cast(nodes.row_lengths(), tf.int32)
    num_kinds = len(schema.kinds)
    are_known = tf.reduce_all((nodes.values >= 0) & (nodes.values < num_kinds))
    found = [_assert(are_known, f"{KIND!r} of the batch holds a number of no kind. {_MEND}")]
    found.append(_assert(tf.reduce_all(sizes > 0), f"An example has no tree nodes. {_MEND}"))
    for kind in schema.kinds:
        is_kind = nodes.with_values(tf.cast(nodes.values == kind.number, tf.int64))
        num_rows = tf.reduce_sum(is_kind, axis=1)
        for item in kind.fields:
            for key in [kind.key(item)] + [kind.presence_key(item)] * item.needs_presence:
                has_rows = tf.reduce_all(batch[key].row_lengths() == num_rows)
                message = f"{key!r} of the batch has not a row for each {kind.name}. {_MEND}"
                found.append(_assert(has_rows, message))
            for is_right, message in _contents(schema, batch, kind, item, sizes):
                found.append(_assert(is_right, message))
    return found


def _contents(
    schema: Kinds,
    batch: Mapping[str, tf.RaggedTensor],
    kind: Kind,
    item: Field,
    sizes: tf.Tensor,
) -> Iterator[tuple[tf.Tensor, str]]:
    """What must hold for the numbers that a field holds, and what it means if it does not."""
    key = kind.key(item)
    content, values = item.content, batch[key].flat_values
    if isinstance(content, Choice):
        is_one = tf.reduce_all((values >= 0) & (values < content.size))
        yield is_one, f"{key!r} of the batch holds a number of no choice. {_MEND}"
    if isinstance(content, Reference):
        rows = batch[key].merge_dims(1, 2) if item.is_list else batch[key]
        example = rows.value_rowids()
        least = -1 if item.is_optional else 0
        is_node = (values >= least) & (values < tf.gather(sizes, example))
        message = f"{key!r} of the batch holds a number of no tree node of its example. {_MEND}"
        yield tf.reduce_all(is_node), message
        allowed = [number in schema.numbers(content.family) for number in range(len(schema.kinds))]
        starts = tf.cast(batch[KIND].row_starts(), tf.int32)
        node = tf.where(is_node & (values >= 0), values + tf.gather(starts, example), -1)
        number = tf.gather(
            tf.concat([batch[KIND].values, [-1]], 0), node % (tf.reduce_sum(sizes) + 1)
        )
        # None, and numbers that the line above tells of, are not looked at.
        is_right = tf.gather(tf.constant([*allowed, True]), number % (len(allowed) + 1))
        names = content.family.__name__
        yield tf.reduce_all(is_right), f"{key!r} of the batch leads to what is no {names}. {_MEND}"


def _assert(condition: tf.Tensor, message: str) -> Any:
    return tf.debugging.Assert(condition, [message])
