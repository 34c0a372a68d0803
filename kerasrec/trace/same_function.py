"""Whether two functions of the user's do the same, so that one trace serves both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import tensorflow as tf

from kerasrec.trace.demand import Lazy

# What does not change while it is the same object.
_CONSTANTS = (bool, int, float, complex, str, bytes, tf.Tensor, tf.Variable, tf.DType, type(None))


@dataclass(frozen=True, eq=False)
class Passed:
    """A function at the time when it was passed.

    Args:
        function: that was passed.
        variables: what it read then of the function around it, and its defaults. They may stand for
            something else later, as in a loop of Python.
    """

    function: Callable[..., Any]
    variables: tuple[Any, ...]

    @classmethod
    def now(cls, function: Callable[..., Any]) -> Passed:
        """A function as it is."""
        found = function.python_function if isinstance(function, Lazy) else function
        return cls(function, tuple(_variables(found)))

    def is_same(self, other: Passed) -> bool:
        """Whether it is the same function, or the same lines over the same constants and tensors.

        A lambda is another object each time the function around it is traced.
        """
        known = self.function is other.function or _is_same_method(self.function, other.function)
        return (
            (known or _has_same_lines(self.function, other.function))
            and len(self.variables) == len(other.variables)
            and all(
                one is two and (known or callable(one) or isinstance(one, _CONSTANTS))
                for one, two in zip(self.variables, other.variables, strict=True)
            )
        )


def _variables(function: Callable[..., Any]) -> list[Any]:
    if not isinstance(function, FunctionType):
        return []
    found = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # It has no value yet.
            found.append(cell.cell_contents)
    named = sorted((function.__kwdefaults__ or {}).items())
    return [*found, *(function.__defaults__ or ()), *(item for pair in named for item in pair)]


def _is_same_method(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    if isinstance(one, MethodType) and isinstance(other, MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return False


def _has_same_lines(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    if isinstance(one, Lazy) and isinstance(other, Lazy):
        return _has_same_lines(one.python_function, other.python_function)
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        return one.__code__ is other.__code__ and one.__globals__ is other.__globals__
    return False
