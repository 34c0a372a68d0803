"""Where a run finds the values that it has made, next to those that it was given.

A value that was made has a key instead of the number of a tree node. Its fields are in rows of
tables that the run fills (`trace/made.py`). The entries of a list have separate rows, one after
another, and the value has the key of the first one and their number.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.field import Field
from kerasrec._src.datatypes.kinds import Kind
from kerasrec._src.graph.carried import FIRST_KEY, number_of_key
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.made import get
from kerasrec._src.trace.ragged import map_fn
from kerasrec._src.trace.tracer import Tracer

# Names of tables of the values that are made.
PREFIX = "kerasrec/made"
# Of a list, for the value that contains it: the key of its first entry, and their number.
FIRST, COUNT = "first", "count"

_NODE, _INTEGER = Type(tf.int64, ()), Type(tf.int32, ())


def name_of_table(tables: Any, *keys: str) -> str:
    """The name under which a field of new values is kept.

    Args:
        tables: The `Tables` of the values.
        keys: The keys of the field in a batch; or the name of a kind, for the keys of its values.
    """
    return "/".join([PREFIX, str(tables.number), *keys])


def content_of(field: Field) -> Type:
    """Returns the type of a field's value, or of an entry of its list."""
    return _NODE if field.is_reference else Type(field.content.dtype, field.content.shape)


def number_by_kind(tables: Any, node: tf.Tensor, numbers: list[int], of_none: int) -> tf.Tensor:
    """Returns a number for the kind of each value that may be given or made, int32 `[tokens]`.

    Args:
        tables: The `Tables` of the values.
        node: Numbers of tree nodes, or keys; negative for None.
        numbers: The number for each kind.
        of_none: The number for None.
    """
    is_made = node >= FIRST_KEY
    made = tf.gather(tf.constant(numbers), number_of_key(tf.maximum(node, FIRST_KEY)))
    given: tf.Tensor = of_none
    if not _has_none(tables):
        table = tf.concat([tf.gather(tf.constant(numbers), tables.kinds), [of_none]], 0)
        last = tf.size(tables.kinds, tf.int64)
        given = tf.gather(table, tf.where(is_made | (node < 0), last, node))
    return tf.where(is_made, made, given)


def read(
    tracer: Tracer, tables: Any, kind: Kind, key: str, content: Type, node: tf.Tensor
) -> tf.Tensor:
    """Returns what is in a field of values that may be given or made, `[tokens, ...]`.

    Args:
        tracer: The tracer of the function.
        tables: The `Tables` of the values.
        kind: The kind of the values.
        key: The key of the field in a batch; it is not a list.
        content: The type of its value.
        node: Numbers of tree nodes, or keys.
    """
    given = None if _has_none(tables) else tables.fields[key]
    return _read(tracer, tables, (kind.name, key), content, node, given, tables.rows)


def read_list(tracer: Tracer, tables: Any, kind: Kind, field: Field, node: tf.Tensor) -> Any:
    """Returns the entries in the lists of values that may be given or made, as ragged rows."""
    key = kind.key(field)
    given = None if _has_none(tables) else tables.fields[key]
    starts = None if given is None else tf.cast(given.row_starts(), tf.int64)
    lengths = None if given is None else tf.cast(given.row_lengths(), tf.int32)
    own = tracer, tables
    first = _read(*own, (kind.name, key, FIRST), _NODE, node, starts, tables.rows)
    count = _read(*own, (kind.name, key, COUNT), _INTEGER, node, lengths, tables.rows)
    keys = tf.ragged.range(first, first + tf.cast(count, tf.int64))
    values = None if given is None else given.values
    content = content_of(field)
    return map_fn(lambda entry: _read(*own, (key, key), content, entry, values), keys)


def with_kinds_checked(tables: Any, nodes: Any, kinds: tuple[int, ...], message: str) -> Any:
    """Returns values, once it is known that they are of some kinds, or None.

    Args:
        tables: The `Tables` of the values.
        nodes: Numbers of tree nodes, or keys, `[tokens]` or as ragged rows.
        kinds: The numbers of the kinds.
        message: The message for the user if they are of others.
    """
    are_right = [int(kind.number in kinds) for kind in tables.schema.kinds]

    def check(node: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_equal(number_by_kind(tables, node, are_right, 1), 1, message)
        return node

    return map_fn(check, nodes) if isinstance(nodes, tf.RaggedTensor) else check(nodes)


def _has_none(tables: Any) -> bool:
    """Whether no value was given."""
    return bool(tables.kinds.shape[0] == 0)


def _read(
    tracer: Tracer,
    tables: Any,
    names: tuple[str, ...],
    content: Type,
    node: tf.Tensor,
    given: tf.Tensor | None,
    rows: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns a table's rows for keys, and those of another table for other numbers.

    Args:
        tracer: The tracer of the function.
        tables: The `Tables` of the values.
        names: The name of the rows, then the keys of the table.
        content: The type of a row.
        node: The keys, or numbers.
        given: The table for numbers that are not keys; None if there are none.
        rows: The row in this table for each number; None if the numbers are rows.
    """
    rows_name, name = name_of_table(tables, names[0]), name_of_table(tables, *names[1:])
    known = tracer.known_reads.setdefault((name, node.ref()), [])
    for scope, read_before in known:
        if scope == tracer.scope[: len(scope)]:
            return read_before
    is_made = node >= FIRST_KEY
    key = node if given is None else tf.maximum(node, FIRST_KEY)
    found = get(tracer, name, rows_name, key, content)
    if given is not None:
        found = _or_given(found, is_made, node, given, rows)
    known.append((tracer.scope, found))
    return found


def _or_given(
    found: tf.Tensor,
    is_made: tf.Tensor,
    node: tf.Tensor,
    given: tf.Tensor,
    rows: tf.Tensor | None,
) -> tf.Tensor:
    """Returns what was found for made values, and rows of a table for others; see `_read`."""
    # One row more, for tokens whose value is made.
    given = tf.concat([given, tf.zeros([1, *given.shape[1:]], given.dtype)], 0)
    if rows is None:
        place = tf.where(is_made, tf.shape(given, tf.int64)[0] - 1, node)
    else:
        rows = tf.concat([rows, [0]], 0)
        place = tf.gather(rows, tf.where(is_made, tf.size(rows, tf.int64) - 1, node))
    is_made = tf.reshape(is_made, [-1, *[1] * (found.shape.rank - 1)])
    return tf.where(is_made, found, tf.gather(given, place))
