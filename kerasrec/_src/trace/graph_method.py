"""Watches what TensorFlow asks of a graph while it is being built."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def replaced(graph: tf.Graph, name: str, method: Callable[..., Any]) -> Iterator[None]:
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
