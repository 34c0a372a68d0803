"""The kinds to which a data type leads, and the tensors of their values."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.datatypes.data_type import DataType, family_of, fields_of, is_data_type, kinds_of
from kerasrec._src.datatypes.field import Field, Reference

KIND = "kind"
PRESENCE = "has"
# The forms of documents: see `documents.py`.
OBJECT, LIST, NUMBER, TEXT, TRUTH = "object", "list", "number", "text", "truth"


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of a schema.

    Args:
        number: Its number among the kinds of the schema.
        name: The name, unique in the schema.
        type: The class.
        fields: The fields.
        keys: The keys in a batch of the tensors of its fields, and of those that mark where there
            is a value.
    """

    number: int
    name: str
    type: type[DataType]
    fields: tuple[Field, ...]
    keys: tuple[tuple[str, str], ...]

    @property
    def form(self) -> str:
        """The form of a document of this kind."""
        return self.type._form

    @property
    def is_inferred(self) -> bool:
        """Whether its values are documents, and not objects of its class."""
        return self.type._inferred_fields is not None

    def key(self, field: Field) -> str:
        """Returns the key of a field's tensor in a batch."""
        return self.keys[self.fields.index(field)][0]

    def presence_key(self, field: Field) -> str:
        """Returns the key of the tensor that marks where there is a value."""
        return self.keys[self.fields.index(field)][1]

    @property
    def names(self) -> list[str]:
        """The names of its fields."""
        return [field.name for field in self.fields]

    @functools.cached_property
    def specs(self) -> dict[str, tf.RaggedTensorSpec]:
        """Returns the specs of the tensors of its fields in a batch."""
        specs = {}
        for field in self.fields:
            shape, rank = field.content.shape, 1 + field.is_list
            specs[self.key(field)] = tf.RaggedTensorSpec(
                [None] * (1 + rank) + list(shape), field.content.dtype, rank, tf.int64
            )
            if field.needs_presence:
                specs[self.presence_key(field)] = _rows_of(tf.bool)
        return specs

    def field(self, name: str) -> Field | None:
        """Returns the field of a name."""
        return next((field for field in self.fields if field.name == name), None)


class Kinds:
    """All kinds of a type and of the types to which their fields refer, numbered.

    Args:
        root: A subclass of `DataType`.

    Raises:
        TypeError: If `root` is something else, or if a field is not declared as `DataType`
            describes.
    """

    def __init__(self, root: type):
        if not is_data_type(root):
            raise TypeError(
                f"Schema got {root!r}; expected a class below kerasrec.DataType. Declare one: "
                "`class Expr(kerasrec.DataType): ...`."
            )
        self.root: type[DataType] = root
        self._take([family_of(self.root)])

    def _take(self, families: Iterable[type[DataType]]) -> None:
        self.kinds = tuple(_reachable(families))
        self._numbers = {kind.type: number for number, kind in enumerate(self.kinds)}
        self._of_family: dict[type[DataType], tuple[int, ...]] = {}

    @staticmethod
    def of_several(families: Sequence[type[DataType]]) -> Kinds:
        """Returns the kinds of several types, the first of which is the root, numbered together."""
        found = Kinds(families[0])
        found._take(families)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kinds) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[type, ...]:
        return (self.root, *self._numbers)

    def number(self, kind: type) -> int | None:
        """Returns the number of a kind; None if the schema does not have it."""
        return self._numbers.get(kind)

    def numbers(self, family: type[DataType]) -> tuple[int, ...]:
        """Returns the numbers of all kinds of a type."""
        numbers = self._of_family.get(family)
        if numbers is None:
            numbers = tuple(kind.number for kind in self.kinds if issubclass(kind.type, family))
            self._of_family[family] = numbers
        return numbers

    @functools.cached_property
    def element_spec(self) -> dict[str, tf.RaggedTensorSpec]:
        """The spec of a batch, as in `tf.data`."""
        specs = {KIND: _rows_of(tf.int32)}
        for kind in self.kinds:
            specs |= kind.specs
        return specs


def _rows_of(dtype: tf.DType) -> tf.RaggedTensorSpec:
    """A row of values for each example."""
    return tf.RaggedTensorSpec([None, None], dtype, 1, tf.int64)


def _reachable(roots: Iterable[type[DataType]]) -> list[Kind]:
    """The kinds of some types and of all types to which their fields refer."""
    kinds: dict[type[DataType], Kind] = {}
    taken = {KIND}
    families = list(dict.fromkeys(roots))
    waiting = list(families)
    while waiting:
        for data_type in kinds_of(waiting.pop(0)):
            fields = tuple(fields_of(data_type))
            keys = tuple(_keys(data_type.__name__, field.name, taken) for field in fields)
            kinds[data_type] = Kind(len(kinds), data_type.__name__, data_type, fields, keys)
            for field in fields:
                if isinstance(field.content, Reference):
                    other = family_of(field.content.family)
                    if other not in families:
                        families.append(other)
                        waiting.append(other)
    return _with_unique_names(list(kinds.values()))


def _keys(kind: str, field: str, taken: set[str]) -> tuple[str, str]:
    """Two keys that no other field has. Keras does not allow a slash in the name of an input."""
    keys = []
    for key in (f"{kind}.{field}", f"{kind}.{PRESENCE}.{field}"):
        key = key.replace("/", "_")
        while key in taken:
            key += "_"
        taken.add(key)
        keys.append(key)
    return keys[0], keys[1]


def _with_unique_names(kinds: Sequence[Kind]) -> list[Kind]:
    names: dict[str, Kind] = {}
    for kind in kinds:
        other = names.setdefault(kind.name, kind)
        if other is not kind:
            raise TypeError(
                f"Two kinds are called {kind.name}, of {other.type.__module__} and of "
                f"{kind.type.__module__}. Give one of them another name."
            )
    return list(kinds)
