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
    checks = nodes.checks(schema, batch)
    flat = {key: tensor.values for key, tensor in batch.items() if key in schema.element_spec}
    with tf.control_dependencies(checks):  # Or else fields may lack rows.
        checks += _choices_are_right(_columns(schema, batch, Choice), nodes)
        lists = [column for column in _columns(schema, batch) if column.field.is_list]
        if lists:
            splits, sizes = _joined_splits(lists, nodes)
            for column, part in zip(lists, tf.split(splits, sizes, num=len(lists)), strict=True):
                rows = tf.RaggedTensor.from_row_splits(column.values, part, validate=False)
                flat[column.key] = rows
        references = _columns(schema, batch, Reference)
        if references:
            examples = _example_of_each(references, nodes)
            numbers = tf.concat([column.values for column in references], 0)
            through = tf.where(numbers < 0, -1, numbers + tf.gather(nodes.starts, examples))
            sizes = _num_values(references, nodes)
            parts = tf.split(tf.cast(through, tf.int64), sizes, num=len(references))
            checks += _references_are_right(schema, references, nodes, numbers, examples)
            for column, part in zip(references, parts, strict=True):
                is_list = column.field.is_list
                flat[column.key] = flat[column.key].with_values(part) if is_list else part
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
    splits: tf.Tensor | None


def _columns(
    schema: Kinds, batch: Mapping[str, tf.RaggedTensor], content: type = object
) -> list[_Column]:
    """All fields of a type, those without lists first."""
    columns = []
    for kind in schema.kinds:
        for field in kind.fields:
            if isinstance(field.content, content):
                key = kind.key(field)
                splits = batch[key].values.row_splits if field.is_list else None
                columns.append(_Column(kind, field, key, batch[key].flat_values, splits))
    return sorted(columns, key=lambda column: column.field.is_list)


@dataclass(frozen=True)
class _Nodes:
    """The tree nodes of a batch.

    Args:
        kinds: The kinds, int32 `[nodes]`.
        rows: The number of nodes of its kind before each, int32 `[nodes]`.
        counts: The number of nodes of each kind in each example, int32 `[batch, kinds]`.
        totals: The number of nodes of each kind, int32 `[kinds]`.
        starts: The first tree node of each example, int32 `[batch]`.
        sizes: The number of tree nodes of each example, int32 `[batch]`.
        by_kind: For each kind, the example of each of its tree nodes, int32 `[rows]`.
    """

    kinds: tf.Tensor
    rows: tf.Tensor
    counts: tf.Tensor
    totals: tf.Tensor
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
        return _Nodes(kinds, rows, counts, totals, starts, sizes, by_kind)

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
            splits = tf.cast(tf.stack([batch[key].row_splits for key in keys]), tf.int32)
            wanted = tf.gather(tf.cumsum(self.counts, axis=0), kinds, axis=1)
            are_right = tf.reduce_all(splits[:, 1:] == tf.transpose(wanted), axis=1)
            message = "' of the batch has not a row for each tree node of its kind. "
            checks.append(_assert_each(are_right, keys, tf.range(len(keys)), message))
        return checks


def _joined_splits(lists: Sequence[_Column], nodes: _Nodes) -> tuple[tf.Tensor, tf.Tensor]:
    """The row splits of lists, int32, one list after another; and how many each has."""
    sizes = 1 + tf.gather(nodes.totals, [column.kind.number for column in lists])
    return tf.cast(tf.concat([column.splits for column in lists], 0), tf.int32), sizes


def _example_of_each(columns: Sequence[_Column], nodes: _Nodes) -> tf.Tensor:
    """The example of each value of some fields, those without lists first."""
    single = [nodes.by_kind[column.kind.number] for column in columns if column.splits is None]
    lists = columns[len(single) :]
    if lists:
        examples = tf.concat([nodes.by_kind[column.kind.number] for column in lists], 0)
        splits, sizes = _joined_splits(lists, nodes)
        of_list = row_ids(sizes)
        lengths = tf.boolean_mask(splits[1:] - splits[:-1], of_list[1:] == of_list[:-1])
        single.append(tf.gather(examples, row_ids(lengths)))
    return tf.concat(single, 0)


def _num_values(columns: Sequence[_Column], nodes: _Nodes) -> tf.Tensor:
    """How many values each field has, int32 `[fields]`, those without lists first."""
    single = [column.kind.number for column in columns if column.splits is None]
    counts = tf.gather(nodes.totals, tf.constant(single, tf.int32))
    if len(single) == len(columns):
        return counts
    splits, sizes = _joined_splits(columns[len(single) :], nodes)
    return tf.concat([counts, tf.gather(splits, tf.cumsum(sizes) - 1)], 0)


def _references_are_right(
    schema: Kinds,
    columns: Sequence[_Column],
    nodes: _Nodes,
    numbers: tf.Tensor,
    examples: tf.Tensor,
) -> list[Any]:
    """Whether references lead to tree nodes of their example and of their type."""
    fields = row_ids(_num_values(columns, nodes))
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


def _choices_are_right(columns: Sequence[_Column], nodes: _Nodes) -> list[Any]:
    """Whether numbers of choices are among the choices."""
    if not columns:
        return []
    fields = row_ids(_num_values(columns, nodes))
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
