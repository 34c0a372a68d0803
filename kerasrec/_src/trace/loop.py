"""Loops in which each token makes its own number of iterations: `while_loop`, `any_of`, `all_of`.

A loop is a function that calls itself as its last step, so nothing waits for the call. In the
paper, loops and functions share one list of tags: CALL and RETURN extend ENTER and EXIT
(Kostopoulou et al., sections 2.3 and 5.1). Thus a loop can do the same as a function: call
recursive functions, be called by them, and have gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.conditional import Shown, choose, count_of, predicate_of
from kerasrec._src.trace.same_nest import merged_nest, same_nest
from kerasrec._src.trace.source import at, current_source, start_of
from kerasrec._src.trace.tracer import Tracer, tracer_for

_NAME = "kerasrec.while_loop"


@not_converted
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    state: Any,
    maximum_iterations: Any = None,
) -> Any:
    """Repeats `body` as long as `cond` holds, for each token separately.

    Unlike in `tf.while_loop`, `cond` and `body` may call recursive functions, each token makes its
    own number of iterations, and tokens that are done cost nothing more. In the graph the loop is a
    separate function, with ENTER, NEXT and EXIT nodes (Kostopoulou et al., section 2.3).

    ```python
    @kerasrec.recursive
    def collatz(n):
        def step(n, count):
            return kerasrec.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), count + 1

        return kerasrec.while_loop(lambda n, count: n > 1, step, (n, 0))[1]

    collatz([1, 6, 27])   # [0, 8, 111]
    ```

    Args:
        cond: A function that takes the state and returns whether each token goes on, bool
            `[tokens]`.
        body: A function that takes the state and returns the next one, with the same structure,
            dtypes and shapes.
        state: The first state: a nest of tensors `[tokens, ...]`, or of values that are the same
            for all tokens. The items of a list or tuple are passed to `cond` and `body` as separate
            arguments.
        maximum_iterations: The largest number of iterations of a token, an int, or `[tokens]` of
            any int dtype; None for no limit.

    Returns:
        The state at which `cond` no longer holds, with the same structure.

    Raises:
        TraceError: If it is called outside a recursive function, or if `cond` returns something
            other than one bool per token.
        SignatureError: If `body` returns another structure, dtype or shape, or if
            `maximum_iterations` is not an int or one int per token.
    """
    tracer = tracer_for(_NAME)
    is_sequence = isinstance(state, list | tuple)
    loop = Loop(tracer, cond, body, list(state) if is_sequence else [state], maximum_iterations)
    found = loop.items(tracer.call(loop, loop.first))
    if not is_sequence:
        return found[0]
    return merged_nest(tf.nest.pack_sequence_as(state, tf.nest.flatten(found)), found)


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


class Loop:
    """A loop as a function that calls itself.

    Args:
        tracer: The tracer of the function around the loop.
        cond: The same as for `while_loop`.
        body: The same as for `while_loop`.
        state: A list of the items of the state before the first iteration.
        maximum: The same as for `while_loop`. If it is not None, the state has one more item, the
            number of iterations.
    """

    def __init__(
        self,
        tracer: Tracer,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        state: list[Any],
        maximum: Any,
    ):
        self.source = current_source() or start_of(body)
        self._place = f"{_NAME} at {self.source.where}"
        for name, function in (("cond", cond), ("body", body)):
            if not callable(function):
                raise SignatureError(
                    f"`{name}` of {self._place} is {function!r}, not a function of the state."
                )
        if not tf.nest.flatten(state):
            raise SignatureError(f"The state of {self._place} is {state!r}; it has no tensors.")
        self.name = "loop"
        self.python_function = body
        self.python_signature = _signature(body, len(state), maximum is not None)
        self.condition = cond
        self._maximum = self._checked(tracer, maximum)
        state = state if maximum is None else [*state, tf.constant(0)]
        self._structure = tf.nest.map_structure(lambda _: 0, state)
        what = f"The state of {self._place}"
        tensors = tracer.tensors(tf.nest.flatten(state), (), what)
        self._types = [tracer.token_type(tensor, what) for tensor in tensors]
        self.first = tuple(tf.nest.pack_sequence_as(self._structure, tensors))
        specs = [tf.TensorSpec(value_type.shape, value_type.dtype) for value_type in self._types]
        self.returns = tf.nest.pack_sequence_as(self._structure, specs)

    def _checked(self, tracer: Tracer, maximum: Any) -> tf.Tensor | None:
        if maximum is None:
            return None
        return count_of(tracer, maximum, f"`maximum_iterations` of {self._place}")

    def run_python(self, args: tuple[Any, ...]) -> Any:
        """Runs one iteration and calls the loop for the others; returns the last state."""
        tracer = tracer_for(_NAME)
        holds = self.condition(*self.items(args))
        predicate = predicate_of(tracer, holds, _NAME, "cond", tf.bool, self.source)
        if self._maximum is not None:
            predicate &= args[-1] < self._maximum
        branches = {
            "body": lambda: tracer.call(self, self._next(tracer, args), self.source),
            "state": lambda: list(args),
        }
        return choose(tracer, predicate, branches, self.source)

    def items(self, args: Sequence[Any]) -> list[Any]:
        """Returns the items of a state, without the number of iterations."""
        return list(args) if self._maximum is None else list(args[:-1])

    def _next(self, tracer: Tracer, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Runs the body on a state, checks the next state, and returns it."""
        result = self.python_function(*self.items(args))
        result = list(result) if isinstance(result, list | tuple) else [result]
        if self._maximum is not None:
            result.append(args[-1] + 1)
        if not same_nest(self._structure, tf.nest.map_structure(lambda _: 0, result)):
            raise SignatureError(
                f"The body of {self._place} returns {self._shown(result)}, and the state before it "
                f"is {self._shown(self._structure)}. Let it return the same nest."
            )
        what = f"the result of the body of {self._place}"
        tensors = tracer.tensors(tf.nest.flatten(result), self._types, what)
        found = [tracer.token_type(tensor, what) for tensor in tensors]
        for place, (wanted, other) in enumerate(zip(self._types, found, strict=True)):
            if not wanted.accepts(other):
                raise SignatureError(self._other_type(place, wanted, other))
        # A value may be None, or made by the body, although the one before was not.
        packed = tf.nest.pack_sequence_as(self._structure, tensors)
        return tuple(merged_nest(packed, result))

    def _shown(self, state: list[Any]) -> str:
        items = tf.nest.map_structure(lambda _: Shown("tensor"), self.items(state))
        return str(items) if len(items) > 1 else str(items[0])

    def _other_type(self, place: int, wanted: Type, other: Type) -> str:
        return (
            f"The body of {self._place} returns {other} where the state before it has {wanted} "
            f"(tensor {place} of the state). One graph serves all iterations: use tf.cast, or "
            "write 0.0 and not 0 for a float, and keep the shapes."
        )


def _signature(function: Callable[..., Any], num_items: int, counts: bool) -> inspect.Signature:
    """Returns a signature of the items of a state, named as in `function` if it names each."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    if len(names) != num_items:
        names = [f"state_{place}" for place in range(num_items)]
    names += ["iterations"] * counts
    return inspect.Signature([inspect.Parameter(name, kinds[1]) for name in names])
