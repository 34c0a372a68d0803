"""Values that a recursive function makes.

Each token that makes a value collects its fields (`kerasrec.collect`) under a key, which stands for
the value until the run ends. Then `made.py` makes tables of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.declare import DataType, family_of, is_object, kinds_of
from kerasrec._src.datatypes.field import Choice, Field, Reference, described
from kerasrec._src.datatypes.kinds import Kind, Kinds
from kerasrec._src.datatypes.values import Tables, Value, tables_in
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.ragged import map_fn
from kerasrec._src.trace.source import current_source, here
from kerasrec._src.trace.tracer import CollectRecord, Tracer

# Names of tables of the values that are made.
PREFIX = "kerasrec/made"
# For the entries of lists: the keys of the values that contain them, and their places in the list.
OWNER, PLACE = "owner", "place"


def name_of_table(tables: Tables, *keys: str) -> str:
    """The name under which a field of new values is collected.

    Args:
        tables: The tables of the values.
        keys: The keys of the field in a batch; or the name of a kind, for the keys of its values.
    """
    return "/".join([PREFIX, str(tables.number), *keys])


def make(tracer: Tracer, item: DataType, schema_of: Callable[[type[DataType]], Kinds]) -> Value:
    """Returns a value for each token.

    Args:
        tracer: The tracer of the function that makes it.
        item: An object whose fields contain tensors, values, and constants that all tokens share.
        schema_of: Returns the schema of a type, for a value that belongs to no batch.

    Raises:
        SignatureError: If the content of a field is not as declared.
        TraceError: If the fields contain values of another batch, or of several; or if its type has
            several kinds.
    """
    kinds = kinds_of(type(item))
    if len(kinds) > 1:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise TraceError(
            f"{type(item).__name__} is a type with several kinds, and values are of one of them. "
            f"Call one of {names}."
        )
    return _made(tracer, item, _tables_for(tracer, item, schema_of))


def _made(tracer: Tracer, item: DataType, tables: Tables) -> Value:
    (number,) = tables.schema.numbers(type(item))
    kind = tables.schema.kinds[number]
    making = _Making(tracer, kind, tables, tracer.key())
    making.keep(making.key, kind.name)
    for field in kind.fields:
        making.field(field, vars(item)[field.name])
    return Value(making.key, tables, (number,), _is_made=True)


class _Making:
    """One place of the program that makes values of a kind."""

    def __init__(self, tracer: Tracer, kind: Kind, tables: Tables, key: tf.Tensor):
        self.tracer = tracer
        self.kind = kind
        self.tables = tables
        self.key = key

    def keep(self, tensor: tf.Tensor, *keys: str, key: tf.Tensor | None = None) -> None:
        """Collects a tensor under the keys of the values, or of the entries of a list."""
        name = name_of_table(self.tables, *keys)
        tensor = self.tracer.tensor(tensor, None, name)
        anchor = tf.no_op("make")
        record = CollectRecord(
            name, tensor, self.key if key is None else key, None, anchor, current_source()
        )
        self.tracer.collects.append(record)

    def field(self, field: Field, value: Any) -> None:
        """Collects the content of a field."""
        if field.is_list:
            self._list(field, value)
            return
        self.keep(self._tensor(field, value), self.kind.key(field))
        if field.needs_presence:
            self.keep(tf.constant(value is not None), self.kind.presence_key(field))

    def _list(self, field: Field, value: Any) -> None:
        """Collects the entries of a list, under keys of their own."""
        if isinstance(value, list | tuple | np.ndarray):
            for place, entry in enumerate(value):
                self._entry(field, self._tensor(field, entry), self.key, tf.constant(place))
            return
        rows = self._node_of(field, value) if isinstance(value, Value) else value
        if not isinstance(rows, tf.RaggedTensor):
            raise self._error(field, f"is {_shown(value)}")
        places = tf.cast(self.tracer.rows_of(rows).places(), tf.int32)

        def each(pair: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            entry, place = pair
            self._check(field, entry)
            self._entry(field, entry, self.key, place)
            return place

        map_fn(each, (rows, rows.with_values(places)))

    def _entry(self, field: Field, entry: tf.Tensor, owner: tf.Tensor, place: tf.Tensor) -> None:
        name, key = self.kind.key(field), self.tracer.key()
        self.keep(entry, name, key=key)
        self.keep(owner, name, OWNER, key=key)
        self.keep(place, name, PLACE, key=key)

    def _tensor(self, field: Field, value: Any) -> tf.Tensor:
        """The content of a field, or an entry of its list: one value for each token, or for all."""
        content = field.content
        if is_object(value) and self.tables.schema.number(type(value)) is not None:
            value = _made(self.tracer, value, self.tables)
        if value is None and field.is_optional:
            dtype = tf.int64 if field.is_reference else content.dtype
            return tf.constant(content.empty, dtype)
        if isinstance(value, Value):
            value = self._node_of(field, value)
        elif isinstance(content, Reference):
            raise self._error(field, f"is {_shown(value)}")
        elif not tf.is_tensor(value):
            try:
                return tf.constant(content.array(value), content.dtype)
            except ValueError as error:
                raise self._error(field, str(error).partition("; expected")[0]) from error
        if isinstance(value, tf.RaggedTensor):
            raise self._error(field, "is a row of values for each token")
        self._check(field, value)
        return value

    def _node_of(self, field: Field, value: Value) -> Any:
        """The numbers of a value, once the field is known to allow it."""
        content, schema = field.content, self.tables.schema
        allowed = schema.numbers(content.family) if isinstance(content, Reference) else ()
        others = [kind for kind in value._kinds if kind not in allowed]
        if value._is_made and len(others) < len(value._kinds):
            others = []  # Which it is can be asked only after the run: see `made.py`.
        names = [schema.kinds[kind].name for kind in others]
        names += ["None"] * (value._is_optional and not field.is_optional)
        if names:
            raise self._error(field, f"is a value that may be {' or '.join(names)}")
        return value._node

    def _check(self, field: Field, tensor: tf.Tensor) -> None:
        """Raises SignatureError if a tensor does not have the type of a field's content."""
        if isinstance(field.content, Choice) and field.content.taken_for_another:
            value, number = field.content.taken_for_another
            raise self._error(
                field,
                "is a tensor",
                f"a Python value, {field.content}: a tensor holds numbers of choices, and that of "
                f"{value!r} is {number}. To pass tensors, declare the field as a number",
            )
        dtype = tf.int64 if field.is_reference else field.content.dtype
        tensor = self.tracer.tensor(tensor, None, self._what(field))
        found = self.tracer.token_type(tensor, self._what(field))
        if not found.accepts(Type(dtype, field.content.shape)):
            shape = list(field.content.shape)
            hint = ", the number of the choice" if isinstance(field.content, Choice) else ""
            raise self._error(
                field,
                f"is {found.dtype.name} of shape {list(found.shape or [])} per token",
                f"{dtype.name} of shape {shape}{hint}",
            )

    def _what(self, field: Field) -> str:
        return f"{self.kind.name}.{field.name}"

    def _error(self, field: Field, found: str, wanted: str | None = None) -> SignatureError:
        return SignatureError(f"{self._what(field)}{here()} {found}; expected {wanted or field}.")


