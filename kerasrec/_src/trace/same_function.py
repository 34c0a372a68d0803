"""Tests whether two functions of the user's do the same, so that one trace serves both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import tensorflow as tf

from kerasrec._src.trace.demand import Lazy
from kerasrec._src.trace.source import NO_VALUE, enclosed

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


def key_of(one: Callable[..., Any]) -> Any:
    """Returns what identifies a function: its id; for a method, its object and function."""
    return (id(one.__self__), one.__func__) if isinstance(one, MethodType) else id(one)


def _add_variables(item: Any, found: list[Any], seen: set[int]) -> None:
    """Adds everything that a function or a container reads, as far as that can be seen."""
    if id(item) in seen:
        return
    seen.add(id(item))
    for one in _read_by(item):
        found.append(one)
        _add_variables(one, found, seen)


def _read_by(item: Any) -> list[Any]:
    if isinstance(item, Lazy):
        return [item.python_function]
    if isinstance(item, MethodType):
        return [item.__func__]
    if isinstance(item, functools.partial):
        return [item.func, item.args, item.keywords]
    if type(item) in (list, tuple):
        return list(item)
    if type(item) is dict:
        return [*item.values()]
    if not isinstance(item, FunctionType):
        return []
    variables = item.__globals__
    named = [variables[name] for name in module_names(item.__code__) if name in variables]
    return [*enclosed(item), item.__defaults__, item.__kwdefaults__, *named]


def module_names(code: CodeType) -> list[str]:
    """Returns the names of the module's variables that code may read."""
    inner = [item for item in code.co_consts if isinstance(item, CodeType)]
    return [*code.co_names, *(name for item in inner for name in module_names(item))]


def _has_same_lines(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    if isinstance(one, Lazy) and isinstance(other, Lazy):
        return _has_same_lines(one.python_function, other.python_function)
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        return one.__code__ is other.__code__ and one.__globals__ is other.__globals__
    return False
