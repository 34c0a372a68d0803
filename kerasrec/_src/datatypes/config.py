"""Schemas as plain data, as Keras saves them and as they are inferred, and back to classes."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import tensorflow as tf

from kerasrec._src.datatypes.data_type import DataType, family_of
from kerasrec._src.datatypes.field import (
    Choice,
    Content,
    Field,
    Numbers,
    Reference,
    check_name,
    check_text,
)
from kerasrec._src.datatypes.kinds import Kinds


class KindConfig(TypedDict):
    """A kind, by names: its fields as from `field_config`, and the form of its documents."""

    name: str
    family: str
    form: str
    fields: list[dict[str, Any]]


def config_of(schema: Kinds) -> dict[str, Any]:
    """Returns a schema as plain data."""
    references = [
        field.content.family
        for kind in schema.kinds
        for field in kind.fields
        if isinstance(field.content, Reference)
    ]
    # Types that do not contain all kinds of a family.
    parts = {
        part.__name__: [schema.kinds[number].name for number in schema.numbers(part)]
        for part in [schema.root, *references]
        if part is not family_of(part)
    }
    kinds = [
        KindConfig(
            name=kind.name,
            family=family_of(kind.type).__name__,
            form=kind.form,
            fields=[field_config(field) for field in kind.fields],
        )
        for kind in schema.kinds
    ]
    return {"root": schema.root.__name__, "kinds": kinds, "parts": parts}


def class_of(
    root: str, kinds: Sequence[KindConfig], parts: Mapping[str, Sequence[str]] | None = None
) -> type[DataType]:
    """Returns the root of new classes for a schema.

    Args:
        root: The name of a type.
        kinds: All kinds.
        parts: For each type that does not contain all kinds of a family, its kinds.

    Raises:
        ValueError: If a name or a choice is not text.
    """
    for kind in kinds:
        _check(kind)
    family_names = {kind["name"]: kind["family"] for kind in kinds}
    types = {name: _type(name, (DataType,)) for name in family_names.values()}
    parts = parts or {}
    for name, members in parts.items():
        # A part with a single kind is that kind, whose class is made below.
        if name not in family_names:
            types[name] = _type(name, (types[family_names[members[0]]],))
    made: dict[str, type[DataType]] = {}
    for kind in kinds:
        name = kind["name"]
        above = [types[part] for part in parts if part in types and name in parts[part]]
        made[name] = _type(name, (*above, types[kind["family"]]), _form=kind["form"])
    named = {**made, **types}
    for kind in kinds:
        fields = tuple(_field(config, named) for config in kind["fields"])
        made[kind["name"]]._inferred_fields = fields
    # In this order, and so that the classes are kept.
    for name, data_type in types.items():
        members = parts.get(name, [kind for kind, family in family_names.items() if family == name])
        data_type._kinds = tuple(made[member] for member in members)
    return named[root]


def _check(kind: KindConfig) -> None:
    fields = kind["fields"]
    try:
        for name in (kind["family"], kind["name"], *(field["name"] for field in fields)):
            check_name(name)
        for choice in (choice for field in fields for choice in field.get("choices", ())):
            check_text(choice)
    except ValueError as error:
        what = f"A name or choice of {kind['name']!r} in the schema"
        raise ValueError(f"{what} {error}.") from error


def _type(name: str, bases: tuple[type[DataType], ...], **attributes: Any) -> type[DataType]:
    new_type: type[DataType] = type(name, bases, {"_inferred_fields": (), **attributes})
    return new_type


def field_config(field: Field) -> dict[str, Any]:
    """A field as plain data; a reference may name its type instead."""
    content = field.content
    if isinstance(content, Reference):
        what: dict[str, Any] = {"family": getattr(content.family, "__name__", content.family)}
    elif isinstance(content, Choice):
        plain = [
            choice.name if isinstance(choice, enum.Enum) else choice for choice in content.values
        ]
        what = {"choices": plain, "takes_others": content.takes_others}
    else:
        what = {"dtype": content.dtype.name, "shape": list(content.shape)}
    return {"name": field.name, **what, "is_list": field.is_list, "is_optional": field.is_optional}


def _field(config: dict[str, Any], types: Mapping[str, type[DataType]]) -> Field:
    content: Content
    if "family" in config:
        content = Reference(types[config["family"]])
    elif "choices" in config:
        content = Choice(tuple(config["choices"]), config["takes_others"])
    else:
        content = Numbers(tf.as_dtype(config["dtype"]), tuple(config["shape"]))
    return Field(config["name"], content, config["is_list"], config["is_optional"])
