"""Finds the tensors of a call that functions have captured, and replaces them by others.

A function value may outlive the call that made it, so the tensors that it captured go with it. This
is closure conversion, as in defunctionalisation (Reynolds 1972, "Definitional Interpreters for
Higher-Order Programming Languages", section 6).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType, FunctionType, MethodType
from typing import Any, Protocol, TypeVar, runtime_checkable

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.types import Kind
from kerasrec._src.trace.source import NO_VALUE, enclosed, here, parts_of
from kerasrec._src.trace.tracer import active_tracer, is_traced

_Kind = TypeVar("_Kind")

_VALUES = (bool, int, float, complex, str, bytes)  # Compared by value.


@runtime_checkable
class Decorated(Protocol):
    """The result of a decorator for Python functions, such as `kerasrec.recursive`."""

    @property
    def python_function(self) -> Callable[..., Any]:
        """The function that was decorated."""
        ...

    @property
    def settings(self) -> tuple[Any, ...]:
        """The options of the decorator."""
        ...

    def with_function(self, python_function: Callable[..., Any]) -> Any:
        """Returns another function, decorated with the same options."""
        ...


@dataclass(eq=False)
class Captured:
    """What functions read from the call in which they are defined, and what identifies them.

    Two instances are equal if their functions have the same source lines and read the same objects,
    apart from tensors of their calls. Then one graph serves both.

    Args:
        functions: The functions to search for tensors of traced functions. The search goes through
            closure variables and defaults, and from there through partials, methods, containers,
            values that `tf.nest` takes apart, and recursive functions. It does not go through
            variables of modules or attributes of objects.

    Raises:
        TraceError: If the functions read ragged rows of the call, which are not a tensor.
    """

    functions: Sequence[Any]
    tensors: list[tf.Tensor] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._seen: dict[int, tuple[int, Any]] = {}
        self._outline: list[tuple[Any, ...]] = []
        for function in self.functions:
            self._add(function)

    def _add(self, value: Any) -> None:
        if _is_of_a_call(value):
            if value.ref() not in self._numbers:
                self._numbers[value.ref()] = len(self.tensors)
                self.tensors.append(value)
            self._outline.append(("tensor", self._numbers[value.ref()]))
            return
        _check_not_rows(value)
        parts = _parts(value)
        if parts is None:
            self._outline.append(("thing", value))
        elif id(value) in self._seen:
            self._outline.append(("again", self._seen[id(value)][0]))
        else:
            self._seen[id(value)] = len(self._seen), value
            kind, inner = parts
            self._outline.append((type(value), *kind, len(inner)))
            for part in inner:
                self._add(part)

    def kinds(self, wanted: type[_Kind]) -> list[_Kind]:
        """Returns the metadata, of type `wanted`, of values that `tf.nest` takes apart."""
        return [part for entry in self._outline for part in entry if isinstance(part, wanted)]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Captured)
            and len(self._outline) == len(other._outline)
            and all(map(_is_same, self._outline, other._outline))
        )


def with_tensors(functions: Captured, tensors: Sequence[Any]) -> list[Any]:
    """Returns functions that read other tensors in place of those that they have captured.

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
        if isinstance(value, Decorated):
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


def _parts(value: Any) -> tuple[tuple[Any, ...], Sequence[Any]] | None:
    """Returns what identifies an object besides its parts, and the parts; None without parts."""
    if hasattr(type(value), "__tf_flatten__"):
        return value.__tf_flatten__()
    if not isinstance(value, type) and isinstance(value, Decorated):
        return value.settings, [value.python_function]
    return parts_of(value)


def _is_same(entry: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if entry[0] == other[0] == "thing":
        (_, mine), (_, others) = entry, other
        return mine is others or (
            type(mine) is type(others) and isinstance(mine, _VALUES) and mine == others
        )
    return entry == other
