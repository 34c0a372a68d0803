"""The content of a field of a data type, and its declaration."""

from __future__ import annotations

import enum
import functools
import reprlib
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from kerasrec._src.text import NOT_UTF8, is_utf8

_SCALARS = {bool: tf.bool, int: tf.int32, float: tf.float32, str: tf.string}
_LISTS = (list, Sequence)


@dataclass(frozen=True)
class Numbers:
    """A value of a fixed shape: a number, a truth value, a text or a vector.

    Args:
        dtype: The dtype of the tensor.
        shape: The shape of one value.
    """

    dtype: tf.DType
    shape: tuple[int, ...] = ()

    def array(self, value: Any) -> Any:
        """Returns a value as NumPy represents it.

        Raises:
            ValueError: If it is not such a value; the message names it and the expected ones.
        """
        if self.shape:
            return self._vector(value)
        is_bool = isinstance(value, bool | np.bool_)
        is_number = isinstance(value, int | float | np.integer | np.floating) and not is_bool
        if self.dtype == tf.string:
            is_right = isinstance(value, str | bytes)
        elif self.dtype == tf.bool:
            is_right = is_bool
        elif self.dtype.is_integer:
            is_right = is_number and (isinstance(value, int) or float(value).is_integer())
        else:
            is_right = is_number
        if is_right and is_number and not _fits(value, self.dtype):
            raise ValueError(_too_large(value, self.dtype))
        if not is_right:
            raise ValueError(f"is {described(value)}; expected {self}")
        check_text(value)
        if is_number and not holds(self.dtype, value):
            raise ValueError(reason_not_held(value))
        return value

    @property
    def empty(self) -> Any:
        """Returns what is stored where there is no value."""
        return "" if self.dtype == tf.string else np.zeros(self.shape, self.dtype.as_numpy_dtype)

    def _vector(self, value: Any) -> Any:
        try:
            array = np.asarray(value)
        except ValueError:  # Rows of different lengths.
            array = np.asarray(None)
        is_text, is_bool = self.dtype == tf.string, self.dtype == tf.bool
        allowed = "US" if is_text else "b" if is_bool else "iu" if self.dtype.is_integer else "iuf"
        if array.shape != self.shape or array.dtype.kind not in allowed:
            shape = f" of shape {list(array.shape)}" if array.shape else ""
            raise ValueError(f"is {described(value)}{shape}; expected {self}")
        is_number = not is_text and not is_bool
        if is_number and not all(_fits(entry, self.dtype) for entry in array.flat):
            raise ValueError(f"is {described(value)}, which {self.dtype.name} cannot hold")
        for entry in array.flat if is_text else ():
            check_text(entry)
        return array.astype(self.dtype.as_numpy_dtype)

    def __str__(self) -> str:
        names = {tf.bool: "a bool", tf.string: "a text (str)"}
        if self.shape:
            return f"{self.dtype.name} of shape {list(self.shape)}"
        if self.dtype in names:
            return names[self.dtype]
        return "an integer" if self.dtype.is_integer else "a number"


@dataclass(frozen=True)
class Choice:
    """One of several values, stored as its number in the order of declaration, int32.

    Args:
        values: The values that the field may have.
        takes_others: Whether all other values share a number, the last one.
    """

    values: tuple[Any, ...]
    takes_others: bool = False

    dtype = tf.int32
    shape = ()
    empty = 0

    @functools.cached_property
    def _numbers(self) -> dict[tuple[bool, Any], int]:
        numbers = {_key(value): number for number, value in enumerate(self.values)}
        members = {_key(value.name): _key(value) for value in self.values if _is_member(value)}
        return {name: numbers[key] for name, key in members.items()} | numbers

    @functools.cached_property
    def taken_for_another(self) -> tuple[Any, int] | None:
        """The first choice that is itself a number, but not its own, with its number; or None.

        In a recursive function, such a choice would be taken for another one. `Schema.infer`
        documents that values of an inferred schema are read as their numbers.
        """
        if self.takes_others:
            return None
        numbered = ((value, number) for number, value in enumerate(self.values))
        wrong = (
            pair for pair in numbered if isinstance(pair[0], int | float) and pair[0] != pair[1]
        )
        return next(wrong, None)

    @property
    def size(self) -> int:
        """How many different numbers there are."""
        return len(self.values) + self.takes_others

    def array(self, value: Any) -> int:
        """Returns the number of a value.

        Raises:
            ValueError: If it is none of the values.
        """
        check_text(value)
        try:
            number = self._numbers.get(_key(value))
            if number is None and _is_member(value):
                number = self._numbers.get(_key(value.name))
        except TypeError:  # A list has no hash.
            number = None
        if number is None and self.takes_others and isinstance(value, int | float | str | bytes):
            number = len(self.values)
        if number is not None:
            return number
        raise ValueError(f"is {described(value)}; expected {self._short()}")

    def _short(self) -> str:
        """All choices, or the first if they are too many for a message."""
        text = str(self)
        if len(text) <= 400:
            return text
        first = ", ".join(map(reprlib.repr, self.values[:3]))
        return f"one of {first}{f', ... {len(self.values):,} in all' * (len(self.values) > 3)}"

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True)
class Reference:
    """A value of a data type.

    Args:
        family: The data type.
    """

    family: Any

    dtype = tf.int32
    shape = ()
    empty = -1

    def __str__(self) -> str:
        return f"a value of {self.family.__name__}"


Content: TypeAlias = Numbers | Choice | Reference


