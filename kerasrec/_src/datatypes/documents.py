"""Reads values: objects of data types and documents (nested dicts and lists).

A document has one of five forms: object, list, number, text and truth value. A place with documents
of several forms refers to a type with a kind for each form.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.data_type import DataType, is_object
from kerasrec._src.datatypes.field import Choice, Field, Numbers, as_text, described, holds
from kerasrec._src.datatypes.kinds import LIST, NUMBER, OBJECT, TEXT, TRUTH, Kind, Kinds

# The only field of a kind that is not an object.
ITEM = "value"
# The key of an object's kind, if there are several.
KIND_KEY = "kind"
# Why a value that contains itself is refused, for errors, after its path.
CYCLE = "leads back to itself through its fields; a recursion over it would not end"
# Stands for a field that the value does not have.
MISSING = object()
# The number of kinds that an error names; a programming language has too many.
_MOST_NAMED = 12
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,308})(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def as_document(value: Any) -> Any:
    """A node of Python's `ast`, an `nltk.Tree` or an object of a dataclass, as a dict."""
    if isinstance(value, ast.AST):
        fields = {name: _of_ast(getattr(value, name, None)) for name in value._fields}
        return {**fields, KIND_KEY: type(value).__name__}
    if isinstance(value, list) and callable(label := getattr(value, "label", None)):
        return {"label": label(), "children": list(value)}
    if is_object(value):
        return {**vars(value), KIND_KEY: type(value).__name__}
    if _is_of_dataclass(value):
        entries = {
            field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)
        }
        return {KIND_KEY: type(value).__name__, **entries}
    return _python(value)


def _python(value: Any) -> Any:
    """A number or a text of NumPy as one of Python, anything else as it is."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, np.floating):
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def refuse_one_document(name: str, documents: Any) -> None:
    """Raises ValueError for one document where several are expected, even if it has entries.

    Args:
        name: The name of the function that got it, for errors.
        documents: The documents: lists, iterators and the like are several.
    """
    is_one = isinstance(documents, type) or not isinstance(documents, Iterable)
    if is_one or form_of(as_document(documents)) not in (LIST, None):
        raise ValueError(
            f"{name} got {described(documents)}; expected a list, one value an example. For a "
            "single one pass [value]."
        )


def _is_of_dataclass(value: Any) -> bool:
    """Whether something is an object of a dataclass that is not a data type."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and not is_object(value)


def _of_ast(value: Any) -> Any:
    """A field of a node of `ast`.

    Constants that are not documents, such as `...` and `2j`, become text. In a list, None stands
    for something, such as the key of `**more` in a dict, and is a kind.
    """
    if isinstance(value, list):
        return [{KIND_KEY: "None"} if entry is None else entry for entry in value]
    is_one = value is None or isinstance(value, ast.AST) or form_of(value) is not None
    return value if is_one else repr(value)


def form_of(document: Any) -> str | None:
    """The form of a document; None if it is not one."""
    if isinstance(document, Mapping):
        return OBJECT
    if isinstance(document, str | bytes):
        return TEXT
    if isinstance(document, bool | np.bool_):
        return TRUTH
    if isinstance(document, int | float | np.integer | np.floating):
        return NUMBER
    is_list = document.ndim > 0 if isinstance(document, np.ndarray) else False
    return LIST if is_list or isinstance(document, Sequence) else None


def as_number(value: Any) -> float | int | None:
    """The number that a number or a text stands for, an int if it is whole; None if it is not one.

    A text stands for a number if it is written as in JSON, and if float64 can hold it: neither a
    long identifier nor "1e999" is a number.
    """
    if isinstance(value, bool):
        return int(value)
    value = as_text(value)
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return None
        value = float(value) if has_point(value) else int(value)
        if not holds(tf.float64, value) or value in (math.inf, -math.inf):
            return None
    if not isinstance(value, int | float):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def has_point(value: Any) -> bool:
    """Whether a number is a float, or a text such as "5.0" or "5e0"; it may be whole."""
    value = as_text(value)
    return isinstance(value, float) or (isinstance(value, str) and not value.lstrip("-").isdigit())


