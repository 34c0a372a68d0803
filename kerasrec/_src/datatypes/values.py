"""Values of data types inside a recursive function: numbers of tree nodes in tables."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import tensorflow as tf

from kerasrec._src.datatypes.data_type import DataType, family_of
from kerasrec._src.datatypes.field import Choice, Field, Reference
from kerasrec._src.datatypes.kinds import Kind, Kinds
from kerasrec._src.datatypes.made_rows import content_of, read, read_list, with_kinds_checked
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.source import at_this_line
from kerasrec._src.trace.tracer import active_tracer, tracer_for

_numbers = itertools.count(1)
_READS = "A field of a value that was made in the same run"


@dataclass(frozen=True, eq=False)
class Tables:
    """All tree nodes of a batch, one after another; all tokens read the same tables.

    Args:
        schema: The schema of the values.
        kinds: The kind of each tree node, int32 `[nodes]`.
        rows: The row of each tree node in the tables of its kind, int32 `[nodes]`.
        fields: By the keys of the schema, a row for each tree node of the kind. References are
            int64 numbers of tree nodes of the batch, and lists are RaggedTensors.
        number: A number that distinguishes tables.
    """

    schema: Kinds
    kinds: tf.Tensor
    rows: tf.Tensor
    fields: dict[str, Any]
    number: int = dataclasses.field(default_factory=lambda: next(_numbers))

    def flat(self) -> list[Any]:
        """All tensors and RaggedTensors."""
        return [self.kinds, self.rows, *self.fields.values()]

    def specs(self) -> list[Any]:
        """The specs of the tables of a schema, whatever their sizes."""
        return [_open_spec(tensor) for tensor in self.flat()]

    @staticmethod
    def of_flat(schema: Kinds, flat: Sequence[Any]) -> Tables:
        """Returns tables of a schema from the result of `flat`."""
        kinds, rows, *fields = flat
        _, *keys = schema.element_spec
        return Tables(schema, kinds, rows, dict(zip(keys, fields, strict=True)))

    @staticmethod
    def of_none(schema: Kinds) -> Tables:
        """Returns tables without any tree nodes."""
        with tf.init_scope():
            none = tf.zeros([0], tf.int32)
            fields: dict[str, Any] = {}
            for kind in schema.kinds:
                for field in kind.fields:
                    dtype = tf.int64 if field.is_reference else field.content.dtype
                    values = tf.zeros([0, *field.content.shape], dtype)
                    rows = tf.RaggedTensor.from_row_lengths(values, none)
                    fields[kind.key(field)] = rows if field.is_list else values
                    if field.needs_presence:
                        fields[kind.presence_key(field)] = tf.zeros([0], tf.bool)
            return Tables(schema, none, none, fields)

    def nodes_of(self, kind: Kind) -> tf.Tensor:
        """The tree nodes of a kind, in the order of its rows, int64."""
        return tf.where(self.kinds == kind.number)[:, 0]

    def count(self, kind: Kind) -> tf.Tensor:
        """The number of tree nodes of a kind, an int32 scalar."""
        return tf.math.count_nonzero(self.kinds == kind.number, dtype=tf.int32)

    def __repr__(self) -> str:
        return f"batch {self.number}"


def _open_spec(tensor: tf.Tensor | tf.RaggedTensor) -> Any:
    """The type of a tensor with any number of rows."""
    if isinstance(tensor, tf.RaggedTensor):
        shape = [None, None, *tensor.values.shape[1:]]
        return tf.RaggedTensorSpec(shape, tensor.dtype, 1, tensor.row_splits.dtype)
    return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Value:
    """A value of a data type for each token, in a recursive function.

    Its fields are attributes. A field may be read once the kind of the value is known: inside a
    branch of `kerasrec.match`, or anywhere if its type has one kind. `has("field")` is true where
    an optional field has a value, bool `[tokens]`. A field that is a list has a row of values for
    each token; `one + other` joins two such rows.

    A value that may have been made in the same run has a key instead of the number of a tree node
    (see `made_rows.py`).
    """

    # Numbers in the function do not take their dtype from the numbers that stand for values.
    _holds_references: ClassVar[bool] = True
    # Names of dataclass fields, which begin with an underscore, are not names of a user's fields.
    _node: Any
    _tables: Tables
    _kinds: tuple[int, ...]
    _is_optional: bool = False
    _is_made: bool = False
    _row: Any = None

    # For tf.nest, only values that differ between tokens are components: numbers of tree nodes.
    # The possible kinds of an argument or a result are known only by its type.
    def __tf_flatten__(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self._tables, self._type, self._is_optional, self._is_made), (self._node,)

    @classmethod
    def __tf_unflatten__(cls, metadata: tuple[Any, ...], components: tuple[Any, ...]) -> Value:
        tables, family, is_optional, is_made = metadata
        (node,) = components
        return cls(node, tables, tables.schema.numbers(family), is_optional, is_made)

    @property
    def _type(self) -> type[DataType]:
        return family_of(self._tables.schema.kinds[self._kinds[0]].type)

    def has(self, name: str) -> tf.Tensor:
        """Returns whether an optional field has a value, bool `[tokens]`."""
        kind, field = self._field(name)
        if not field.is_optional:
            raise TraceError(f"{kind.name}.{name} always has a value; it is not declared `| None`.")
        if field.is_reference:
            return self._rows_of(kind, kind.key(field), content_of(field)) >= 0
        return self._rows_of(kind, kind.presence_key(field), Type(tf.bool, ()))

    def lookup(self, table: Any) -> Any:
        """Returns the value's row of a table computed from the fields of all values of its kind.

        Args:
            table: A row for each tree node of the kind, `[rows, ...]`, in the order of the batch,
                such as a result computed from `batch["Number.value"].values`.

        Returns:
            The rows, `[tokens, ...]`.
        """
        self._kind("A row of a table")
        if self._is_made:
            raise TraceError(
                "A row of a table is not available for a value that may have been made in the same "
                "run; the table has rows for given values only. Call a second function on the "
                "result: "
                f"`second(first(x))`, outside of both.{at_this_line()}"
            )
        return tf.gather(table, self._rows())

    def __add__(self, other: Any) -> Value:
        """Joins the rows of two lists for each token."""
        both = [self, other]
        are_rows = all(
            isinstance(value, Value) and isinstance(value._node, tf.RaggedTensor) for value in both
        )
        if not are_rows or len({(value._tables, value._type) for value in both}) > 1:
            raise SignatureError(
                f"{self!r} + {other!r}: expected two lists of values of one type and one batch, "
                f"each a row of values for each token.{at_this_line()}"
            )
        rows = tf.concat([self._node, other._node], axis=1)
        return dataclasses.replace(
            self._merged(other),
            _node=rows,
            _row=None,
            _kinds=tuple(sorted({*self._kinds, *other._kinds})),
            _is_optional=self._is_optional or other._is_optional,
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._read(name)

    def _read(self, name: str) -> Any:
        """The field of a name, which may be any text if the schema was inferred."""
        kind, field = self._field(name)
        if isinstance(field.content, Choice) and field.content.taken_for_another:
            raise _taken_for_another(kind, field, *field.content.taken_for_another)
        if self._is_made and field.is_list:
            entries = read_list(tracer_for(_READS), self._tables, kind, field, self._node)
        else:
            entries = self._rows_of(kind, kind.key(field), content_of(field))
        tracer = active_tracer()
        if tracer is not None and isinstance(entries, tf.RaggedTensor):
            tracer.rows_of(entries)  # Allows reducing them.
        if not isinstance(field.content, Reference):
            return entries
        schema, family = self._tables.schema, field.content.family
        kinds = schema.numbers(family)
        if self._is_made and kinds != schema.numbers(family_of(family)):
            message = f"{kind.name}.{name} was made with a value of another kind; expected {field}."
            entries = with_kinds_checked(self._tables, entries, kinds, message)
        return Value(entries, self._tables, kinds, field.is_optional, self._is_made)

    def _rows_of(self, kind: Kind, key: str, content: Type) -> Any:
        """A field's values: a row for each token, or of a list a ragged row."""
        if self._is_made:
            return read(tracer_for(_READS), self._tables, kind, key, content, self._node)
        return tf.gather(self._tables.fields[key], self._rows())

    def _field(self, name: str) -> tuple[Kind, Field]:
        kind = self._kind(f"The field {name}")
        field = kind.field(name)
        if field is None:
            fields = ", ".join(field.name for field in kind.fields) or "none"
            reason = f"{kind.name} has no field {name!r}; its fields are: {fields}."
            if isinstance(self._node, tf.RaggedTensor):
                reason += f" This is {self._about_list()}"
            raise AttributeError(reason)
        return kind, field

    def _kind(self, what: str) -> Kind:
        """The only kind that the value may be."""
        kinds = [self._tables.schema.kinds[number] for number in self._kinds]
        if len(kinds) > 1 or self._is_optional:
            if isinstance(self._node, tf.RaggedTensor):
                self._refuse_python(what)
            names = [kind.name for kind in kinds] + ["None"] * self._is_optional
            raise TraceError(
                f"{what} is not available for a value that may be {', '.join(names[:-1])} or "
                f"{names[-1]}. "
                "Find out which it is: kerasrec.match(value, {Kind: lambda value: ...})."
            )
        return kinds[0]

    # Python asks these of one value, but this is one for each token.
    def __bool__(self) -> bool:
        self._refuse_in_body("The truth (`if`, `and`, `or`, `not`)")
        return True

    def __len__(self) -> int:
        self._refuse_python("`len`")

    def __iter__(self) -> NoReturn:
        self._refuse_python("A loop in Python")

    def __getitem__(self, index: Any) -> NoReturn:
        self._refuse_python(f"The index {index!r}")

    def __eq__(self, other: object) -> bool:
        if tf.is_tensor(self._node):  # And not that of a structure, as functions compare it.
            self._refuse_in_body("`==`")
            return self is other
        return isinstance(other, Value) and self._structure == other._structure

    def _refuse_in_body(self, what: str) -> None:
        if active_tracer() is not None:
            self._refuse_python(what)

    def _refuse_python(self, what: str) -> NoReturn:
        """Raises an error that names the way to ask inside a recursive function."""
        name, kind = self._type.__name__, self._tables.schema.kinds[self._kinds[0]].name
        if active_tracer() is None:
            reason = (
                f"a value of {name}, which is a tensor with a tree node for each token. "
                f"`kerasrec.Schema({name}).decode(values)` makes Python objects of it."
            )
        elif isinstance(self._node, tf.RaggedTensor):
            reason = self._about_list()
        else:
            or_none = "None: lambda: ..., " if self._is_optional else ""
            reason = (
                f"a value of {name}, whose kind is known for each token only, when the graph runs. "
                f"Use kerasrec.match(value, {{{or_none}{kind}: lambda value: ..., ...}}). If it is "
                "an argument that may be left out, ask `is None`."
            )
        raise TraceError(f"{what} is not available for {reason}{at_this_line()}")

    def _about_list(self) -> str:
        return (
            f"a list of {self._type.__name__}, which is a row of values for each token, of "
            "a length that may vary. Call the function with it, or use kerasrec.map_fn or "
            "kerasrec.filter_fn. Its length is "
            "`tf.reduce_sum(kerasrec.map_fn(lambda _: 1, values), axis=1)`."
        )

    # The questions of `trace/same_nest.py` about values.
    @property
    def _structure(self) -> tuple[Any, ...]:
        return self._node, self._tables, self._kinds, self._is_optional

    def _merged(self, other: Value) -> Value:
        return dataclasses.replace(
            self,
            _is_optional=self._is_optional or other._is_optional,
            _is_made=self._is_made or other._is_made,
        )

    def _covers(self, other: Value) -> bool:
        is_or_none = self._is_optional or not other._is_optional
        return is_or_none and (self._is_made or not other._is_made)

    def _or_none(self) -> Value:
        return dataclasses.replace(self, _is_optional=True)

    def _rows(self) -> tf.Tensor:
        return tf.gather(self._tables.rows, self._node) if self._row is None else self._row

    def __repr__(self) -> str:
        return f"<{self._type.__name__}{' or None' * self._is_optional} of {self._tables!r}>"