@dataclass(frozen=True)
class Field:
    """A field of a kind.

    Args:
        name: The attribute's name.
        content: The content of the field, or of each entry of its list.
        is_list: Whether it is a list, with any number of entries.
        is_optional: Whether it may be None.
    """

    name: str
    content: Content
    is_list: bool = False
    is_optional: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether it contains values of a data type."""
        return isinstance(self.content, Reference)

    @property
    def needs_presence(self) -> bool:
        """Whether a separate bool marks if there is a value; a missing reference is -1."""
        return self.is_optional and not self.is_reference

    def __str__(self) -> str:
        several = "a list, each " if self.is_list else ""
        return f"{several}{self.content}{', or None' if self.is_optional else ''}"


def field_of(owner: str, name: str, annotation: Any, is_data_type: Any) -> Field:
    """Returns the field that an annotation declares.

    Args:
        owner: The kind, for errors.
        name: The field's name.
        annotation: One of `float`, `int`, `bool`, `str`, `Literal[...]`, an `Enum`, a
            `tf.TensorSpec` or `Annotated[..., tf.TensorSpec(...)]`, a data type, `list[...]` of one
            of these, or one of all these `| None`.
        is_data_type: Returns whether a class is a data type.

    Raises:
        TypeError: If it is something else.
    """
    inner, is_optional = _without_none(annotation)
    is_list = typing.get_origin(inner) in _LISTS
    if is_list:
        if is_optional:
            raise TypeError(
                f"{owner}.{name} is a list or None. Leave out `| None`, and use an empty list for "
                "no values."
            )
        (inner,) = typing.get_args(inner)
    content = _content(inner, is_data_type)
    if isinstance(content, Choice):
        try:
            for value in content.values:
                check_text(value)
        except ValueError as error:
            declared = f"{owner}.{name} is declared as {content}"
            raise TypeError(f"{declared}: a choice {error}.") from error
    if content is None:
        raise TypeError(
            f"{owner}.{name} is declared as {annotation!r}. A field may be float, int, bool, str, "
            "a NumPy type such as np.float64, Literal[...], an Enum, a tf.TensorSpec with a known "
            "shape, a subclass of kerasrec.DataType, a list[...] of one of these, or one of these "
            "`| None`. For a list of lists declare a data type with a list in it."
        )
    return Field(name, content, is_list, is_optional)


def holds(dtype: tf.DType, value: float) -> bool:
    """Whether a dtype keeps the digits of an integer, if it is float64; smaller floats round."""
    if dtype != tf.float64 or not isinstance(value, int | np.integer):
        return True
    return abs(int(value)) <= 1 << 53 or (_fits(value, dtype) and int(float(value)) == value)


def reason_not_held(value: int) -> str:
    """Why float64 does not hold an integer, for an error, after its path; see `holds`."""
    if not _fits(value, tf.float64):
        return _too_large(value, tf.float64)
    return (
        f"is {value}, which float64 cannot represent exactly, so that different numbers became "
        "one; pass identifiers as strings"
    )


def _too_large(value: Any, dtype: tf.DType) -> str:
    return f"is {reprlib.repr(value)}, which {dtype.name} cannot hold"


def _fits(value: Any, dtype: tf.DType) -> bool:
    """Whether a number is not too large for a dtype; floats have infinity and NaN."""
    if dtype.is_floating and isinstance(value, float | np.floating) and not np.isfinite(value):
        return True
    least, most = _limits(dtype)
    return bool(least <= value <= most)


@functools.cache
def _limits(dtype: tf.DType) -> tuple[float, float]:
    """The smallest and the largest number; TensorFlow would compute them at each call."""
    as_python = float if dtype.is_floating else int
    return as_python(dtype.min), as_python(dtype.max)


def _key(value: Any) -> tuple[bool, Any]:
    """A key that is equal for equal values, such as 1, 1.0 and np.int64(1), but not True."""
    return isinstance(value, bool | np.bool_), as_text(value)


def _is_member(value: Any) -> bool:
    return isinstance(value, enum.Enum)


def described(value: Any) -> str:
    """A value for an error: its short print and its type."""
    return f"{reprlib.repr(value)} (type {type(value).__name__})"


def as_text(value: Any) -> Any:
    """Bytes that are text as text, anything else as it is."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def check_text(value: Any) -> None:
    """Raises ValueError for a text with an unpaired surrogate, as JSON may have it.

    TensorFlow would refuse it, without its path. The message continues a value's path.
    """
    if isinstance(value, str) and not is_utf8(value):
        raise ValueError(f"is {reprlib.repr(value)}, {NOT_UTF8}")


def check_name(name: str) -> None:
    """Raises ValueError for a name that no class can have; see `check_text`."""
    check_text(name)
    if "\0" in name:
        raise ValueError(f"is {reprlib.repr(name)}, which holds a null character. Leave it out")


def _content(annotation: Any, is_data_type: Any) -> Content | None:
    if typing.get_origin(annotation) is typing.Annotated:
        specs = [spec for spec in typing.get_args(annotation) if isinstance(spec, tf.TensorSpec)]
        annotation = specs[0] if specs else typing.get_args(annotation)[0]
    if isinstance(annotation, tf.TensorSpec):
        is_static = annotation.shape.is_fully_defined()
        return Numbers(annotation.dtype, tuple(annotation.shape)) if is_static else None
    if typing.get_origin(annotation) is typing.Literal:
        return Choice(typing.get_args(annotation))
    # Python 3.10 takes list[int] for a class.
    if not isinstance(annotation, type) or typing.get_origin(annotation):
        return None
    if annotation in _SCALARS:
        return Numbers(_SCALARS[annotation])
    if issubclass(annotation, np.number):
        return Numbers(tf.as_dtype(annotation))
    if issubclass(annotation, enum.Enum):
        return Choice(tuple(annotation))
    return Reference(annotation) if is_data_type(annotation) else None


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    left = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
    if len(left) != 1 or len(left) == len(typing.get_args(annotation)):
        return annotation, False
    return left[0], True
