"""Schemas as plain data, as Keras saves them and as they are inferred, and back to classes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, TypedDict

import tensorflow as tf

from kerasrec.datatypes.declare import DataType, family_of
from kerasrec.datatypes.field import Choice, Content, Field, Numbers, Reference
from kerasrec.datatypes.kinds import Kinds


class KindConfig(TypedDict):
    """A kind, by names: its fields as `_field_config` has them, and the form of its documents."""

    name: str
    family: str
    form: str
    fields: list[dict[str, Any]]


def config_of(schema: Kinds) -> dict[str, Any]:
    """A schema as plain data."""
    kinds = [
        KindConfig(
            name=kind.name,
            family=family_of(kind.type).__name__,
            form=kind.form,
            fields=[_field_config(item) for item in kind.fields],
        )
        for kind in schema.kinds
    ]
    return {"root": schema.root.__name__, "kinds": kinds}


def class_of(root: str, kinds: Sequence[KindConfig]) -> type[DataType]:
    """The root of new classes for a schema.

    Args:
        root: the name of a type.
        kinds: all kinds.
    """
    names = dict.fromkeys(kind["family"] for kind in kinds)
    families: dict[str, type[DataType]] = {
        name: type(name, (DataType,), {"_inferred_fields": ()}) for name in names
    }
    kept: dict[str, list[type]] = {name: [] for name in names}
    for kind in kinds:
        fields = tuple(_field(config, families) for config in kind["fields"])
        attributes = {"_inferred_fields": fields, "_form": kind["form"]}
        made = type(kind["name"], (families[kind["family"]],), attributes)
        kept[kind["family"]].append(made)
    for name, family in families.items():
        family._kinds = tuple(kept[name])  # A class does not keep those below it alive.
    return families[root]


def _field_config(item: Field) -> dict[str, Any]:
    content = item.content
    if isinstance(content, Reference):
        what: dict[str, Any] = {"family": family_of(content.family).__name__}
    elif isinstance(content, Choice):
        plain = [one.name if isinstance(one, enum.Enum) else one for one in content.values]
        what = {"choices": plain, "takes_others": content.takes_others}
    else:
        what = {"dtype": content.dtype.name, "shape": list(content.shape)}
    return {"name": item.name, **what, "is_list": item.is_list, "is_optional": item.is_optional}


def _field(config: dict[str, Any], families: dict[str, type]) -> Field:
    content: Content
    if "family" in config:
        content = Reference(families[config["family"]])
    elif "choices" in config:
        content = Choice(tuple(config["choices"]), config["takes_others"])
    else:
        content = Numbers(tf.as_dtype(config["dtype"]), tuple(config["shape"]))
    return Field(config["name"], content, config["is_list"], config["is_optional"])