def _shown(value: Any) -> str:
    return "a tensor" if tf.is_tensor(value) else described(value)


def _tables_for(
    tracer: Tracer, item: DataType, schema_of: Callable[[type[DataType]], Kinds]
) -> Tables:
    """The tables to which a new value belongs.

    They are the tables of the values in its fields. Without any, they are those with which the
    program is called, if they have this kind, and otherwise tables of values that are made from
    nothing.
    """
    kind = type(item)
    found = tables_in(list(vars(item).values()))
    place = here()
    if len(found) > 1:
        raise TraceError(
            f"{kind.__name__}{place} is made of values of several batches. Let them be of one: "
            "encode them together, as a value of a type that has a field for each."
        )
    if found and found[0].schema.number(kind) is None:
        raise TraceError(
            f"{kind.__name__}{place} is made of values of a batch that has no such kind; it has "
            f"{', '.join(one.name for one in found[0].schema.kinds)}. Encode the values as a part "
            "of a type whose fields lead to both."
        )
    given = tables_in(tracer.outside.arguments)
    found = found or [tables for tables in given if tables.schema.number(kind) is not None]
    if len(found) > 1:
        raise TraceError(
            f"{kind.__name__}{place} could belong to several of the batches that the function was "
            "called with. Encode these together, as a value of a type that has a field for each."
        )
    if found:
        return found[0]
    family = family_of(kind)
    if family not in tracer.outside.found:
        tracer.outside.found[family] = Tables.of_none(schema_of(family))
    tables: Tables = tracer.outside.found[family]
    return tables