def read_value(
    schema: Kinds, value: Any, family: type[DataType]
) -> tuple[Kind, Callable[[Field], Any]]:
    """Reads an object of a data type, or a document, that stands where a data type is expected.

    Args:
        schema: The schema of the value.
        value: The value.
        family: The data type.

    Returns:
        The kind of the value, and a function that returns the value of each field, `MISSING` if
        there is none, or also raises `ValueError`.

    Raises:
        ValueError: If it is not such a value; the message continues the value's path.
    """
    number = schema.number(type(value))
    if number is not None and issubclass(type(value), family):
        return schema.kinds[number], lambda field: getattr(value, field.name)
    document = as_document(value)
    kinds = [schema.kinds[number] for number in schema.numbers(family)]
    form = form_of(document)
    is_number = form == TRUTH or (form == TEXT and as_number(document) is not None)
    if is_number and all(kind.form != form for kind in kinds):
        form = NUMBER
    fitting = [kind for kind in kinds if kind.form == form]
    if form == OBJECT:
        fitting = _of_name(fitting, document)
    if len(fitting) != 1:
        what = f"is {described(value)}"
        is_missing = False
        if isinstance(value, Mapping):
            name = value.get(KIND_KEY, MISSING)
            is_missing = name is MISSING
            what += f", whose {KIND_KEY!r} is {'missing' if is_missing else repr(name)}"
        hint = ""
        if value is not None and len(kinds) > 1 and kinds[0].is_inferred and not is_missing:
            hint = ". If the schema was inferred, infer it from examples that have such a value"
        raise ValueError(f"{what}; expected {_expected(schema, family)}{hint}")
    (kind,) = fitting
    if form != OBJECT:
        return kind, lambda field: _entry(kind, field, document)
    names_fields = isinstance(value, Mapping) or _is_of_dataclass(value)
    is_strict = names_fields and not kind.is_inferred
    unknown = document.keys() - {KIND_KEY, *kind.names} if is_strict else set()
    if unknown:
        names = ", ".join(kind.names) or "none"
        raise ValueError(
            f"has {', '.join(map(repr, sorted(unknown)))}, which {kind.name} has not; its "
            f"fields are: {names}"
        )

    def read_field(field: Field) -> Any:
        if field.name not in document and _has_default(kind, field):
            raise ValueError(
                f"is missing; only objects of {kind.name} take the default of its class, which "
                "a schema that was saved and loaded does not know"
            )
        return _entry(kind, field, document.get(field.name, MISSING))

    return kind, read_field


def _expected(schema: Kinds, family: type) -> str:
    """The values that a type allows, for errors."""
    *names, last = [schema.kinds[number].name for number in schema.numbers(family)]
    if not names:
        return f"a value of {last}"
    if len(names) > _MOST_NAMED:
        last = f"one of {len(names) + 1 - _MOST_NAMED} others, which print(schema) lists"
    return f"a value of {family.__name__}: {', '.join(names[:_MOST_NAMED])} or {last}"


def _has_default(kind: Kind, field: Field) -> bool:
    """Whether objects of a kind have a value, other than None, where none was given."""
    if kind.is_inferred:
        return False
    fields = dataclasses.fields(cast(Any, kind.type))
    (declared,) = (of_class for of_class in fields if of_class.name == field.name)
    if declared.default_factory is not dataclasses.MISSING:
        return bool(declared.default_factory())
    return declared.default is not dataclasses.MISSING and declared.default is not None


def _of_name(kinds: Sequence[Kind], document: Mapping[str, Any]) -> list[Kind]:
    """The kinds that an object may have: only one if the object names it."""
    name = document.get(KIND_KEY)
    says = isinstance(name, str) and all(KIND_KEY not in kind.names for kind in kinds)
    if says or len(kinds) > 1:
        return [kind for kind in kinds if kind.name == name]
    return list(kinds)


def _entry(kind: Kind, field: Field, value: Any) -> Any:
    """The value of a field: numbers may be written as texts, and None means no value."""
    if value is None:
        return MISSING
    if field.is_list and form_of(value) == LIST:
        return [_number(kind, field, entry) for entry in value]
    return _number(kind, field, value)


def _number(kind: Kind, field: Field, value: Any) -> Any:
    """A value; where numbers are expected, the number that a text stands for.

    A truth value is a number in an inferred schema, whose examples may contain both.
    """
    content = field.content
    takes_numbers = (
        content.dtype not in (tf.string, tf.bool) and not content.shape
        if isinstance(content, Numbers)
        else isinstance(content, Choice)
        and not any(isinstance(choice, str) for choice in content.values)
    )
    value = _python(value)
    if not takes_numbers:
        return value
    if isinstance(value, str | bytes) or (isinstance(value, bool) and kind.is_inferred):
        number = as_number(value)
        value = value if number is None else number
    reason = not_json(value) if kind.is_inferred else None
    if reason is not None:
        raise ValueError(reason)
    return value


def not_json(value: Any) -> str | None:
    """Why JSON does not allow a number, for an error, after the value's path; None if it does."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which is not a number of JSON; leave the key out"
    return None
