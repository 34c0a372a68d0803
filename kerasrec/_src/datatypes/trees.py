"""Values as trees with tree nodes of one type: the inputs of tree layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from kerasrec._src.datatypes.data_type import DataType
from kerasrec._src.datatypes.field import described
from kerasrec._src.datatypes.kinds import Kind, Kinds
from kerasrec._src.datatypes.tables_to_batch import (
    reached_from,
    rows_of_nodes,
    without_none,
)
from kerasrec._src.datatypes.values import Tables, Value, checked

# Values for tree nodes: a function or a constant for each kind, or a function for all kinds.
OfKinds: TypeAlias = Mapping[type[DataType] | str, Any] | Callable[[Any], Any]

_TOKENS = (tf.int32, tf.int64, tf.string)


def to_trees(
    schema: Kinds,
    values: Value,
    token_of: OfKinds | None,
    features_of: OfKinds | None,
    children_of: OfKinds | None,
) -> tuple[Any, tf.RaggedTensor]:
    """Returns trees as described in `Schema.trees`.

    Args:
        schema: The schema with the kinds of the mappings.
        values: The values, `[examples]`.
        token_of: The argument of `Schema.trees`.
        features_of: The argument of `Schema.trees`.
        children_of: The argument of `Schema.trees`.
    """
    nodes = _Nodes(schema, values._tables)
    children = rows_of_nodes(nodes.tables, nodes.children(children_of or _all_references))
    reached = reached_from(
        values._node, tf.size(nodes.tables.kinds, tf.int64), without_none(children)
    )
    inputs = []
    if token_of is not None or features_of is None:
        inputs.append(nodes.tokens(token_of))
    if features_of is not None:
        inputs.append(nodes.features(features_of))
    inputs = [
        reached.by_example(tf.gather(table, reached.nodes), reached.examples) for table in inputs
    ]
    below = reached.references(tf.gather(children, reached.nodes), reached.examples)
    x = inputs[0] if len(inputs) == 1 else tuple(inputs)
    return x, reached.by_example(below, reached.examples)


def by_kind(schema: Kinds, name: str, of_kinds: Any) -> dict[Kind, Any]:
    """Returns the entry of each kind; kinds without an entry are left out.

    Args:
        schema: The schema with the kinds.
        name: Of the argument, for errors.
        of_kinds: A function for all kinds, or a dict whose keys are kinds, names of kinds, or types
            above them; the first key to which a kind belongs counts.

    Raises:
        ValueError: If it is neither, or if a key is not a kind.
    """
    if callable(of_kinds):
        return dict.fromkeys(schema.kinds, of_kinds)
    if not isinstance(of_kinds, Mapping):
        raise ValueError(
            f"{name} is {described(of_kinds)}; expected a dict with a function for each kind, or a "
            "function for all."
        )
    entries: dict[Kind, Any] = {}
    for key, entry in of_kinds.items():
        kinds = [
            kind
            for kind in schema.kinds
            if kind.name == key or (isinstance(key, type) and issubclass(kind.type, key))
        ]
        if not kinds:
            names = ", ".join(kind.name for kind in schema.kinds)
            raise ValueError(
                f"{name} has {key!r}, which is not a kind in this schema; expected {names}, or a "
                "type above these."
            )
        for kind in kinds:
            entries.setdefault(kind, entry)
    return entries


def _all_references(value: Any) -> list[Any]:
    schema: Kinds = value._tables.schema
    (number,) = value._kinds
    fields = schema.kinds[number].fields
    return [value._read(field.name) for field in fields if field.is_reference]


class _Nodes:
    """The results of functions for all tree nodes of some tables.

    Args:
        schema: The schema whose kinds have numbers; the tables may have more kinds.
        tables: The tables of the tree nodes.
    """

    def __init__(self, schema: Kinds, tables: Tables):
        self.tables = tables
        self._schema = schema
        self._counts = list(map(tables.count, tables.schema.kinds))
        starts = tf.cumsum(tf.stack(self._counts), exclusive=True)
        # The place of each tree node when those of the first kind come first, then those of the
        # second.
        self._places = tf.gather(starts, tables.kinds) + tables.rows

    def children(self, children_of: OfKinds) -> list[tuple[Kind, Any]]:
        """Returns the numbers of the children of each kind, -1 for None."""
        children = []
        for kind, given in self._given("children_of", children_of):
            below = list(given) if isinstance(given, list | tuple) else [given]
            for child in below:
                if child is None:
                    continue
                if isinstance(child, str) and child in kind.names:
                    child = self._all_of(kind)._read(child)
                if not isinstance(child, Value) or child._tables is not self.tables:
                    names = [field.name for field in kind.fields if field.is_reference]
                    raise ValueError(
                        f"children_of gives {child!r} for {kind.name}; expected fields that hold "
                        f"values ({', '.join(names) or 'it has none'}), a list of these, or None."
                    )
                children.append((kind, child._node))
        return children

    def tokens(self, token_of: OfKinds | None) -> tf.Tensor:
        """Returns the token of each tree node, `[nodes]` or `[nodes, ids]`."""
        if token_of is None:
            token_of = {kind.type: 1 + kind.number for kind in self._schema.kinds}
        tensors = self._tensors("token_of", "an integer or a text", token_of)
        for kind, tensor in tensors:
            if tensor.dtype not in _TOKENS:
                names = ", ".join(dtype.name for dtype in _TOKENS)
                raise ValueError(
                    f"token_of gives {tensor.dtype.name} for {kind.name}; expected {names}."
                )
        return self._table("token_of", tensors)

    def features(self, features_of: OfKinds) -> tf.Tensor:
        """Returns the features of each tree node, `[nodes, features]`."""
        tensors = []
        for kind, tensor in self._tensors("features_of", "a vector", features_of):
            if not tensor.dtype.is_floating:
                raise ValueError(
                    f"features_of gives {tensor.dtype.name} for {kind.name}; expected floats. "
                    "tf.cast makes them of integers and truth values."
                )
            tensors.append((kind, tensor if tensor.shape.rank != 1 else tensor[:, tf.newaxis]))
        return self._table("features_of", tensors)

    def _given(self, name: str, of_kinds: OfKinds) -> list[tuple[Kind, Any]]:
        """The entries for the tree nodes of each kind of the tables; without None."""
        entries = {
            kind.type: entry for kind, entry in by_kind(self._schema, name, of_kinds).items()
        }
        of_each = []
        for kind in self.tables.schema.kinds:
            entry = entries.get(kind.type)
            if callable(entry):
                entry = entry(self._all_of(kind))
            if entry is not None:
                of_each.append((kind, entry))
        return of_each

    def _all_of(self, kind: Kind) -> Value:
        """All values of a kind."""
        nodes, rows = self.tables.nodes_of(kind), tf.range(self._counts[kind.number])
        return Value(nodes, self.tables, (kind.number,), _row=rows)

    def _tensors(self, name: str, expected: str, of_kinds: OfKinds) -> list[tuple[Kind, tf.Tensor]]:
        """The same as tensors of one dtype, with a row for each tree node of the kind."""
        given = self._given(name, of_kinds)
        for kind, entry in given:
            if isinstance(entry, tf.RaggedTensor | Value):
                raise ValueError(
                    f"{name} gives {entry!r} for {kind.name}; expected {expected} for each value."
                )
        dtypes = [entry.dtype for _, entry in given if tf.is_tensor(entry)]
        tensors = []
        for kind, entry in given:
            count = self._counts[kind.number]
            if not tf.is_tensor(entry):
                dtype = dtypes[0] if dtypes else None
                if dtype is None and name == "features_of":
                    dtype = tf.float32
                entry = tf.convert_to_tensor(entry, dtype)
                entry = tf.broadcast_to(entry, tf.concat([[count], tf.shape(entry)], 0))
            elif not entry.shape.rank:
                entry = tf.fill([count], entry)
            tensors.append((kind, entry))
        return tensors

    def _table(self, name: str, tensors: Sequence[tuple[Kind, tf.Tensor]]) -> tf.Tensor:
        """A row for each tree node of the tables: zeros, or empty texts, for all other kinds."""
        if not tensors:
            raise ValueError(f"{name} gives nothing for any kind; expected something for some.")
        first_kind, first = tensors[0]
        for kind, tensor in tensors:
            mine, others = (either.shape[1:] for either in (tensor, first))
            if tensor.dtype != first.dtype or mine != others or tensor.shape.rank > 2:
                raise ValueError(
                    f"{name} gives {tensor.dtype.name} of shape {list(mine)} for {kind.name}, and "
                    f"{first.dtype.name} of shape {list(others)} for {first_kind.name}; expected "
                    "one dtype, and one shape with at most one axis."
                )
        of_kind = dict(tensors)
        parts, are_right = [], [tf.constant(True)]
        for kind, count in zip(self.tables.schema.kinds, self._counts, strict=True):
            part = of_kind.get(kind)
            if part is None:
                part = tf.zeros([count, *first.shape[1:]], first.dtype)
            else:
                are_right.append(tf.shape(part)[0] == count)
            parts.append(part)
        message = (
            f"{name} gives not as many rows as a kind has values; expected one for each value."
        )
        return tf.gather(checked(tf.concat(parts, 0), are_right, message), self._places)
