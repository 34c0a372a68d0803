"""What a recursive function is called with: the structure and types of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf

from kerasrec.errors import SignatureError
from kerasrec.graph.types import Type


class Traceable(Protocol):
    """What tracing needs to know of a decorated function."""

    name: str
    python_function: Callable
    returns: Any

    def run_python(self, args: tuple) -> Any:
        """Calls the Python function with arguments by position."""
        ...


@dataclass(frozen=True)
class Signature:
    """Structure and types of a function's arguments.

    Args:
        structure: the nest of arguments, its leaves 0.
        types: one TOKEN type for each flat argument.
        names: what to call each flat argument in a print or an error.
    """

    structure: Any
    types: tuple[Type, ...]
    names: tuple[str, ...]

    def accepts(self, other: Signature) -> bool:
        """Whether arguments of the other signature may be passed to this one."""
        return len(self.types) == len(other.types) and all(
            mine.accepts(theirs) for mine, theirs in zip(self.types, other.types, strict=True)
        )

    def __str__(self) -> str:
        pairs = zip(self.names, self.types, strict=True)
        return ", ".join(f"{name}: {item}" for name, item in pairs)


def signature_of(function: Traceable, args: tuple, types: Sequence[Type]) -> Signature:
    """The signature of flat argument types, named after the function's parameters."""
    names = []
    parameters = list(inspect.signature(function.python_function).parameters.values())
    for place, arg in enumerate(args):
        parameter = parameters[min(place, len(parameters) - 1)].name
        size = len(tf.nest.flatten(arg))
        names += [parameter] if size == 1 else [f"{parameter}_{item}" for item in range(size)]
    structure = tf.nest.map_structure(lambda _: 0, args)
    return Signature(structure, tuple(types), tuple(names))


def check_shapes(function: str, names: Sequence[str], types: Sequence[Type]) -> None:
    """Raises SignatureError for tokens of an open shape: rows of different calls stand together."""
    for name, item in zip(names, types, strict=True):
        if not item.is_static:
            raise SignatureError(
                f"{name} of {function} has an open shape, {item} a token. Only the token axis may "
                "be open, because values of many calls share one tensor: set the shape with "
                "tf.ensure_shape, or pad to one shape."
            )
