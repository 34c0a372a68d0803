"""After a run: what was made, as rows of tables behind those that were given."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from kerasrec.datatypes.field import Field
from kerasrec.datatypes.kinds import Kind
from kerasrec.datatypes.make import OWNER, PLACE, PREFIX, name_of_table
from kerasrec.datatypes.values import Tables, Value, map_values
from kerasrec.graph.carried import FIRST_KEY


def with_made(result: Any, collected: dict[str, tf.Tensor]) -> tuple[Any, dict[str, tf.Tensor]]:
    """A result with numbers of tree nodes in place of keys, and what the user has collected.

    Args:
        result: a nest of what a program returns.
        collected: all tables of its run.
    """
    found: dict[Tables, _Made] = {}

    def replaced(value: Value) -> Value:
        tables = value._tables
        if not any(name_of_table(tables, kind.name) in collected for kind in tables.schema.kinds):
            return value
        made = found.setdefault(tables, _Made(tables, collected))
        return dataclasses.replace(
            value, _node=made.numbers(value._node), _tables=made.tables, _is_made=False
        )

    own = {name: table for name, table in collected.items() if not name.startswith(PREFIX)}
    return map_values(replaced, result), own


class _Made:
    """Tables of what was given and what was made.

    Args:
        given: tables of what was given.
        collected: what was made, by `name_of_table`.
    """

    def __init__(self, given: Tables, collected: dict[str, tf.Tensor]):
        self._given = given
        self._collected = collected
        self._num_given = tf.size(given.kinds, tf.int64)
        kinds = given.schema.kinds
        self._keys = {kind: self._table(kind.name) for kind in kinds if self._has(kind.name)}
        keys = tf.concat(list(self._keys.values()), 0)
        self._order = tf.argsort(keys)
        found = tf.gather(keys, self._order)
        check = tf.debugging.Assert(
            tf.reduce_all(found[1:] > found[:-1]),
            [
                "Two values that were made in one run have the same key of 62 bits, by chance. Call "
                "the function for fewer tokens at once. Values made:",
                tf.size(found),
            ],
        )
        with tf.control_dependencies([check]):
            self._sorted = tf.identity(found)
        self.tables = self._tables()

    def _has(self, *keys: str) -> bool:
        return name_of_table(self._given, *keys) in self._collected

    def _table(self, *keys: str) -> tf.Tensor:
        return self._collected[name_of_table(self._given, *keys)]

    def numbers(self, nodes: tf.Tensor) -> tf.Tensor:
        """Numbers of tree nodes, int64, for these or for keys; -1 for None."""
        # The last one is for numbers that are no keys.
        places = tf.concat([tf.cast(self._order, tf.int64), [-1]], 0)
        found = tf.searchsorted(self._sorted, tf.reshape(nodes, [-1]))
        place = tf.gather(places, tf.reshape(found, tf.shape(nodes)))
        return tf.where(nodes < FIRST_KEY, nodes, self._num_given + place)

    def _tables(self) -> Tables:
        given = self._given
        kinds, rows, fields = [given.kinds], [given.rows], dict(given.fields)
        for kind, keys in self._keys.items():
            count = tf.size(keys)
            kinds.append(tf.fill([count], kind.number))
            before = tf.math.count_nonzero(given.kinds == kind.number, dtype=tf.int32)
            rows.append(before + tf.range(count))
            for field in kind.fields:
                made = self._list(kind, field) if field.is_list else self._single(kind, field)
                fields[kind.key(field)] = tf.concat([fields[kind.key(field)], made], 0)
                if field.needs_presence:
                    key = kind.presence_key(field)
                    fields[key] = tf.concat([fields[key], self._table(key)], 0)
        return Tables(given.schema, tf.concat(kinds, 0), tf.concat(rows, 0), fields)

    def _single(self, kind: Kind, field: Field) -> tf.Tensor:
        found = self._table(kind.key(field))
        return self.numbers(found) if field.is_reference else found

    def _list(self, kind: Kind, field: Field) -> tf.RaggedTensor:
        """A row of entries for each value of a kind."""
        key, num_rows = kind.key(field), tf.size(self._keys[kind])
        if not self._has(key):  # No list has an entry.
            empty = self._given.fields[key].values[:0]
            return tf.RaggedTensor.from_row_lengths(empty, tf.zeros([num_rows], tf.int32))
        row = tf.searchsorted(self._keys[kind], self._table(key, OWNER))
        place = self._table(key, PLACE)
        order = tf.argsort(tf.cast(row, tf.int64) * 2**32 + tf.cast(place, tf.int64))
        entries = tf.gather(self._single(kind, field), order)
        lengths = tf.math.unsorted_segment_sum(tf.ones_like(row), row, num_rows)
        return tf.RaggedTensor.from_row_lengths(entries, lengths, validate=False)
