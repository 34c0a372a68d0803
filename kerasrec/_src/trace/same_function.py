"""Tests whether two functions of the user's do the same, so that one trace serves both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import tensorflow as tf

from kerasrec._src.trace.demand import Lazy
from kerasrec._src.trace.source import NO_VALUE, parts_of

# Types whose objects mean the same as long as they are the same object.
_CONSTANTS: tuple[type, ...] = (bool, int, float, complex, str, bytes, type(None), ModuleType)
_CONSTANTS += (tf.Tensor, tf.Variable, tf.DType)


@dataclass(frozen=True, eq=False)
class Passed:
    """A function as it was when it was passed as an argument.

    Args:
        function: The function that was passed.
        variables: The values that it read at that time: its closure variables, defaults, and
            variables of its module, and the same for functions among these. The variables may have
            other values later, for instance in a Python loop.
    """

    function: Callable[..., Any]
    variables: tuple[Any, ...]

    @classmethod
    def now(cls, function: Callable[..., Any]) -> Passed:
        """Records a function as it is now."""
        found: list[Any] = []
        _add_variables(function, found, set())
        return cls(function, tuple(found))

    @property
    def key(self) -> Any:
        """The key that identifies the function."""
        return key_of(self.function)

    def is_same(self, other: Passed) -> bool:
        """Whether it is the same function, or has the same lines and reads the same constants.

        Tensors count as constants. A lambda is a new object each time the function around it is
        traced.
        """
        known = self.key == other.key
        return (
            (known or _has_same_lines(self.function, other.function))
            and len(self.variables) == len(other.variables)
            and all(
                one is two and (known or one is NO_VALUE or isinstance(one, _CONSTANTS))
                for one, two in zip(self.variables, other.variables, strict=True)
            )
        )


def key_of(function: Callable[..., Any]) -> Any:
    """Returns what identifies a function: its id; for a method, its object and function."""
    if isinstance(function, MethodType):
        return id(function.__self__), function.__func__
    return id(function)


def _add_variables(value: Any, found: list[Any], seen: set[int]) -> None:
    """Adds everything that a function or a container reads, as far as that can be seen."""
    if id(value) in seen:
        return
    seen.add(id(value))
    for inner in _read_by(value):
        found.append(inner)
        _add_variables(inner, found, seen)


def _read_by(value: Any) -> list[Any]:
    if isinstance(value, Lazy):
        return [value.python_function]
    _, parts = parts_of(value) or ((), ())
    if not isinstance(value, FunctionType):
        return list(parts)
    variables = value.__globals__
    named = [variables[name] for name in module_names(value.__code__) if name in variables]
    return [*parts, *named]


def module_names(code: CodeType) -> list[str]:
    """Returns the names of the module's variables that code may read."""
    inner = [value for value in code.co_consts if isinstance(value, CodeType)]
    return [*code.co_names, *(name for value in inner for name in module_names(value))]


def _has_same_lines(function: Callable[..., Any], other: Callable[..., Any]) -> bool:
    if isinstance(function, Lazy) and isinstance(other, Lazy):
        return _has_same_lines(function.python_function, other.python_function)
    if isinstance(function, FunctionType) and isinstance(other, FunctionType):
        return function.__code__ is other.__code__ and function.__globals__ is other.__globals__
    return False