def _taken_for_another(kind: Kind, field: Field, value: Any, number: int) -> TraceError:
    """Returns the error for a choice that its number would be mistaken for."""
    plain = next(
        number_type for number_type in (bool, int, float) if isinstance(value, number_type)
    )
    return TraceError(
        f"{kind.name}.{field.name} is declared as {field.content}. A recursive function reads the "
        f"number of a choice, which is {number} for {value!r}, so a comparison with the choice "
        f"would be wrong. Declare the field as {plain.__name__} to read the value itself; or make "
        "the choices 0, 1, 2, ... in this order, strings, or members of an enum.Enum without "
        f"numbers.{at_this_line()}"
    )


def _refuse(value: Value, *_: Any, **__: Any) -> NoReturn:
    """Raises an error with alternatives to passing a value to an op of TensorFlow."""
    raise SignatureError(
        f"An op of TensorFlow got {value!r}, which is not a tensor. Read its fields, or choose by "
        "its kind with kerasrec.match. Work on a list of values in kerasrec.map_fn, filter it with "
        f"kerasrec.filter_fn, and join it to another one with `+`.{at_this_line()}"
    )


tf.register_tensor_conversion_function(Value, _refuse)


def tables_in(nest: Any) -> list[Tables]:
    """Returns the tables of the values in a nest of arguments, each once."""
    tables: dict[Tables, None] = {}

    def add(value: Value) -> Value:
        tables[value._tables] = None
        return value

    map_values(add, nest)
    return list(tables)


def with_tables(nest: Any, replace: Callable[[Tables], Tables]) -> Any:
    """Returns a nest of arguments whose values belong to other tables."""
    return map_values(
        lambda value: dataclasses.replace(value, _tables=replace(value._tables)), nest
    )


def map_values(replace: Callable[[Value], Value], nest: Any) -> Any:
    """Returns a nest with other values; all else stays unchanged."""
    if isinstance(nest, Value):
        return replace(nest)
    if isinstance(nest, dict):
        return {key: map_values(replace, entry) for key, entry in nest.items()}
    if isinstance(nest, list | tuple):
        entries = [map_values(replace, entry) for entry in nest]
        return type(nest)(*entries) if hasattr(nest, "_fields") else type(nest)(entries)
    return nest


def checked(tensor: tf.Tensor, are_right: tf.Tensor, message: str) -> tf.Tensor:
    """The same tensor, once a condition is known to hold everywhere."""
    check = tf.debugging.Assert(tf.reduce_all(are_right), [message])
    with tf.control_dependencies([check]):
        return tf.identity(tensor)
