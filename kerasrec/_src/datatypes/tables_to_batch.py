"""From values to a batch: the tree nodes to which each leads, numbered from the root down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.kinds import KIND, Kind, Kinds
from kerasrec._src.datatypes.values import Tables, Value, checked
from kerasrec._src.row_ids import row_ids


def to_batch(schema: Kinds, values: Value) -> dict[str, tf.RaggedTensor]:
    """Returns a batch as from `Schema.encode`, with an example for each value.

    A tree node to which several nodes of an example refer is stored once, after all of these; a
    tree node to which several examples lead is stored in each.

    Args:
        schema: The batch's schema; its kinds are among those of the values' tables.
        values: The values, `[examples]`.

    Raises:
        tf.errors.InvalidArgumentError: If a value is None.
    """
    tables = values._tables
    reached = reached_from(values._node, tf.size(tables.kinds, tf.int64), _references(tables))
    kinds = tf.gather(tables.kinds, reached.nodes)
    numbers = tf.constant([schema.number(kind.type) or 0 for kind in tables.schema.kinds])
    batch = {KIND: reached.by_example(tf.gather(numbers, kinds), reached.examples)}
    for kind in schema.kinds:
        (number,) = tables.schema.numbers(kind.type)
        other = tables.schema.kinds[number]
        is_of_kind = kinds == number
        examples = tf.boolean_mask(reached.examples, is_of_kind)
        rows = tf.gather(tables.rows, tf.boolean_mask(reached.nodes, is_of_kind))
        for mine, theirs in zip(kind.fields, other.fields, strict=True):
            entries = tf.gather(tables.fields[other.key(theirs)], rows)
            if mine.is_reference:
                entries = reached.references(entries, examples)
            batch[kind.key(mine)] = reached.by_example(entries, examples)
            if mine.needs_presence:
                given = tf.gather(tables.fields[other.presence_key(theirs)], rows)
                batch[kind.presence_key(mine)] = reached.by_example(given, examples)
    return batch


@dataclass(frozen=True)
class Reached:
    """The tree nodes to which the roots of examples lead, one example after another.

    Args:
        nodes: The nodes' numbers in the tables, int64 `[reached]`.
        examples: The example of each node, int64 `[reached]`.
        places: The place of each node in its example, int64 `[reached]`.
        num_examples: The number of examples, an int64 scalar.
        num_nodes: The number of tree nodes in the tables, an int64 scalar.
    """

    nodes: tf.Tensor
    examples: tf.Tensor
    places: tf.Tensor
    num_examples: tf.Tensor
    num_nodes: tf.Tensor

    def by_example(self, rows: Any, examples: tf.Tensor) -> tf.RaggedTensor:
        """Returns the entries of tree nodes, as a row for each example."""
        lengths = tf.math.bincount(
            tf.cast(examples, tf.int32), minlength=tf.cast(self.num_examples, tf.int32)
        )
        if isinstance(rows, tf.RaggedTensor):
            rows = rows.with_row_splits_dtype(tf.int64)
        return tf.RaggedTensor.from_row_lengths(rows, tf.cast(lengths, tf.int64), validate=False)

    def references(self, numbers: Any, examples: tf.Tensor) -> Any:
        """Converts numbers of the tables to numbers within an example, int32; -1 for None.

        Args:
            numbers: The numbers, int64 `[rows]`, or a RaggedTensor of numbers.
            examples: The example of each row.
        """
        if isinstance(numbers, tf.RaggedTensor):
            of_entries = tf.gather(examples, row_ids(tf.cast(numbers.row_lengths(), tf.int32)))
            return numbers.with_values(self.references(numbers.values, of_entries))
        codes = self.examples * self.num_nodes + self.nodes
        order = tf.argsort(codes)
        place = tf.searchsorted(tf.gather(codes, order), examples * self.num_nodes + numbers)
        places = tf.concat([tf.gather(self.places, order), [-1]], 0)
        within = tf.gather(places, tf.where(numbers < 0, tf.size(codes), place))
        return tf.cast(within, tf.int32)


def reached_from(roots: tf.Tensor, num_nodes: tf.Tensor, below: tf.RaggedTensor) -> Reached:
    """Finds what roots lead to, level by level; a tree node counts for the last level that has it.

    Args:
        roots: The roots, int64 `[examples]`.
        num_nodes: The number of tree nodes in the tables, an int64 scalar.
        below: The nodes to which each node leads, int64 `[nodes, (references)]`.

    Raises:
        tf.errors.InvalidArgumentError: If a root is None.
    """
    message = "A value is None; an example of a batch cannot be None. Leave it out."
    roots = checked(roots, roots >= 0, message)

    def step(
        level: tf.Tensor, newest: tf.Tensor, codes: tf.Tensor, levels: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        nodes = tf.gather(below, newest % num_nodes)
        examples = tf.gather(newest // num_nodes, row_ids(tf.cast(nodes.row_lengths(), tf.int32)))
        next_codes, _ = tf.unique(examples * num_nodes + nodes.values)
        level += 1
        return (
            level,
            next_codes,
            tf.concat([codes, next_codes], 0),
            tf.concat([levels, tf.fill(tf.shape(next_codes), level)], 0),
        )

    num_examples = tf.size(roots, tf.int64)
    first = tf.range(num_examples) * num_nodes + roots
    open_size = tf.TensorShape([None])
    _, _, codes, levels = tf.while_loop(
        lambda level, newest, codes, levels: tf.size(newest) > 0,
        step,
        (tf.constant(0), first, first, tf.zeros_like(first, tf.int32)),
        (tf.TensorShape([]), open_size, open_size, open_size),
    )
    codes, which = tf.unique(codes)
    level = tf.math.unsorted_segment_max(levels, which, tf.size(codes))
    examples = codes // num_nodes
    num_levels = 1 + tf.reduce_max(tf.concat([level, [0]], 0))
    order = tf.argsort(
        examples * tf.cast(num_levels, tf.int64) + tf.cast(level, tf.int64), stable=True
    )
    examples = tf.gather(examples, order)
    starts = tf.searchsorted(examples, tf.range(num_examples), out_type=tf.int64)
    places = tf.range(tf.size(codes, tf.int64)) - tf.gather(starts, examples)
    return Reached(tf.gather(codes % num_nodes, order), examples, places, num_examples, num_nodes)


def _references(tables: Tables) -> tf.RaggedTensor:
    """The tree nodes to which each refers, int64 `[nodes, (references)]`."""
    references = [
        (kind, tables.fields[kind.key(field)])
        for kind in tables.schema.kinds
        for field in kind.fields
        if field.is_reference
    ]
    return without_none(rows_of_nodes(tables, references))


def rows_of_nodes(tables: Tables, of_kinds: Iterable[tuple[Kind, Any]]) -> tf.RaggedTensor:
    """Returns what is found at tree nodes, a row for each node of the tables, `[nodes, (entries)]`.

    Args:
        tables: The tables of the tree nodes.
        of_kinds: Kinds, and for each int64 `[rows]` or a RaggedTensor `[rows, (entries)]`; a kind
            may come several times, and its entries are in this order.
    """
    sources, targets = [tf.zeros([0], tf.int64)], [tf.zeros([0], tf.int64)]
    for kind, entries in of_kinds:
        nodes = tables.nodes_of(kind)
        if isinstance(entries, tf.RaggedTensor):
            nodes = tf.gather(nodes, row_ids(tf.cast(entries.row_lengths(), tf.int32)))
            entries = entries.values
        sources.append(nodes)
        targets.append(entries)
    source, target = tf.concat(sources, 0), tf.concat(targets, 0)
    order = tf.argsort(source, stable=True)
    num_nodes = tf.size(tables.kinds)
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(source), source, num_nodes)
    return tf.RaggedTensor.from_row_lengths(tf.gather(target, order), lengths, validate=False)


def without_none(rows: tf.RaggedTensor) -> tf.RaggedTensor:
    """Rows of numbers of tree nodes without those that are -1."""
    is_there = rows.values >= 0
    kept = tf.boolean_mask(rows.values, is_there)
    lengths = tf.math.unsorted_segment_sum(
        tf.cast(is_there, tf.int64), row_ids(tf.cast(rows.row_lengths(), tf.int32)), rows.nrows()
    )
    return tf.RaggedTensor.from_row_lengths(kept, lengths, validate=False)
