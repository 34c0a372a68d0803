"""Watches what TensorFlow asks of a graph while a user's function runs, to find two mistakes.

A Python loop over ragged rows would trace one row after the other for ever: Python iterates over a
`tf.RaggedTensor` by index, up to an IndexError, and while a graph is built, no index is an error.

A loss that a Keras layer adds in the body is kept with the layer, as a tensor of the body's graph.
No one can read it there: a model that adds up its losses would fail, or leave this one out if the
body was traced before.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.private import added_losses, innermost_layer
from kerasrec._src.trace.source import at, current_source

# A loop is looked for whenever so many names of ops have been made. The number is prime: otherwise
# each look might come at the same op of a turn, which need not be one that takes a row.
_NUM_NAMES = 499
# If it is not known how many rows there are, an index from here on is taken for that of a loop. In
# rows of tokens, no index is right: each token has its own row.
_LARGE_INDEX = 200
_INDEXING = inspect.unwrap(tf.RaggedTensor.__getitem__)


class EndlessLoopError(TraceError):
    """A loop never ends, whatever the types of what it runs over."""


@contextlib.contextmanager
def loops_over_rows_end(graph: tf.Graph) -> Iterator[None]:
    """A context in which a Python loop over a RaggedTensor raises an error, if after seconds.

    TensorFlow asks the graph for the name of each new op. If it no longer did, such a loop would
    not end, and nothing else would change.

    Args:
        graph: The graph that is being built.
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
def no_losses_in(graph: tf.Graph) -> Iterator[None]:
    """A context that raises an error at its end if a layer has added a loss within it.

    For each call of a layer, Keras opens a name scope of the graph.

    Args:
        graph: The graph that is being built.

    Raises:
        TraceError: If a layer has added a loss that is a tensor of the graph.
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
                "one call of the function, and cannot leave it. Return what the loss depends on, "
                "or keep it by kerasrec.collect, and compute the loss outside the function."
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
