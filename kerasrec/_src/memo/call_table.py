"""Tables of the calls of a run: hash tables from the keys of calls to their numbers.

Calls have a key: their integers, bools and strings, and the number of their root token if equal
calls of different root tokens are different calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.emit.arrays import rows_where
from kerasrec._src.emit.results import Tensors
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Entrance

_INT = tf.int64
_NONE = -1
# An odd number near 2 ** 64 divided by the golden ratio, as a signed integer.
_MULTIPLIER = -7046029254386353131


class CallTable:
    """The numbers of the calls of a run, by key, in a hash table of the run's own.

    Args:
        graph: The program, with `memo`.
    """

    def __init__(self, graph: TaggedGraph):
        self._is_in_key = {
            name: [_is_in_key(graph, node) for node in body.parameters]
            for name, body in graph.bodies.items()
        }
        self._numbers = NumberTable(1 + max(map(sum, self._is_in_key.values())))
        self._strings = StringTable()
        self._bodies = list(graph.bodies)

    def keys(self, body: str, arguments: Tensors) -> tf.Tensor:
        """Returns the keys of calls of a body, int64 `[calls, columns]`.

        Args:
            body: The name of the body.
            arguments: The values of its parameters, `[calls, ...]` each.
        """
        columns = [
            self._strings.number(tensor) if tensor.dtype == tf.string else tensor
            for tensor, tells in zip(arguments, self._is_in_key[body], strict=True)
            if tells
        ]
        return self._numbers.key(self._bodies.index(body), columns)

    def number(self, keys: tf.Tensor, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the numbers of calls, and which are new; see `NumberTable.number`."""
        return self._numbers.number(keys, count)


def _is_in_key(graph: TaggedGraph, node: Entrance) -> bool:
    """Whether an argument is part of the key of a call.

    Of other values that tokens carry, equal calls share those of the first call.
    """
    if not node.is_root:
        return not node.is_carried
    return graph.memo is not None and not graph.memo.across_roots


class NumberTable:
    """The numbers of keys that have a body and integers.

    Args:
        num_columns: The number of integers that identify a call, its body's number first.
    """

    def __init__(self, num_columns: int):
        rest = [0] * num_columns
        self._table = tf.raw_ops.AnonymousMutableDenseHashTable(
            empty_key=tf.constant([_NONE, *rest], _INT),
            deleted_key=tf.constant([_NONE - 1, *rest], _INT),
            value_dtype=_INT,
            value_shape=[],
            initial_num_buckets=1 << 10,
        )
        self._num_columns = num_columns

    def key(self, body: int, columns: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the keys of calls of a body, int64 `[calls, columns]`.

        The last column is a hash of the others. Without it, the table would put neighboring
        integers into neighboring places, and search for long.
        """
        first = tf.fill(tf.shape(columns[0]), tf.constant(body, _INT))
        keys = tf.stack([first, *(tf.cast(column, _INT) for column in columns)], 1)
        keys = tf.pad(keys, [[0, 0], [0, self._num_columns - len(columns) - 1]])
        return tf.concat([keys, tf.expand_dims(_mixed(keys), 1)], 1)

    def number(self, keys: tf.Tensor, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the numbers of calls; new ones get the next numbers, in order.

        Args:
            keys: The keys of the calls, int64 `[calls, columns]`.
            count: The number of calls that have a number already, an int32 scalar.

        Returns:
            The numbers, int32 `[calls]`, and whether each call is the first with its key, bool
            `[calls]`.
        """
        firsts, place = _equal(keys)
        distinct = tf.gather(keys, firsts)
        known = _found(self._table, distinct)
        is_unknown = known == _NONE
        numbers = tf.cast(count, _INT) + tf.cumsum(tf.cast(is_unknown, _INT)) - 1
        new = rows_where(is_unknown, distinct), rows_where(is_unknown, numbers)
        with tf.control_dependencies([_added(self._table, *new)]):
            found = tf.gather(tf.where(is_unknown, numbers, known), place)
        is_new = tf.scatter_nd(tf.expand_dims(firsts, 1), is_unknown, tf.shape(place))
        return tf.cast(found, tf.int32), is_new


def _equal(keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first row with each key, int32 `[keys]`, and for each row the place of its key.

    TensorFlow is slow to compare rows, so only the last column is compared if that is enough.
    """
    place = tf.unique(keys[:, -1]).idx
    is_same = tf.reduce_all(keys == tf.gather(keys, tf.gather(_firsts(place), place)))
    place = tf.cond(
        is_same, lambda: place, lambda: tf.raw_ops.UniqueV2(x=keys, axis=tf.constant([0])).idx
    )
    return _firsts(place), place


def _firsts(place: tf.Tensor) -> tf.Tensor:
    """The first row that has each place, int32 `[places]`."""
    count = 1 + tf.reduce_max(tf.concat([place, [-1]], 0))
    return tf.math.unsorted_segment_min(tf.range(tf.size(place)), place, count)


def _mixed(keys: tf.Tensor) -> tf.Tensor:
    """A hash of each key, whose bits depend on all columns, int64 `[calls]`."""
    mixed = tf.zeros_like(keys[:, 0])
    for column in tf.unstack(keys, axis=1):
        mixed = tf.bitwise.bitwise_xor(mixed, column) * _MULTIPLIER
        high = tf.bitwise.right_shift(mixed, tf.constant(29, _INT))
        mixed = tf.bitwise.bitwise_xor(mixed, high)
    return mixed


class StringTable:
    """Numbers for strings, in a hash table of the run's own; equal strings have equal numbers."""

    def __init__(self) -> None:
        self._table = tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.string, value_dtype=_INT)

    def number(self, strings: tf.Tensor) -> tf.Tensor:
        """Returns the numbers of strings, int64 `[strings]`."""
        distinct, places = tf.unique(strings)
        numbers = _found(self._table, distinct)
        new = rows_where(numbers == _NONE, distinct)
        first = tf.raw_ops.LookupTableSizeV2(table_handle=self._table)
        added = _added(self._table, new, first + tf.range(tf.size(new, _INT)))
        with tf.control_dependencies([added]):
            return tf.gather(_found(self._table, distinct), places)


def _found(table: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """The number that a table has for each key, `_NONE` if it has none; int64 `[keys]`."""
    default = tf.constant(_NONE, _INT)
    found = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=keys, default_value=default)
    return tf.ensure_shape(found, [None])


def _added(table: tf.Tensor, keys: tf.Tensor, numbers: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=keys, values=numbers)
