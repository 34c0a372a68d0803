"""Reads values: objects of data types and documents, that is nested dicts and lists.

A document has one of five forms: object, list, number, text and truth value. A place that holds
documents of several forms refers to a type with a kind for each.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec.datatypes.declare import DataType
from kerasrec.datatypes.encode import MISSING, Reader, expected
from kerasrec.datatypes.field import Choice, Field, Numbers, described
from kerasrec.datatypes.kinds import LIST, NUMBER, OBJECT, TEXT, TRUTH, Kind, Kinds

# The only field of a kind that is no object.
ITEM = "value"
# What says of an object which kind it is, where it has several.
KIND_KEY = "kind"


def as_document(value: Any) -> Any:
    """A node of Python's `ast`, an `nltk.Tree` or an object of a data type, as a dict."""
    if isinstance(value, ast.AST):
        fields = {name: _of_ast(getattr(value, name, None)) for name in value._fields}
        return {**fields, KIND_KEY: type(value).__name__}
    label = getattr(value, "label", None)
    if isinstance(value, list) and callable(label):
        return {"label": label(), "children": list(value)}
    if isinstance(value, DataType):
        return {**vars(value), KIND_KEY: type(value).__name__}
    return value


def _of_ast(value: Any) -> Any:
    """A field of a node of `ast`; constants that are no documents, as `...` and `2j`, as text."""
    is_one = value is None or isinstance(value, ast.AST) or form_of(value) is not None
    return value if is_one else repr(value)


def form_of(document: Any) -> str | None:
    """The form of a document; None if it is none."""
    if isinstance(document, Mapping):
        return OBJECT
    if isinstance(document, str | bytes):
        return TEXT
    if isinstance(document, bool | np.bool_):
        return TRUTH
    if isinstance(document, int | float | np.integer | np.floating):
        return NUMBER
    return LIST if isinstance(document, Sequence | np.ndarray) else None


def as_number(text: Any) -> float | int | None:
    """The number that a text is; None if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            continue
    return None


def reader_of(schema: Kinds) -> Reader:
    """Reads documents as values of a schema."""

    def read(value: Any, family: type) -> tuple[Kind, Callable[[Field], Any]]:
        number = schema.number(type(value))
        if number is not None and isinstance(value, family):
            return schema.kinds[number], lambda item: getattr(value, item.name)
        document = as_document(value)
        kinds = [schema.kinds[number] for number in schema.numbers(family)]
        form = form_of(document)
        is_number = form == TRUTH or (form == TEXT and as_number(value) is not None)
        if is_number and all(kind.form != form for kind in kinds):
            form = NUMBER
        found = [kind for kind in kinds if kind.form == form]
        if form == OBJECT and (len(found) > 1 or not isinstance(value, Mapping | list)):
            name = document.get(KIND_KEY, MISSING)
            found = [kind for kind in found if kind.name == name]
            if not found and isinstance(value, Mapping):
                what = f"is {described(value)}, whose {KIND_KEY!r} "
                what += "is missing" if name is MISSING else f"is {name!r}"
                raise ValueError(f"{what}; expected {expected(schema, family)}")
        if not found:
            raise ValueError(f"is {described(value)}; expected {expected(schema, family)}")
        (kind,) = found
        if form == OBJECT:
            return kind, lambda item: _entry(kind, item, document.get(item.name, MISSING))
        return kind, lambda item: _entry(kind, item, document)

    return read


def _entry(kind: Kind, item: Field, value: Any) -> Any:
    """The value of a field: numbers may be written as texts, and None is nothing."""
    if value is None:
        return MISSING
    if item.is_list and form_of(value) == LIST:
        return [_number(kind, item, entry) for entry in value if entry is not None]
    return _number(kind, item, value)


def _number(kind: Kind, item: Field, value: Any) -> Any:
    """A value; where numbers are expected, the number that a text is.

    A truth value is a number where examples had both.
    """
    content = item.content
    takes_numbers = (
        content.dtype not in (tf.string, tf.bool) and not content.shape
        if isinstance(content, Numbers)
        else isinstance(content, Choice) and not any(isinstance(one, str) for one in content.values)
    )
    if takes_numbers and isinstance(value, str | bytes):
        number = as_number(value)
        return value if number is None else number
    if takes_numbers and isinstance(value, bool) and kind.is_inferred:
        return int(value)
    return value
