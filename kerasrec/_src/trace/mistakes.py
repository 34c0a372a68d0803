"""Finds mistakes in a user's function that neither Python nor TensorFlow reports.

The function runs once for all calls, to build a graph. Some mistakes show only later, or never:

- If it adds tensors to a list that is there before and after, the list holds placeholders instead
  of the values of calls.
- A Python loop over ragged rows would trace one row after the other forever: Python iterates over
  a `tf.RaggedTensor` by index, up to an IndexError, and while a graph is built, no index is an
  error.
- A loss that a Keras layer adds in the body is kept with the layer, as a tensor of the body's
  graph. No one can read it there: a model that adds up its losses would fail, or leave this one out
  if the body was traced before.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.private import added_losses, innermost_layer, layers_in, with_outer_graphs
from kerasrec._src.trace.function_state import FunctionState
from kerasrec._src.trace.signature import Traceable
from kerasrec._src.trace.source import (
    at,
    current_source,
    enclosed,
    is_of_a_library,
    module_names,
    name_of,
    start_of,
    undecorated,
)

_CONTAINERS = (list, dict, set, deque)
# Their own lists may hold tensors for as long as a graph is built.
_NOT_SEARCHED = (keras.layers.Layer, tf.Module, type, ModuleType)
_FUNCTIONS = (FunctionType, MethodType, functools.partial)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Longer lists are data; what was added last comes first.
_MOST_SEARCHED = 1000
_A_DEFAULT = ", a default"
_INSTEAD = (
    "Return the values of calls, or keep them with kerasrec.collect; make a list for one call in "
    "the body."
)
# A loop is looked for whenever so many names of ops have been made. The number is prime: otherwise
# each look might come at the same op of a turn, which need not be one that takes a row.
_NUM_NAMES = 499
# If it is not known how many rows there are, an index from here on is taken for that of a loop. In
# rows of tokens, no index is right: each token has its own row.
_LARGE_INDEX = 200
_INDEXING = inspect.unwrap(tf.RaggedTensor.__getitem__)


@contextlib.contextmanager
def finding_mistakes(state: FunctionState, args: Sequence[Any], graph: tf.Graph) -> Iterator[None]:
    """A context for tracing a function with some arguments, which raises errors for mistakes.

    Args:
        state: The function.
        args: The arguments.
        graph: The graph that is being built.

    Raises:
        TraceError: If a Python loop over rows does not end; if a layer adds a loss; or if the
            function changes an argument that defaults to a list, dict or deque, which all calls
            would share.
    """
    with loops_over_rows_end(graph), _no_losses_in(graph), _defaults_stay(state, args):
        yield


class EndlessLoopError(TraceError):
    """A loop never ends, whatever the types of the values it runs over."""


@contextlib.contextmanager
def loops_over_rows_end(graph: tf.Graph) -> Iterator[None]:
    """A context in which a Python loop over a RaggedTensor raises an error, if after seconds.

    TensorFlow asks the graph for the name of each new op. If it no longer did, such a loop would
    not end, and nothing else would change.
    """
    unique_name, numbers = graph.unique_name, itertools.count(1)
    errors: list[EndlessLoopError] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        if not errors and not next(numbers) % _NUM_NAMES:
            errors.extend(_loops())
        if errors:  # Again for the next op, since TensorFlow catches ValueErrors in some places.
            raise errors[0]
        return unique_name(*args, **kwargs)

    with _replaced(graph, "unique_name", counted):
        yield


def _loops() -> Iterator[EndlessLoopError]:
    """The error of a RaggedTensor that is being indexed beyond its rows; none for other code."""
    for frame, _ in traceback.walk_stack(inspect.currentframe()):
        if frame.f_code is not _INDEXING.__code__:
            continue
        rows, index = (frame.f_locals[name] for name in inspect.signature(_INDEXING).parameters)
        index = index[0] if isinstance(index, list) and len(index) == 1 else index
        num_rows = rows.shape[0]
        if isinstance(index, int) and index >= (_LARGE_INDEX if num_rows is None else num_rows):
            yield EndlessLoopError(
                f"A Python loop (`for`, `sum`, `list`){at(current_source(frame))} over the rows "
                f"of a tf.RaggedTensor never ends: it has reached row {index}. Reduce all rows at "
                "once, `tf.reduce_sum(rows, axis=1)`, or use kerasrec.map_fn."
            )


@contextlib.contextmanager
def _no_losses_in(graph: tf.Graph) -> Iterator[None]:
    """A context that raises an error at its end if a layer has added a loss within it.

    For each call of a layer, Keras opens a name scope of the graph.
    """
    name_scope = graph.name_scope
    called: dict[int, Any] = {}

    def noting_layer(*args: Any, **kwargs: Any) -> Any:
        layer = innermost_layer()
        called[id(layer)] = layer
        return name_scope(*args, **kwargs)

    with _replaced(graph, "name_scope", noting_layer):
        yield
    for layer in reversed(called.values()):
        if isinstance(layer, keras.layers.Layer) and any(
            getattr(loss, "graph", None) is graph for loss in added_losses(layer)
        ):
            raise TraceError(
                f"A recursive function calls the layer {layer.name!r}, which adds a loss, by "
                "`add_loss` or by the `activity_regularizer` of a layer in it. The loss belongs to "
                "one call of the function, and cannot leave it. Return the values that the loss "
                "depends on, or keep it by kerasrec.collect, and compute the loss outside the "
                "function."
            )


@contextlib.contextmanager
def _replaced(graph: tf.Graph, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """A context in which a method of one graph is another function.

    Args:
        graph: The graph.
        name: The name of the method.
        method: The function, which takes the same arguments without `self`.
    """
    setattr(graph, name, method)
    try:
        yield
    finally:
        delattr(graph, name)


@contextlib.contextmanager
def _defaults_stay(state: FunctionState, args: Sequence[Any]) -> Iterator[None]:
    """A context that raises an error at its end if a default of the function was changed in it."""
    given = _with_mutable_defaults(state.function, args)
    before = _contents([value for _, value in given])
    try:
        yield
    finally:
        for (parameter, value), contents in zip(given, before, strict=True):
            if _contents(value) != contents:
                name, default = parameter.name, parameter.default
                raise TraceError(
                    f"{state.name} ({state.source.where}) changes `{name}`, which defaults to the "
                    f"{type(default).__name__} {default!r}. All calls share a default, and the "
                    f"body runs once for all of them. Use {name}=None. {_INSTEAD}"
                )


def check_what_is_left(state: FunctionState, graph: tf.Graph) -> None:
    """Looks for tensors that a function has left in lists, dicts and sets outside of its body.

    Programs may count traces like this, so it is a mistake only if the object is a default.

    Args:
        state: The function.
        graph: The graph of its trace.

    Raises:
        TraceError: If a tensor was left in a default.
    """
    found = _place_of_a_tensor(state.functions, graph)
    if found is None:
        return
    place, function = found
    name, source = state.name, state.source
    if is_of_a_library(source.file):  # A layer's recursion calls the user's function.
        name, source = function.__qualname__, start_of(function)
    message = (
        f"{name} ({source.where}) leaves a tensor in {place}. The body runs once, when it is "
        f"traced, so this is a placeholder for all calls. {_INSTEAD}"
    )
    if _A_DEFAULT in place:
        raise TraceError(message)
    warnings.warn_explicit(message, UserWarning, source.file, source.line)


def _with_mutable_defaults(
    function: Traceable, args: Sequence[Any]
) -> list[tuple[inspect.Parameter, Any]]:
    """The parameters that default to a list, dict or deque, each with its argument."""
    parameters = list(function.python_signature.parameters.values())
    keywords = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    by_place = itertools.takewhile(lambda parameter: parameter.kind in _BY_PLACE, parameters)
    pairs = [*zip(by_place, args, strict=False), *zip(keywords[::-1], args[::-1], strict=False)]
    return [
        (parameter, value)
        for parameter, value in pairs
        if isinstance(parameter.default, list | dict | deque)
    ]


def _contents(container: Any) -> Any:
    """A value that is equal as long as nothing is added to lists and dicts, removed or replaced."""
    if isinstance(container, dict):
        return [(key, _contents(value)) for key, value in container.items()]
    if isinstance(container, list | tuple | deque):
        return list(map(_contents, container))
    return id(container)


def _place_of_a_tensor(
    functions: Sequence[Callable[..., Any]], graph: tf.Graph
) -> tuple[str, Any] | None:
    """Describes an object that holds a tensor of a graph, with the function that reads it."""
    pending, seen = list(functions), set(map(id, functions))
    for function in pending:
        for place, value in _read_by(function):
            if isinstance(value, _CONTAINERS) and _holds(value, graph):
                return place, function
            for inner in _functions_of(value):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    pending.append(inner)
    return None


def _functions_of(value: Any) -> list[Callable[..., Any]]:
    """The functions that may run when a value is called: itself, or the methods of layers."""
    if isinstance(value, keras.layers.Layer):
        bases = itertools.chain.from_iterable(type(layer).__mro__ for layer in layers_in(value))
        methods = (method for base in bases for method in vars(base).values())
        return [method for method in methods if isinstance(method, FunctionType)]
    inner = value if isinstance(value, _NOT_SEARCHED) else undecorated(value)
    return [inner] if isinstance(inner, _FUNCTIONS) else []


def _read_by(function: Any) -> Iterator[tuple[str, Any]]:
    """Yields the objects that a function reads and keeps, each with its name.

    A function of a library keeps lists and the like for good reasons; it may call functions and
    layers of the user.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, MethodType):
        yield "`self`", function.__self__
        yield from _attributes("self", function.__self__)
        function = function.__func__
    elif not isinstance(function, FunctionType):
        yield from _attributes("self", function)
        function = type(function).__call__
    if not isinstance(function, FunctionType):
        return
    code, variables = function.__code__, function.__globals__
    others = dict(zip(code.co_freevars, enclosed(function), strict=True))
    if is_of_a_library(code.co_filename):
        yield from ((name, value) for name, value in others.items() if _functions_of(value))
        return
    arguments, values = code.co_varnames[: code.co_argcount], function.__defaults__ or ()
    defaults = dict(zip(arguments[::-1], values[::-1], strict=False))
    defaults |= function.__kwdefaults__ or {}
    others |= {name: variables[name] for name in module_names(code) if name in variables}
    of_function = f"{_A_DEFAULT} of {name_of(function)}"
    for found, note in ((defaults, of_function), (others, "")):
        for name, value in found.items():
            yield f"`{name}`{note}", value
            yield from _attributes(name, value, note)


def _attributes(name: str, value: Any, note: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the attributes of an object of the user's, each with its name."""
    is_known = type(value).__module__.startswith(("tensorflow.", "keras.", "kerasrec."))
    if not is_known and not isinstance(value, _NOT_SEARCHED + _FUNCTIONS):
        for attribute, inner in getattr(value, "__dict__", {}).items():
            yield f"`{name}.{attribute}`{note}", inner


def _holds(value: Any, graph: tf.Graph, depth: int = 3) -> bool:
    """Whether a tensor, or an entry of a container, belongs to a graph or to one inside it."""
    if isinstance(value, tf.RaggedTensor):
        value = value.flat_values
    elif hasattr(type(value), "deref"):  # tensor.ref()
        value = value.deref()
    if tf.is_symbolic_tensor(value):
        return graph in with_outer_graphs(value.graph)
    if not isinstance(value, (*_CONTAINERS, tuple)) or not depth:
        return False
    entries: Any = value.values() if isinstance(value, dict) else value
    newest = entries if isinstance(value, set) else reversed(entries)
    searched = itertools.islice(newest, _MOST_SEARCHED)
    return any(_holds(entry, graph, depth - 1) for entry in searched)
