"""`lazy`, `any_of` and `all_of`: values that are computed only for the tokens that read them.

A dataflow graph is eager: arguments are computed before the function that takes them looks at them.
Vasilakopoulos 2024, section 7.2, leaves values on demand to future work. Here a value that is not
computed yet is passed as a function. It runs in the branch that calls it, for the tokens there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.trace.conditional import count_of, predicate_of
from kerasrec._src.trace.loop import while_loop
from kerasrec._src.trace.rows import Scope
from kerasrec._src.trace.source import at, current_source, here
from kerasrec._src.trace.tracer import Tracer, tracer_for


class Lazy:
    """The result of `kerasrec.lazy`; calling it returns the value."""

    def __init__(self, function: Callable[[], Any]):
        self.python_function = function
        self._found: WeakKeyDictionary[Tracer, list[tuple[Scope, Any]]] = WeakKeyDictionary()

    @not_converted
    def __call__(self) -> Any:
        """Returns the value, computed for the tokens of the branch that reads it."""
        tracer = tracer_for("The value of kerasrec.lazy")
        found = self._found.setdefault(tracer, [])
        for scope, value in found:
            if tracer.scope[: len(scope)] == scope:
                return value
        value = self.python_function()
        found.append((tracer.scope, value))
        return value

    @property
    def settings(self) -> tuple[Any, ...]:
        """The options besides the function: none."""
        return ()

    def with_function(self, function: Callable[[], Any]) -> Lazy:
        """Returns a lazy value that another function computes."""
        return Lazy(function)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies the function, without the values that were computed."""
        return Lazy, (self.python_function,)


def lazy(function: Any) -> Lazy:
    """Makes a value that is computed only for the tokens that read it.

    You can pass it to recursive functions. They read it, if they need it, by a call without
    arguments:

    ```python
    @kerasrec.recursive
    def either(n, x):
        return kerasrec.cond(n < 10, lambda: n, lambda: x())

    @kerasrec.recursive
    def f(n):
        return either(n, kerasrec.lazy(lambda: fib(n)))  # fib is called for n >= 10 alone
    ```

    In one body, the value is computed once for all reads in the same branch and in branches inside
    that branch. If the body passes it on to another function, that function computes it again. A
    recursive function that takes a lazy value, or any other function, is traced once for each one
    that is passed to it.

    Args:
        function: A function without arguments that computes the value. It may call recursive
            functions, and use tensors of the function around it.

    Returns:
        A function without arguments that returns the value.

    Raises:
        SignatureError: If `function` is not a function.
    """
    if not callable(function):
        raise SignatureError(
            f"kerasrec.lazy{here()} was given {function!r}, which is computed already. Pass a "
            "function that computes it: kerasrec.lazy(lambda: ...)."
        )
    return Lazy(function)


@not_converted
def any_of(count: Any, predicate: Callable[[tf.Tensor], Any]) -> tf.Tensor:
    """Tests whether a predicate holds for any of the numbers 0 to `count` - 1, in this order.

    Each token stops at the first number for which the predicate holds; later numbers are not tried.

    Args:
        count: How many numbers each token tries, an int, or `[tokens]` of any int dtype.
        predicate: A function that takes a number for each token, int32 `[tokens]`, and returns bool
            `[tokens]`. It may call recursive functions.

    Returns:
        Bool `[tokens]`; False where the count is 0.

    Raises:
        TraceError: If it is called outside a recursive function, or if `predicate` does not return
            one bool per token.
        SignatureError: If `count` is not an int or one int per token.
    """
    return _some_number_ends("kerasrec.any_of", count, predicate, lambda holds: holds)


@not_converted
def all_of(count: Any, predicate: Callable[[tf.Tensor], Any]) -> tf.Tensor:
    """Tests whether a predicate holds for all of the numbers 0 to `count` - 1, in this order.

    Each token stops at the first number for which the predicate does not hold; later numbers are
    not tried.

    Args:
        count: How many numbers each token tries, an int, or `[tokens]` of any int dtype.
        predicate: A function that takes a number for each token, int32 `[tokens]`, and returns bool
            `[tokens]`. It may call recursive functions.

    Returns:
        Bool `[tokens]`; True where the count is 0.

    Raises:
        TraceError: If it is called outside a recursive function, or if `predicate` does not return
            one bool per token.
        SignatureError: If `count` is not an int or one int per token.
    """
    return ~_some_number_ends("kerasrec.all_of", count, predicate, tf.logical_not)


def _some_number_ends(
    caller: str,
    count: Any,
    predicate: Callable[[tf.Tensor], Any],
    ends: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Tests whether any number from 0 to `count` - 1 has a predicate for which `ends` is true."""
    source = current_source()
    count = count_of(tracer_for(caller), count, f"`count` of {caller}{at(source)}")

    def step(number: tf.Tensor, ended: tf.Tensor) -> list[Any]:
        holds = predicate(number)
        if isinstance(holds, list | tuple | dict | int) and not isinstance(holds, bool):
            raise TraceError(
                f"{caller}{at(source)}: `predicate` must return one bool per token; it returned "
                f"{holds!r}."
            )
        if not isinstance(holds, bool):
            holds = predicate_of(tracer_for(caller), holds, caller, "predicate", tf.bool, source)
        return [number + 1, ends(holds)]

    _, ended = while_loop(
        lambda number, ended: (number < count) & ~ended,
        step,
        [tf.constant(0), tf.constant(False)],
    )
    return ended
