"""From batches to Python values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.data_type import family_of
from kerasrec._src.datatypes.documents import ITEM, KIND_KEY
from kerasrec._src.datatypes.field import Choice, Field, Reference, as_text
from kerasrec._src.datatypes.kinds import KIND, LIST, OBJECT, Kind, Kinds


def decode(schema: Kinds, batch: Mapping[str, Any]) -> list[Any]:
    """Returns the values from which a batch was encoded.

    Args:
        schema: The schema of the values.
        batch: A batch from `Schema.encode`.
    """
    arrays = {key: _lists(tensor) for key, tensor in batch.items()}
    return [
        _example(schema, {key: rows[number] for key, rows in arrays.items()})
        for number in range(len(arrays[KIND]))
    ]


def _lists(tensor: Any) -> list[Any]:
    """The rows of a RaggedTensor, as from its `to_list`, which is slow."""
    values = tensor.values
    rows = _lists(values) if isinstance(values, tf.RaggedTensor) else values.numpy().tolist()
    splits = tensor.row_splits.numpy().tolist()
    return [rows[start:end] for start, end in itertools.pairwise(splits)]


def _example(schema: Kinds, arrays: dict[str, list[Any]]) -> Any:
    """One value. Its nodes are made before their fields, since an object may have many parents."""
    kinds = [schema.kinds[number] for number in arrays[KIND]]
    nodes = [_new(kind) for kind in kinds]
    rows, num_rows = [], [0] * len(schema.kinds)
    for kind in kinds:
        rows.append(num_rows[kind.number])
        num_rows[kind.number] += 1
    # Numbers and texts are known before the objects that contain them are filled: they have larger
    # numbers.
    for place in reversed(range(len(nodes))):
        kind = kinds[place]
        fields = {
            field.name: _value(kind, field, arrays, rows[place], nodes) for field in kind.fields
        }
        if kind.form == LIST:
            nodes[place] += fields.get(ITEM, [])
        elif kind.form != OBJECT:
            nodes[place] = fields[ITEM]
        elif isinstance(nodes[place], dict):
            nodes[place].update((key, value) for key, value in fields.items() if value is not None)
        else:
            vars(nodes[place]).update(fields)
    return nodes[0]


def _new(kind: Kind) -> Any:
    if not kind.is_inferred:
        return object.__new__(kind.type)
    is_named = kind.name != family_of(kind.type).__name__
    if kind.form == OBJECT:
        return {KIND_KEY: kind.name} if is_named else {}
    return [] if kind.form == LIST else None


def _value(
    kind: Kind, field: Field, arrays: dict[str, list[Any]], row: int, nodes: list[Any]
) -> Any:
    if field.needs_presence and not arrays[kind.presence_key(field)][row]:
        return None
    stored = arrays[kind.key(field)][row]
    return (
        [_entry(field, entry, nodes) for entry in stored]
        if field.is_list
        else _entry(field, stored, nodes)
    )


def _entry(field: Field, entry: Any, nodes: list[Any]) -> Any:
    content = field.content
    if isinstance(content, Reference):
        return None if entry < 0 else nodes[entry]
    if isinstance(content, Choice):
        return content.values[entry] if entry < len(content.values) else None
    return as_text(entry)
