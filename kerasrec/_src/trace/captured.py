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
from kerasrec._src.trace.source import NO_VALUE, enclosed, here
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

    def _add(self, item: Any) -> None:
        if _is_of_a_call(item):
            if item.ref() not in self._numbers:
                self._numbers[item.ref()] = len(self.tensors)
                self.tensors.append(item)
            self._outline.append(("tensor", self._numbers[item.ref()]))
            return
        _check_not_rows(item)
        parts = _parts(item)
        if parts is None:
            self._outline.append(("thing", item))
        elif id(item) in self._seen:
            self._outline.append(("again", self._seen[id(item)][0]))
        else:
            self._seen[id(item)] = len(self._seen), item
            kind, inner = parts
            self._outline.append((type(item), *kind, len(inner)))
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

    def of(self, item: Any) -> Any:
        if _is_of_a_call(item):
            return self.tensors[item.ref()]
        if id(item) in self.made:
            return self.made[id(item)]
        parts = _parts(item)
        if parts is None or not Captured([item]).tensors:
            return item
        _, inner = parts
        copy = self._function(item) if isinstance(item, FunctionType) else self._other(item, inner)
        self.made[id(item)] = copy
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

    def _other(self, item: Any, inner: Sequence[Any]) -> Any:
        copies = list(map(self.of, inner))
        if isinstance(item, MethodType):
            return MethodType(*copies)
        if isinstance(item, functools.partial):
            function, args, keywords = copies
            return functools.partial(function, *args, **keywords)
        if type(item) in (list, tuple):
            return type(item)(copies)
        if type(item) is dict:
            return dict(zip(item, copies, strict=True))
        if isinstance(item, Decorated):
            return item.with_function(*copies)
        return tf.nest.pack_sequence_as(item, copies)


def _check_not_rows(item: Any) -> None:
    tracer = active_tracer()
    if (
        tracer is not None
        and isinstance(item, tf.RaggedTensor)
        and getattr(item.row_splits, "graph", None) is tracer.graph
        and tracer.kind(item.row_splits) is not Kind.SHARED
    ):
        raise TraceError(
            f"A function value that is passed on{here()} captures rows of its call, a "
            f"tf.RaggedTensor {item.shape}. A value has one tensor for all tokens, so rows do not "
            "fit. Look them up in the function, as tf.gather(children, node) does from a captured "
            "`node`, or reduce or pad them before."
        )


def _is_of_a_call(item: Any) -> bool:
    return bool(tf.is_symbolic_tensor(item)) and is_traced(item)


def _parts(item: Any) -> tuple[tuple[Any, ...], Sequence[Any]] | None:
    """Returns what identifies an object besides its parts, and the parts; None without parts."""
    if isinstance(item, FunctionType):
        inner = [*enclosed(item), item.__defaults__, item.__kwdefaults__]
        return (item.__code__, id(item.__globals__)), inner
    if isinstance(item, MethodType):
        return (), [item.__func__, item.__self__]
    if isinstance(item, functools.partial):
        return (), [item.func, item.args, item.keywords]
    if type(item) in (list, tuple):
        return (), item
    if type(item) is dict:
        return tuple(item), list(item.values())
    if hasattr(type(item), "__tf_flatten__"):
        return item.__tf_flatten__()
    if not isinstance(item, type) and isinstance(item, Decorated):
        return item.settings, [item.python_function]
    return None


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if one[0] == other[0] == "thing":
        (_, mine), (_, others) = one, other
        return mine is others or (
            type(mine) is type(others) and isinstance(mine, _VALUES) and mine == others
        )
    return one == other
