"""The state of one function while a program is traced."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.values import Source
from kerasrec._src.trace.loop import Loop
from kerasrec._src.trace.signature import Signature, Traceable
from kerasrec._src.trace.source import code_of, enclosed, name_of, start_of, undecorated
from kerasrec._src.trace.tracer import Returns, ReturnTypeUnknownError, Tracer, is_traced

Code: TypeAlias = tuple[Any, ...]


@dataclass(eq=False)
class FunctionState:
    """A function under one signature.

    A function that is defined in the body of another is a new one, with a separate state, each time
    the other is traced.

    Args:
        name: A name that is unique in the program.
        function: The function that is traced.
        signature: The signature of its arguments.
        returns: The types of its results; None while they are not known.
        is_running: Whether it is being traced.
        unknown: Why its last trace left out a branch; None if it did not.
        recorded: Its trace, once no branch is left out.
        closed_over: The traced tensors that its variables held then, as references.
    """

    name: str
    function: Traceable
    signature: Signature
    returns: Returns | None = None
    is_running: bool = False
    unknown: ReturnTypeUnknownError | None = None
    recorded: Tracer | None = None
    closed_over: dict[str, Any] = field(default_factory=dict)

    @property
    def tracer(self) -> Tracer:
        """Its trace, with no branch left out."""
        if self.recorded is None:
            raise GraphError(f"{self.name} was not traced.")
        return self.recorded

    @property
    def needs_trace(self) -> bool:
        """Whether a trace of it may be fuller than its last one."""
        if self.recorded is not None:
            return False
        return self.unknown is None or self.unknown.state.returns is not None

    @property
    def source(self) -> Source:
        """The user's line where it begins."""
        function = self.function
        return function.source if isinstance(function, Loop) else start_of(function.python_function)

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The user's functions that run when it is traced."""
        return [*self._known, *map(undecorated, self.signature.functions_of_tables)]

    @property
    def _known(self) -> list[Callable[..., Any]]:
        """Those of its functions that read their own variables, not those of a function value."""
        condition = [self.function.condition] if isinstance(self.function, Loop) else []
        passed = map(undecorated, self.signature.functions)
        return [self.function.python_function, *condition, *passed]

    @property
    def code(self) -> Code:
        """A key that stays the same when the function around it is traced again."""
        return (*map(code_of, self.functions), self.signature.types)

    @property
    def has_closure(self) -> bool:
        """Whether it reads variables of a function around it."""
        return any(getattr(function, "__closure__", None) for function in self.functions)

    def variables(self) -> dict[str, Any]:
        """Returns the traced tensors that its variables hold now, in the form of `closed_over`."""
        found: dict[str, Any] = {}
        for function in self._known:
            found |= _closed_over(function)
        return found

    def variable_name(self, tensor: tf.Tensor) -> str:
        """Returns the name of the variable that closes over a tensor, or else that of its op."""
        pairs = (pair for function in self.functions for pair in _closed_over(function).items())
        names = {reference: name for name, reference in pairs}
        return names.get(tensor.ref(), tensor.op.name)

    @property
    def base_name(self) -> str:
        """Its name without a number: `twice_of_square`, if it was passed `square`."""
        parts = [self.function.name]
        for function in self.signature.functions:
            parts += ["of", name_of(undecorated(function))]
        return "_".join(parts).replace("<", "").replace(">", "")


def numbered(name: str, taken: Collection[str]) -> str:
    """Returns a name, with a number if it is taken."""
    others = (f"{name}_{number}" for number in itertools.count(1))
    return next(label for label in itertools.chain([name], others) if label not in taken)


def _closed_over(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns references to the traced tensors that a function closes over, by variable name."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return {
        name: content.ref()
        for name, content in zip(names, enclosed(function), strict=True)
        if tf.is_symbolic_tensor(content) and is_traced(content)
    }
