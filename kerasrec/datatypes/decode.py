"""Batches to Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kerasrec.datatypes.field import Choice, Field, Reference
from kerasrec.datatypes.kinds import KIND, Kinds


def decode(schema: Kinds, batch: Mapping[str, Any]) -> list[Any]:
    """The values that a batch was encoded from.

    Args:
        schema: of the values.
        batch: as `Schema.encode` gives it.
    """
    arrays = {key: tensor.to_list() for key, tensor in batch.items()}
    return [_example(schema, arrays, number) for number in range(len(arrays[KIND]))]


def _example(schema: Kinds, arrays: dict[str, list[Any]], example: int) -> Any:
    """One value, built from its last tree node to the first: children have larger numbers.

    An object with several parents may have a smaller number than one of them, so fields are set
    when all objects are there.
    """
    kinds = [schema.kinds[number] for number in arrays[KIND][example]]
    nodes = [object.__new__(kind.type) for kind in kinds]
    num_rows = dict.fromkeys(kinds, 0)
    for node, kind in zip(nodes, kinds, strict=True):
        row = num_rows[kind]
        num_rows[kind] += 1
        for item in kind.fields:
            entry = arrays[kind.key(item)][example][row]
            is_given = not item.needs_presence or arrays[kind.presence_key(item)][example][row]
            setattr(node, item.name, _value(item, entry, nodes) if is_given else None)
    return nodes[0]


def _value(item: Field, entry: Any, nodes: list[Any]) -> Any:
    if item.is_list:
        return [_one(item, one, nodes) for one in entry]
    return _one(item, entry, nodes)


def _one(item: Field, entry: Any, nodes: list[Any]) -> Any:
    if isinstance(item.content, Reference):
        return None if entry < 0 else nodes[entry]
    if isinstance(item.content, Choice):
        return item.content.values[entry]
    return entry.decode("utf-8") if isinstance(entry, bytes) else entry
