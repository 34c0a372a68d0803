"""Finds the values that functions read, and replaces the tensors of a call among them by others.

A function value may outlive the call that made it, so the tensors that it captured go with it. This
is closure conversion, as in defunctionalisation (Reynolds 1972, "Definitional Interpreters for
Higher-Order Programming Languages", section 6).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType, FunctionType, MethodType
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.types import Kind
from kerasrec._src.trace.source import NO_VALUE, enclosed, here
from kerasrec._src.trace.tracer import active_tracer, is_traced

_Kind = TypeVar("_Kind")
Parts: TypeAlias = tuple[tuple[Any, ...], Sequence[Any]]

_VALUES = (bool, int, float, complex, str, bytes)  # Compared by value.


def parts_of(value: Any) -> Parts | None:
    """Returns what identifies a function or container besides its parts, and the parts.

    Returns None for an object without parts.
    """
    if isinstance(value, FunctionType):
        inner = [*enclosed(value), value.__defaults__, value.__kwdefaults__]
        return (value.__code__, id(value.__globals__)), inner
    if isinstance(value, MethodType):
        return (), [value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return (), [value.func, value.args, value.keywords]
    if type(value) in (list, tuple):
        return (), value
    if type(value) is dict:
        return tuple(value), list(value.values())
    return None


class Outline:
    """The values that functions read, and their identity.

    Two outlines are equal if their functions have the same source lines and read the same objects.

    Args:
        functions: The functions.
    """

    def __init__(self, functions: Sequence[Any]):
        self.functions = functions
        self._seen: dict[int, tuple[int, Any]] = {}
        self._entries: list[tuple[Any, ...]] = []
        for function in functions:
            self._add(function)

    def _parts(self, value: Any) -> Parts | None:
        return parts_of(value)

    def _add(self, value: Any) -> None:
        parts = self._parts(value)
        if parts is None:
            self._entries.append(("thing", value))
        elif id(value) in self._seen:
            self._entries.append(("again", self._seen[id(value)][0]))
        else:
            self._seen[id(value)] = len(self._seen), value
            identity, inner = parts
            self._entries.append((type(value), *identity, len(inner)))
            for part in inner:
                self._add(part)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Outline)
            and len(self._entries) == len(other._entries)
            and all(map(_is_same, self._entries, other._entries))
        )


class Captured(Outline):
    """The values that functions read from the call in which they are defined.

    Its tensors do not count for whether two are equal: if they are, one graph serves both. The
    search goes through closure variables and defaults, and from there through partials, methods,
    containers, values that `tf.nest` takes apart, and recursive functions. It does not go through
    variables of modules or attributes of objects.

    Args:
        functions: The functions.

    Raises:
        TraceError: If the functions read ragged rows of the call, which are not a tensor.
    """

    def __init__(self, functions: Sequence[Any]):
        self.tensors: list[tf.Tensor] = []
        self._numbers: dict[Any, int] = {}
        super().__init__(functions)

    def _parts(self, value: Any) -> Parts | None:
        return _parts(value)

    def _add(self, value: Any) -> None:
        if not _is_of_a_call(value):
            _check_not_rows(value)
            super()._add(value)
            return
        if value.ref() not in self._numbers:
            self._numbers[value.ref()] = len(self.tensors)
            self.tensors.append(value)
        self._entries.append(("tensor", self._numbers[value.ref()]))

    def kinds(self, wanted: type[_Kind]) -> list[_Kind]:
        """Returns the metadata, of type `wanted`, of values that `tf.nest` takes apart."""
        return [part for entry in self._entries for part in entry if isinstance(part, wanted)]


def with_tensors(functions: Captured, tensors: Sequence[Any]) -> list[Any]:
    """Returns functions that read other tensors instead of those that they have captured.

    Args:
        functions: The functions, with the tensors that they have captured.
        tensors: A replacement for each of these tensors, in order.
    """
    found = {tensor.ref(): other for tensor, other in zip(functions.tensors, tensors, strict=True)}
    copies = _Copies(found)
    return [copies.of(function) for function in functions.functions]


@dataclass
class _Copies:
    """Copies objects that read tensors, so that they read others; leaves all other objects."""

    tensors: Mapping[Any, Any]
    made: dict[int, Any] = field(default_factory=dict)

    def of(self, value: Any) -> Any:
        if _is_of_a_call(value):
            return self.tensors[value.ref()]
        if id(value) in self.made:
            return self.made[id(value)]
        parts = _parts(value)
        if parts is None or not Captured([value]).tensors:
            return value
        _, inner = parts
        is_function = isinstance(value, FunctionType)
        copy = self._function(value) if is_function else self._other(value, inner)
        self.made[id(value)] = copy
        return copy

    def _function(self, function: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copy = FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
        copy.__qualname__ = function.__qualname__
        copy.__dict__.update(function.__dict__)
        self.made[id(function)] = copy  # The function may be in its own cells.
        for cell, content in zip(cells, enclosed(function), strict=True):
            if content is not NO_VALUE:
                cell.cell_contents = self.of(content)
        copy.__defaults__ = self.of(function.__defaults__)
        copy.__kwdefaults__ = self.of(function.__kwdefaults__)
        return copy

    def _other(self, value: Any, inner: Sequence[Any]) -> Any:
        copies = list(map(self.of, inner))
        if isinstance(value, MethodType):
            return MethodType(*copies)
        if isinstance(value, functools.partial):
            function, args, keywords = copies
            return functools.partial(function, *args, **keywords)
        if type(value) in (list, tuple):
            return type(value)(copies)
        if type(value) is dict:
            return dict(zip(value, copies, strict=True))
        if _is_decorated(value):
            return value.with_function(*copies)
        return tf.nest.pack_sequence_as(value, copies)


def _check_not_rows(value: Any) -> None:
    tracer = active_tracer()
    if (
        tracer is not None
        and isinstance(value, tf.RaggedTensor)
        and getattr(value.row_splits, "graph", None) is tracer.graph
        and tracer.kind(value.row_splits) is not Kind.SHARED
    ):
        raise TraceError(
            f"A function value that is passed on{here()} captures rows of its call, a "
            f"tf.RaggedTensor {value.shape}. A value has one tensor for all tokens, so rows do not "
            "fit. Look them up in the function, as tf.gather(children, node) does from a captured "
            "`node`, or reduce or pad them before."
        )


def _is_of_a_call(value: Any) -> bool:
    return bool(tf.is_symbolic_tensor(value)) and is_traced(value)


def _is_decorated(value: Any) -> bool:
    """Whether an object is the result of a decorator, such as `kerasrec.recursive`."""
    return hasattr(type(value), "with_function")


def _parts(value: Any) -> Parts | None:
    if hasattr(type(value), "__tf_flatten__"):
        flattened: Parts = value.__tf_flatten__()
        return flattened
    if _is_decorated(value):
        return value.settings, [value.python_function]
    return parts_of(value)


def _is_same(entry: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if entry[0] == other[0] == "thing":
        (_, mine), (_, others) = entry, other
        return mine is others or (
            type(mine) is type(others) and isinstance(mine, _VALUES) and mine == others
        )
    return entry == other
