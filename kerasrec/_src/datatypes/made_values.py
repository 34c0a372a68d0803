"""Values that a recursive function makes.

Each token that makes a value collects its fields (`kerasrec.collect`) under a key, which stands for
the value until the run ends. Then the values become rows of tables, behind those that were given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.data_type import DataType, family_of, is_object, kinds_of
from kerasrec._src.datatypes.field import Choice, Field, Reference, described
from kerasrec._src.datatypes.kinds import Kind, Kinds
from kerasrec._src.datatypes.made_rows import COUNT, FIRST, PREFIX, name_of_table
from kerasrec._src.datatypes.values import Tables, Value, checked, map_values, tables_in
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.carried import FIRST_KEY
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.made import keep, new_key
from kerasrec._src.trace.ragged import map_fn
from kerasrec._src.trace.source import here
from kerasrec._src.trace.tracer import TraceAgainError, Tracer

# For the entries of lists: the keys of the values that contain them, and their places in the list.
OWNER, PLACE = "owner", "place"


def make(tracer: Tracer, instance: DataType, schema_of: Callable[[type[DataType]], Kinds]) -> Value:
    """Returns a value for each token.

    Args:
        tracer: The tracer of the function that makes it.
        instance: An object whose fields contain tensors, values, and constants that all tokens
            share.
        schema_of: Returns the schema of a type, for a value that belongs to no batch.

    Raises:
        SignatureError: If the content of a field is not as declared.
        TraceError: If the fields contain values of another batch, or of several; or if its type has
            several kinds.
    """
    kinds = kinds_of(type(instance))
    if len(kinds) > 1:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise TraceError(
            f"{type(instance).__name__} is a type with several kinds, and values are of one of "
            f"them. Call one of {names}."
        )
    return _made(tracer, instance, _tables_for(tracer, instance, schema_of))


def _made(tracer: Tracer, instance: DataType, tables: Tables) -> Value:
    (number,) = tables.schema.numbers(type(instance))
    maker = _Maker(tracer, tables.schema.kinds[number], tables)
    lists: list[_Entries] = []
    content: dict[str, tf.Tensor] = {}
    for field in maker.kind.fields:
        value = vars(instance)[field.name]
        if field.is_list:
            lists.append(maker.entries(field, value))
        else:
            content |= maker.content(field, value)
    of_lists = [tensor for entries in lists for tensor in (entries.first, entries.count)]
    rows = name_of_table(tables, maker.kind.name)
    key = new_key(tracer, rows, number, [*content.values(), *of_lists])
    for name, tensor in {maker.kind.name: key, **content}.items():
        maker.keep(tensor, key, name)
    for entries in lists:
        maker.keep(entries.first, key, entries.name, FIRST, is_result=False)
        maker.keep(entries.count, key, entries.name, COUNT, is_result=False)
        entries.keep_owner(key)
    return Value(key, tables, (number,), _is_made=True)


@dataclass(frozen=True, eq=False)
class _Entries:
    """The entries of a list, which are kept.

    Args:
        name: The key of the list in a batch.
        first: The key of the first entry, int64 `[tokens]`.
        count: The number of entries, int32 `[tokens]`.
        keep_owner: Keeps, for each entry, the key of the value that contains the list.
    """

    name: str
    first: tf.Tensor
    count: tf.Tensor
    keep_owner: Callable[[tf.Tensor], Any]


class _Maker:
    """One place of the program that makes values of a kind."""

    def __init__(self, tracer: Tracer, kind: Kind, tables: Tables):
        self.tracer = tracer
        self.kind = kind
        self.tables = tables

    def keep(
        self, tensor: tf.Tensor, key: tf.Tensor, *keys: str, rows: str = "", is_result: bool = True
    ) -> None:
        """Keeps a tensor under the keys of the values, or of the entries of a list."""
        name, rows = (name_of_table(self.tables, *of) for of in (keys, [rows or self.kind.name]))
        keep(self.tracer, name, rows, tensor, key, is_result)

    def content(self, field: Field, value: Any) -> dict[str, tf.Tensor]:
        """Returns what is kept of a field that is not a list, by key in a batch."""
        content = {self.kind.key(field): self._tensor(field, value)}
        if field.needs_presence:
            content[self.kind.presence_key(field)] = tf.constant(value is not None)
        return content

    def entries(self, field: Field, value: Any) -> _Entries:
        """Keeps the entries of a list."""
        name = self.kind.key(field)
        if isinstance(value, list | tuple | np.ndarray):
            content = [self._tensor(field, entry) for entry in value]
            first = self._new_entries(name, content)
            keys = [first + place for place in range(len(content))]
            for entry, key in zip(content, keys, strict=True):
                self.keep(entry, key, name, rows=name)

            def keep_owner(owner: tf.Tensor) -> None:
                for place, key in enumerate(keys):
                    self._keep_owner(name, key, owner, tf.constant(place))

            return _Entries(name, first, tf.constant(len(content)), keep_owner)
        rows = self._node_of(field, value) if isinstance(value, Value) else value
        if not isinstance(rows, tf.RaggedTensor):
            raise self._error(field, f"is {_shown(value)}")
        places = rows.with_values(self.tracer.rows_of(rows).places())

        def kept(entry: tf.Tensor) -> tf.Tensor:
            entry = self._checked(field, entry)
            key = self._new_entries(name, [entry])
            self.keep(entry, key, name, rows=name)
            return key

        keys_of_rows = map_fn(kept, rows)

        def keep_owners(owner: tf.Tensor) -> None:
            def each(pair: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
                key, place = pair
                self._keep_owner(name, key, owner, place)
                return place

            map_fn(each, (keys_of_rows, places))

        count = tf.reduce_sum(tf.ones_like(places), axis=1)
        return _Entries(name, tf.reduce_min(keys_of_rows, axis=1), count, keep_owners)

    def _new_entries(self, name: str, content: Sequence[tf.Tensor]) -> tf.Tensor:
        """The key of the first of some entries, which have keys one after another."""
        if not content:
            return tf.constant(FIRST_KEY, tf.int64)
        rows = name_of_table(self.tables, name)
        return new_key(self.tracer, rows, 0, content, width=len(content))

    def _keep_owner(self, name: str, key: tf.Tensor, owner: tf.Tensor, place: tf.Tensor) -> None:
        self.keep(owner, key, name, OWNER, rows=name)
        self.keep(place, key, name, PLACE, rows=name)

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
        return self._checked(field, value)

    def _node_of(self, field: Field, value: Value) -> Any:
        """The numbers of a value, once the field is known to allow it."""
        content, schema = field.content, self.tables.schema
        allowed = schema.numbers(content.family) if isinstance(content, Reference) else ()
        others = [kind for kind in value._kinds if kind not in allowed]
        if value._is_made and len(others) < len(value._kinds):
            others = []  # Which it is can be asked only after the run: see `_MadeTables`.
        names = [schema.kinds[kind].name for kind in others]
        names += ["None"] * (value._is_optional and not field.is_optional)
        if names:
            raise self._error(field, f"is a value that may be {' or '.join(names)}")
        return value._node

    def _checked(self, field: Field, tensor: tf.Tensor) -> tf.Tensor:
        """A tensor of the graph; raises SignatureError if a field's content has another type."""
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
        token_type = self.tracer.token_type(tensor, self._what(field))
        if not token_type.accepts(Type(dtype, field.content.shape)):
            shape = list(field.content.shape)
            hint = ", the number of the choice" if isinstance(field.content, Choice) else ""
            raise self._error(
                field,
                f"is {token_type.dtype.name} of shape {list(token_type.shape or [])} per token",
                f"{dtype.name} of shape {shape}{hint}",
            )
        if not token_type.is_static and tensor.shape.rank is not None:
            before = tensor.shape[: tensor.shape.rank - len(field.content.shape)]
            tensor = tf.ensure_shape(tensor, [*before, *field.content.shape])
        return tensor

    def _what(self, field: Field) -> str:
        return f"{self.kind.name}.{field.name}"

    def _error(self, field: Field, problem: str, wanted: str | None = None) -> SignatureError:
        return SignatureError(f"{self._what(field)}{here()} {problem}; expected {wanted or field}.")


