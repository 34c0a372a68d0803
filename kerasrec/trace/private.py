"""The one place with names of TensorFlow and Keras that are not public.

Each says why there is no public way, and what breaks if the name changes. None has changed since
TensorFlow 2.18 and Keras 3.8; `docs/versions.md` says what was tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Keras works out the shapes of subclassed models by calling them inside scopes in which variables
# have other values than usual: their initializers' output, or the caller's tensors. What
# is traced there must not be kept. Without these names, kerasrec cannot be imported.
from keras.src.backend import in_stateless_scope
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

__all__ = [
    "body_of",
    "copy_gradient",
    "copy_held_function",
    "in_stateless_scope",
    "in_symbolic_scope",
    "outer_graph",
    "set_gradient",
]


def set_gradient(operation: tf.Operation, gradient: Callable[..., Any]) -> None:
    """Gives an op a gradient function of (op, cotangents), which goes with its graph.

    `tf.custom_gradient` registers one for as long as the process runs. TensorFlow's loader of
    functions does it like this. If the name changes, gradients of recursive functions are None or
    wrong.
    """
    operation._gradient_function = gradient


def copy_gradient(operation: tf.Operation, copy: tf.Operation) -> None:
    """Gives the copy of an op that calls a function the gradient of that function.

    TensorFlow's own copies (lift_to_graph.py) take it like this. If the name changes, values that
    come through `tf.function` in a body have no gradient.
    """
    copy._gradient_function = operation._gradient_function


def copy_held_function(name: str, operation: tf.Operation, copy: tf.Operation) -> None:
    """Makes a function that an op holds, and those inside it, known in the graph of its copy.

    TensorFlow has no other way to call in one graph what only another knows. If a name changes,
    `tf.while_loop`, `tf.map_fn`, `tf.cond` and `tf.function` in a body raise AttributeError.
    """
    copy.graph._add_function_recursive(operation.graph._get_function(name))


def body_of(call: tf.Operation) -> tf.Graph:
    """The graph of the `tf.function` that an op calls.

    The op's public attributes have its name and its definition, not the tensors that were traced.
    If the name changes, assertions in a `tf.function` in a body raise AttributeError.
    """
    return call.graph._get_function(call.get_attr("f").name).graph


def outer_graph(graph: tf.Graph) -> tf.Graph | None:
    """The graph that was being built when that of a function was begun; None for others.

    The class of such graphs is not public. If the name changes, a call of a recursive function
    inside `tf.cond` or `tf.while_loop` in a body is no longer told apart from one outside, and
    fails with another error.
    """
    return getattr(graph, "outer_graph", None)
