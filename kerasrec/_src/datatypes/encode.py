"""From Python values to a batch of ragged tensors."""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.data_type import family_of
from kerasrec._src.datatypes.documents import CYCLE, MISSING, read_value
from kerasrec._src.datatypes.field import Field, Reference, described
from kerasrec._src.datatypes.kinds import KIND, Kind, Kinds


def encode(schema: Kinds, values: Iterable[Any]) -> dict[str, tf.RaggedTensor]:
    """Returns values as a batch.

    Args:
        schema: The schema of the values.
        values: The values, one for each example.

    Raises:
        ValueError: If a value does not fit the schema; the message has its path.
    """
    columns = _Columns(schema)
    for number, value in enumerate(values):
        columns.add_example(value, _Place(None, f"example {number}"))
    return columns.batch()


@dataclass(frozen=True)
class _Place:
    """The place of a value: a field of another value, with an index if that is a list."""

    above: _Place | None
    step: str

    def error(self, reason: object) -> ValueError:
        """Returns the error for a wrong value at this place."""
        steps: list[str] = []
        place: _Place = self
        while place.above is not None:
            steps.append(place.step)
            place = place.above
        path = "".join(reversed(steps)).removeprefix(".")
        return ValueError(f"{place.step}{path and f': {path}'} {str(reason).rstrip('.')}.")


@dataclass(frozen=True)
class _Node:
    """A tree node that was found: its value, its reader and its place."""

    value: Any
    kind: Kind
    read: Callable[[Field], Any]
    place: _Place


@dataclass
class _Column:
    """A field of all tree nodes of a kind, in all examples so far."""

    values: list[Any] = dataclasses.field(default_factory=list)
    lengths: list[int] = dataclasses.field(default_factory=list)
    is_given: list[bool] = dataclasses.field(default_factory=list)


class _Columns:
    """The columns of a batch, filled example by example."""

    def __init__(self, schema: Kinds):
        self._schema = schema
        self._kinds: list[int] = []
        self._num_nodes: list[int] = []
        self._num_rows: list[list[int]] = [[] for _ in schema.kinds]
        self._columns = [[_Column() for _ in kind.fields] for kind in schema.kinds]

    def add_example(self, value: Any, place: _Place) -> None:
        """Adds an example; its tree nodes are numbered level by level, without recursion."""
        example = _Example(self._schema)
        example.number_of(value, self._schema.root, place)
        num_rows = [0] * len(self._schema.kinds)
        for node in example:
            number = node.kind.number
            num_rows[number] += 1
            self._kinds.append(number)
            for field, column in zip(node.kind.fields, self._columns[number], strict=True):
                _add_field(node, field, column, example)
        example.refuse_cycles()
        self._num_nodes.append(len(example.nodes))
        for counts, count in zip(self._num_rows, num_rows, strict=True):
            counts.append(count)

    def batch(self) -> dict[str, tf.RaggedTensor]:
        """Returns all examples as ragged tensors."""
        batch = {KIND: _rows(np.array(self._kinds, np.int32), self._num_nodes)}
        for kind, columns, num_rows in zip(
            self._schema.kinds, self._columns, self._num_rows, strict=True
        ):
            for field, column in zip(kind.fields, columns, strict=True):
                values = _array(field, column.values)
                rows = _rows(values, column.lengths) if field.is_list else values
                batch[kind.key(field)] = _rows(rows, num_rows)
                if field.needs_presence:
                    given = np.array(column.is_given, bool)
                    batch[kind.presence_key(field)] = _rows(given, num_rows)
        return batch


class _Example:
    """The tree nodes of an example, by number. An object that is found twice is one tree node."""

    def __init__(self, schema: Kinds):
        self.nodes: list[_Node] = []
        self._schema = schema
        self._numbers: dict[tuple[int, type], int] = {}
        self._references: list[tuple[int, int]] = []
        self._reading = 0

    def __iter__(self) -> Any:
        while self._reading < len(self.nodes):
            yield self.nodes[self._reading]
            self._reading += 1

    def number_of(self, value: Any, family: type, place: _Place) -> int:
        """Returns the number of a value's tree node, a new number for a new value."""
        key = id(value), family_of(family)
        number = self._numbers.get(key)
        try:
            if number is None:
                kind, read = read_value(self._schema, value, family)
                number = len(self.nodes)
                if not isinstance(value, int | float | str | bytes):
                    self._numbers[key] = number
                self.nodes.append(_Node(value, kind, read, place))
            elif not issubclass(self.nodes[number].kind.type, family):
                read_value(self._schema, value, family)
        except ValueError as error:
            raise place.error(error) from error
        self._references.append((self._reading, number))
        return number

    def refuse_cycles(self) -> None:
        """Raises ValueError if a tree node refers to itself, directly or through others."""
        _, *references = self._references  # The first leads to the root.
        if len(references) < len(self.nodes):
            return
        order: graphlib.TopologicalSorter[int] = graphlib.TopologicalSorter()
        for above, below in references:
            order.add(above, below)
        try:
            order.prepare()
        except graphlib.CycleError as error:
            raise self.nodes[min(error.args[1])].place.error(CYCLE) from None


def _add_field(node: _Node, field: Field, column: _Column, example: _Example) -> None:
    """Adds the value of a field of a tree node."""
    place = _Place(node.place, f".{field.name}")
    try:
        value = node.read(field)
    except ValueError as error:
        raise place.error(error) from error
    if field.is_list:
        if value is MISSING:
            value = []
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
            raise place.error(f"is {described(value)}; expected {field}")
        entries = [(_Place(place, f"[{index}]"), entry) for index, entry in enumerate(value)]
        column.lengths.append(len(entries))
    else:
        entries = [(place, value)]
        is_given = value is not None and value is not MISSING
        column.is_given.append(is_given)
        if not is_given and not field.is_optional:
            reason = "is missing" if value is MISSING else "is None"
            hint = ""
            if node.kind.is_inferred:
                name = f"{node.kind.name}.{field.name}"
                hint = f". If documents may lack it, infer the schema with optional=[{name!r}]"
            raise place.error(f"{reason}; expected {field}{hint}")
    column.values += [
        field.content.empty
        if (entry is None and field.is_optional) or entry is MISSING
        else _stored(field, entry, below, example)
        for below, entry in entries
    ]


def _stored(field: Field, entry: Any, place: _Place, example: _Example) -> Any:
    if isinstance(field.content, Reference):
        return example.number_of(entry, field.content.family, place)
    try:
        return field.content.array(entry)
    except ValueError as error:
        raise place.error(error) from error


def _array(field: Field, values: list[Any]) -> Any:
    if field.content.dtype == tf.string:
        return tf.constant(values, tf.string, [len(values), *field.content.shape])
    array = np.array(values, field.content.dtype.as_numpy_dtype)
    return array.reshape([len(values), *field.content.shape])


def _rows(values: Any, lengths: list[int]) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(values, np.array(lengths, np.int64), validate=False)