def _shown(value: Any) -> str:
    return "a tensor" if tf.is_tensor(value) else described(value)


def _tables_for(
    tracer: Tracer, instance: DataType, schema_of: Callable[[type[DataType]], Kinds]
) -> Tables:
    """The tables to which a new value belongs.

    They are the tables of the values in its fields. Without any, they are those with which the
    program is called, if they have this kind, and otherwise tables of values that are made from
    nothing.
    """
    kind = type(instance)
    candidates = tables_in(list(vars(instance).values()))
    _join_if_made_from_nothing(tracer, family_of(kind), candidates)
    place = here()
    if len(candidates) > 1:
        raise TraceError(
            f"{kind.__name__}{place} is made of values of several batches. Encode them "
            "together, as a value of a type that has a field for each."
        )
    if candidates and candidates[0].schema.number(kind) is None:
        raise TraceError(
            f"{kind.__name__}{place} is made of values of a batch that has no such kind; it has "
            f"{', '.join(known.name for known in candidates[0].schema.kinds)}. Encode the values "
            "as a part of a type whose fields lead to both."
        )
    given = tables_in(tracer.outside.arguments)
    candidates = candidates or [
        tables for tables in given if tables.schema.number(kind) is not None
    ]
    if len(candidates) > 1:
        raise TraceError(
            f"{kind.__name__}{place} could belong to several of the batches that the function was "
            "called with. Encode these together, as a value of a type that has a field for each."
        )
    if candidates:
        return candidates[0]
    family = family_of(kind)
    if family not in tracer.outside.found:
        tracer.outside.found[family] = Tables.of_none(schema_of(family))
    tables: Tables = tracer.outside.found[family]
    return tables


