"""Refuses losses that Keras layers add in the body of a recursive function.

Keras keeps such a loss with the layer, as a tensor of the body's graph. No one can read it there: a
model that adds up its losses would fail, or leave this one out if the body was traced before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.private import added_losses, innermost_layer
from kerasrec._src.trace.graph_method import replaced


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

    with replaced(graph, "name_scope", noting_layer):
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
