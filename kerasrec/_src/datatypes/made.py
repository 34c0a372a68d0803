"""After a run: the values that were made, as rows of tables behind those that were given."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.declare import family_of
from kerasrec._src.datatypes.field import Choice, Field, Reference
from kerasrec._src.datatypes.kinds import Kind
from kerasrec._src.datatypes.make import OWNER, PLACE, PREFIX, name_of_table
from kerasrec._src.datatypes.values import Tables, Value, map_values
from kerasrec._src.graph.carried import FIRST_KEY


def with_made(result: Any, collected: dict[str, tf.Tensor]) -> tuple[Any, dict[str, tf.Tensor]]:
    """Returns a result with node numbers in place of keys, and what the user has collected.

    Args:
        result: The nest that a program returns.
        collected: All tables of its run.
    """
    found: dict[Tables, _Made] = {}

    def replaced(value: Value) -> Value:
        tables = value._tables
        if not any(name_of_table(tables, kind.name) in collected for kind in tables.schema.kinds):
            return value
        if tables not in found:
            found[tables] = _Made(tables, collected)
        made = found[tables]
        return dataclasses.replace(
            value, _node=made.numbers(value._node), _tables=made.tables, _is_made=False
        )

    own = {name: table for name, table in collected.items() if not name.startswith(PREFIX)}
    return map_values(replaced, result), own


class _Made:
    """Tables of the given values and of those that were made.

    Args:
        given: The tables of the given values.
        collected: The values that were made, by `name_of_table`.
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
        message = (
            "Two values that were made in one run have the same key of 62 bits, by chance. Call "
            "the function for fewer tokens at once."
        )
        self._sorted = _checked(found, found[1:] > found[:-1], message)
        made = [tf.fill([tf.size(found)], kind.number) for kind, found in self._keys.items()]
        self._kinds = tf.concat([given.kinds, *made], 0)
        self.tables = self._tables()

    def _has(self, *keys: str) -> bool:
        return name_of_table(self._given, *keys) in self._collected

    def _table(self, *keys: str) -> tf.Tensor:
        return self._collected[name_of_table(self._given, *keys)]

    def numbers(self, nodes: tf.Tensor) -> tf.Tensor:
        """Returns numbers of tree nodes, int64, for these or for keys; -1 for None."""
        # The last one is for numbers that are not keys.
        places = tf.concat([tf.cast(self._order, tf.int64), [-1]], 0)
        found = tf.searchsorted(self._sorted, tf.reshape(nodes, [-1]))
        place = tf.gather(places, tf.reshape(found, tf.shape(nodes)))
        return tf.where(nodes < FIRST_KEY, nodes, self._num_given + place)

    def _tables(self) -> Tables:
        given = self._given
        rows, fields = [given.rows], dict(given.fields)
        for kind, keys in self._keys.items():
            count = tf.size(keys)
            before = tf.math.count_nonzero(given.kinds == kind.number, dtype=tf.int32)
            rows.append(before + tf.range(count))
            for field in kind.fields:
                made = self._list(kind, field) if field.is_list else self._single(kind, field)
                fields[kind.key(field)] = tf.concat([fields[kind.key(field)], made], 0)
                if field.needs_presence:
                    key = kind.presence_key(field)
                    fields[key] = tf.concat([fields[key], self._table(key)], 0)
        return Tables(given.schema, self._kinds, tf.concat(rows, 0), fields)

    def _single(self, kind: Kind, field: Field) -> tf.Tensor:
        """The values made in a field of a kind, or all entries of a list, in the order of keys."""
        content, found = field.content, self._table(kind.key(field))
        name = f"{kind.name}.{field.name}"
        if isinstance(content, Choice):
            is_right = (found >= 0) & (found < content.size)
            message = f"{name} was made with a number of no choice; they are below {content.size}."
            return _checked(found, is_right, message)
        if not isinstance(content, Reference):
            return found
        found = self.numbers(found)
        schema = self._given.schema
        allowed = schema.numbers(content.family)
        if allowed == schema.numbers(family_of(content.family)):
            return found
        is_allowed = tf.constant([kind.number in allowed for kind in schema.kinds])
        kinds = tf.gather(self._kinds, tf.boolean_mask(found, found >= 0))
        message = f"{name} was made with a value of another kind; expected {field}."
        return _checked(found, tf.gather(is_allowed, kinds), message)

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


def _checked(tensor: tf.Tensor, are_right: tf.Tensor, message: str) -> tf.Tensor:
    """The same tensor, once a condition is known to hold everywhere."""
    check = tf.debugging.Assert(tf.reduce_all(are_right), [message])
    with tf.control_dependencies([check]):
        return tf.identity(tensor)