def _join_if_made_from_nothing(
    tracer: Tracer, family: type[DataType], candidates: Sequence[Tables]
) -> None:
    """Gives a new value one kind of tables with the values in its fields, if none was given.

    Raises:
        TraceAgainError: If types have other tables from now on.
    """
    found = tracer.outside.found
    known = [kind for tables in candidates for kind in tables.schema.kinds]
    is_one = len(candidates) == 1 and bool(candidates[0].schema.numbers(family))
    if not candidates or is_one or not all(tables in found.values() for tables in candidates):
        return
    families = [family, *(family_of(kind.type) for kind in known)]
    joined = Tables.of_none(Kinds.of_several(families))
    found.update((family_of(kind.type), joined) for kind in joined.schema.kinds)
    raise TraceAgainError


def with_made(result: Any, collected: dict[str, tf.Tensor]) -> tuple[Any, dict[str, tf.Tensor]]:
    """Returns a result with node numbers instead of keys, and the user's collected values.

    Args:
        result: The nest that a program returns.
        collected: All tables of its run.
    """
    made_tables: dict[Tables, _MadeTables] = {}

    def replaced(value: Value) -> Value:
        tables = value._tables
        if not any(name_of_table(tables, kind.name) in collected for kind in tables.schema.kinds):
            return value
        if tables not in made_tables:
            made_tables[tables] = _MadeTables(tables, collected)
        made = made_tables[tables]
        return dataclasses.replace(
            value, _node=made.numbers(value._node), _tables=made.tables, _is_made=False
        )

    own = {name: table for name, table in collected.items() if not name.startswith(PREFIX)}
    return map_values(replaced, result), own


class _MadeTables:
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
        in_order = tf.gather(keys, self._order)
        message = (
            "Two values that were made in one run have the same key of 62 bits, by chance. Call "
            "the function for fewer tokens at once."
        )
        self._sorted = checked(in_order, in_order[1:] > in_order[:-1], message)
        made = [tf.fill([tf.size(keys)], kind.number) for kind, keys in self._keys.items()]
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
        position = tf.searchsorted(self._sorted, tf.reshape(nodes, [-1]))
        place = tf.gather(places, tf.reshape(position, tf.shape(nodes)))
        return tf.where(nodes < FIRST_KEY, nodes, self._num_given + place)

    def _tables(self) -> Tables:
        given = self._given
        rows, fields = [given.rows], dict(given.fields)
        for kind, keys in self._keys.items():
            count = tf.size(keys)
            before = given.count(kind)
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
        content, values = field.content, self._table(kind.key(field))
        name = f"{kind.name}.{field.name}"
        if isinstance(content, Choice):
            is_right = (values >= 0) & (values < content.size)
            message = f"{name} was made with a number of no choice; they are below {content.size}."
            return checked(values, is_right, message)
        if not isinstance(content, Reference):
            return values
        values = self.numbers(values)
        schema = self._given.schema
        allowed = schema.numbers(content.family)
        if allowed == schema.numbers(family_of(content.family)):
            return values
        is_allowed = tf.constant([kind.number in allowed for kind in schema.kinds])
        kinds = tf.gather(self._kinds, tf.boolean_mask(values, values >= 0))
        message = f"{name} was made with a value of another kind; expected {field}."
        return checked(values, tf.gather(is_allowed, kinds), message)

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
