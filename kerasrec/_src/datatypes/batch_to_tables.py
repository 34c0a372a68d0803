"""A batch as tables of all its tree nodes, one example after another.

A schema may have a hundred kinds, and ops take long to trace: fields of one type are processed
together, as one tensor that is then split again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.field import Choice, Field, Reference
from kerasrec._src.datatypes.kinds import KIND, Kind, Kinds
from kerasrec._src.row_ids import row_ids

_FIX = "Encode values with Schema.encode."


def flat_of(schema: Kinds, batch: Mapping[str, tf.RaggedTensor]) -> tuple[list[Any], tf.Tensor]:
    """Returns all tree nodes of a batch, numbered consecutively.

    Args:
        schema: The batch's schema.
        batch: A batch from `encode`.

    Returns:
        A list: the kind of each tree node, int32 `[nodes]`; the number of nodes of its kind before
        it, int32 `[nodes]`; and each field, with a row for each tree node of its kind. Lists are
        RaggedTensors, and references are int64 numbers of tree nodes of the batch. Last come the
        roots, int64 `[batch]`.

    Raises:
        tf.errors.InvalidArgumentError: If tensors of the batch do not fit together: if a kind does
            not have a row for each tree node, a reference leads to another example or type, or
            there is no such choice.
    """
    nodes = _Nodes.of(schema, batch[KIND])
    references = _columns(schema, batch, Reference)
    have_rows = nodes.checks(schema, batch)
    checks = [*have_rows, *_choices_are_right(_columns(schema, batch, Choice))]
    flat = {key: tensor.values for key, tensor in batch.items() if key in schema.element_spec}
    if references:
        with tf.control_dependencies(have_rows):  # Or else numbers and examples are not as many.
            examples = _example_of_each(references, nodes)
            numbers = tf.concat([column.values for column in references], 0)
            through = tf.where(numbers < 0, -1, numbers + tf.gather(nodes.starts, examples))
            through = tf.cast(through, tf.int64)
            checks += _references_are_right(schema, references, nodes, numbers, examples)
        for column, part in zip(references, _cut(through, references), strict=True):
            flat[column.key] = flat[column.key].with_values(part) if column.field.is_list else part
    lists = [kind.key(field) for kind in schema.kinds for field in kind.fields if field.is_list]
    for key in lists:
        flat[key] = flat[key].with_row_splits_dtype(tf.int32)
    with tf.control_dependencies(checks):
        kinds = tf.identity(nodes.kinds)
    _, *keys = schema.element_spec
    return [kinds, nodes.rows, *(flat[key] for key in keys)], tf.cast(nodes.starts, tf.int64)


@dataclass(frozen=True)
class _Column:
    """The values of a field in all tree nodes, those of lists one after another."""

    kind: Kind
    field: Field
    key: str
    values: tf.Tensor
    lengths: tf.Tensor | None


def _columns(schema: Kinds, batch: Mapping[str, tf.RaggedTensor], content: type) -> list[_Column]:
    """All fields of a type, those without lists first."""
    columns = []
    for kind in schema.kinds:
        for field in kind.fields:
            if isinstance(field.content, content):
                key = kind.key(field)
                rows = batch[key].values
                lengths = rows.row_lengths() if field.is_list else None
                columns.append(_Column(kind, field, key, batch[key].flat_values, lengths))
    return sorted(columns, key=lambda column: column.field.is_list)


@dataclass(frozen=True)
class _Nodes:
    """The tree nodes of a batch.

    Args:
        kinds: The kinds, int32 `[nodes]`.
        rows: The number of nodes of its kind before each, int32 `[nodes]`.
        counts: The number of nodes of each kind in each example, int32 `[batch, kinds]`.
        starts: The first tree node of each example, int32 `[batch]`.
        sizes: The number of tree nodes of each example, int32 `[batch]`.
        by_kind: For each kind, the example of each of its tree nodes, int32 `[rows]`.
    """

    kinds: tf.Tensor
    rows: tf.Tensor
    counts: tf.Tensor
    starts: tf.Tensor
    sizes: tf.Tensor
    by_kind: list[tf.Tensor]

    @staticmethod
    def of(schema: Kinds, nodes: tf.RaggedTensor) -> _Nodes:
        """Returns the tree nodes of a batch."""
        num_kinds = len(schema.kinds)
        kinds = nodes.values
        examples = row_ids(tf.cast(nodes.row_lengths(), tf.int32))
        # A number that stands for no kind counts as the first kind, until a check reports it.
        known = tf.where((kinds >= 0) & (kinds < num_kinds), kinds, 0)
        sizes = tf.cast(nodes.row_lengths(), tf.int32)
        places = num_kinds * examples + known
        size = num_kinds * tf.size(sizes)
        counts = tf.math.bincount(places, minlength=size, maxlength=size)
        counts = tf.reshape(counts, [-1, num_kinds])
        order = tf.argsort(known, stable=True)
        totals = tf.reduce_sum(counts, axis=0)
        before = tf.gather(tf.cumsum(totals, exclusive=True), tf.gather(known, order))
        place = tf.range(tf.size(kinds)) - before
        rows = tf.scatter_nd(order[:, None], place, tf.shape(kinds))
        by_kind = tf.split(tf.gather(examples, order), totals, num=num_kinds)
        starts = tf.cast(nodes.row_starts(), tf.int32)
        return _Nodes(kinds, rows, counts, starts, sizes, by_kind)

    def checks(self, schema: Kinds, batch: Mapping[str, tf.RaggedTensor]) -> list[Any]:
        """Checks that kinds are known, no example is empty, and kinds have a row for each node."""
        are_known = (self.kinds >= 0) & (self.kinds < len(schema.kinds))
        checks = [
            _assert(tf.reduce_all(are_known), f"{KIND!r} holds a number of no kind. {_FIX}"),
            _assert(tf.reduce_all(self.sizes > 0), f"An example has no tree nodes. {_FIX}"),
        ]
        _, *keys = schema.element_spec
        kinds = [kind.number for kind in schema.kinds for _ in kind.specs]
        if keys:
            splits = tf.stack([tf.cast(batch[key].row_splits, tf.int32) for key in keys])
            wanted = tf.gather(tf.cumsum(self.counts, axis=0), kinds, axis=1)
            are_right = tf.reduce_all(splits[:, 1:] == tf.transpose(wanted), axis=1)
            message = "' of the batch has not a row for each tree node of its kind. "
            checks.append(_assert_each(are_right, keys, tf.range(len(keys)), message))
        return checks


def _example_of_each(columns: Sequence[_Column], nodes: _Nodes) -> tf.Tensor:
    """The example of each value of some fields, those without lists first."""
    single = [nodes.by_kind[column.kind.number] for column in columns if column.lengths is None]
    lists = [column for column in columns if column.lengths is not None]
    if lists:
        examples = tf.concat([nodes.by_kind[column.kind.number] for column in lists], 0)
        lengths = tf.concat([column.lengths for column in lists], 0)
        # Lists that do not have a row for each tree node are an error elsewhere.
        missing = tf.size(lengths) - tf.size(examples)
        examples = tf.pad(examples[: tf.size(lengths)], [[0, tf.maximum(missing, 0)]])
        single.append(tf.gather(examples, row_ids(lengths)))
    return tf.concat(single, 0)


def _cut(values: tf.Tensor, columns: Sequence[_Column]) -> list[tf.Tensor]:
    sizes = tf.stack([tf.size(column.values) for column in columns])
    return tf.split(values, sizes, num=len(columns))


def _field_of_each(columns: Sequence[_Column]) -> tf.Tensor:
    """For each value of some fields, the place of its field among them."""
    sizes = tf.stack([tf.size(column.values) for column in columns])
    return row_ids(sizes)


def _references_are_right(
    schema: Kinds,
    columns: Sequence[_Column],
    nodes: _Nodes,
    numbers: tf.Tensor,
    examples: tf.Tensor,
) -> list[Any]:
    """Whether references lead to tree nodes of their example and of their type."""
    fields = _field_of_each(columns)
    keys = [column.key for column in columns]
    least = tf.constant([-1 if column.field.is_optional else 0 for column in columns])
    sizes = tf.gather(nodes.sizes, examples)
    are_nodes = (numbers >= tf.gather(least, fields)) & (numbers < sizes)
    message = "' of the batch holds a number of no tree node of its example. "
    checks = [_assert_each(are_nodes, keys, fields, message)]
    # For each field, the kinds to which it may lead; and None, which the line above checks.
    numbers_of = [
        schema.numbers(column.field.content.family)
        for column in columns
        if isinstance(column.field.content, Reference)
    ]
    every = range(len(schema.kinds))
    allowed = tf.constant([[*(kind in kinds for kind in every), True] for kinds in numbers_of])
    kinds = tf.concat([nodes.kinds, [len(schema.kinds)]], 0)
    is_there = are_nodes & (numbers >= 0)
    node = tf.where(is_there, numbers + tf.gather(nodes.starts, examples), tf.size(nodes.kinds))
    number = tf.clip_by_value(tf.gather(kinds, node), 0, len(schema.kinds))
    are_right = tf.gather_nd(allowed, tf.stack([fields, number], axis=1))
    message = "' of the batch leads to a tree node of another type. "
    return [*checks, _assert_each(are_right, keys, fields, message)]


def _choices_are_right(columns: Sequence[_Column]) -> list[Any]:
    """Whether numbers of choices are among the choices."""
    if not columns:
        return []
    fields = _field_of_each(columns)
    sizes = tf.constant(
        [
            column.field.content.size
            for column in columns
            if isinstance(column.field.content, Choice)
        ]
    )
    values = tf.concat([column.values for column in columns], 0)
    are_right = (values >= 0) & (values < tf.gather(sizes, fields))
    message = "' of the batch holds a number of no choice. "
    return [_assert_each(are_right, [column.key for column in columns], fields, message)]


def _assert_each(are_right: tf.Tensor, keys: Sequence[str], fields: Any, message: str) -> Any:
    """Raises an error that names the field of the first value that is wrong."""
    fields = tf.concat([fields, [0]], 0)
    first = tf.argmin(tf.cast(tf.concat([are_right, [False]], 0), tf.int32))
    name = tf.gather(tf.constant(keys), tf.gather(fields, first))
    return _assert(tf.reduce_all(are_right), tf.strings.join(["'", name, message, _FIX]))


def _assert(condition: tf.Tensor, message: Any) -> Any:
    return tf.debugging.Assert(condition, [message])
