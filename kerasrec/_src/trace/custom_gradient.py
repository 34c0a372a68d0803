"""A `tf.custom_gradient` that does not keep the graph alive.

TensorFlow's version registers a gradient under a new name at each use, for as long as the process
runs, and the gradient holds the graph. Here the op holds its gradient, so that both are freed with
the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from kerasrec._src.private import set_gradient

Differentiated: TypeAlias = tuple[Sequence[Any], Callable[..., Sequence[Any]]]
"""The results, and a function that computes gradients from their cotangents."""


def custom_gradient(function: Callable[..., Differentiated]) -> Callable[..., list[Any]]:
    """Returns a function with its own gradient, to be called while a graph is built.

    `tf.gradients` uses only this gradient, and so do tapes around the `tf.function` that is built.
    Tapes in the same graph and exported models find no gradient.

    Args:
        function: A function of tensors. It returns tensors or `tf.IndexedSlices`, and a function
          that takes their cotangents and returns a gradient, or None, for each input.
    """

    def call(*tensors: tf.Tensor) -> list[Any]:
        results, gradient = function(*tensors)
        results = list(results)
        flat = tf.nest.flatten(results, expand_composites=True)
        # Cotangents reach the inputs only through these ops. In a saved model the ops stop them, so
        # that a loaded model has no gradient, rather than one of zeros.
        # Integers have no gradient, and would be copied to a GPU for nothing.
        gated = [_may_have_gradient(tensor) for tensor in tensors]
        gates = [tf.stop_gradient(one) for one in itertools.compress(tensors, gated)]
        hidden = tf.identity_n([*map(tf.stop_gradient, flat), *gates])

        def of_op(
            _: tf.Operation, *cotangents: tf.Tensor | None
        ) -> list[tf.Tensor | tf.IndexedSlices | None]:
            given = cotangents[: len(flat)]
            packed = tf.nest.pack_sequence_as(results, given, expand_composites=True)
            return [None] * len(flat) + list(itertools.compress(gradient(*packed), gated))

        set_gradient(hidden[0].op, of_op)
        for gate in gates:
            set_gradient(gate.op, _pass)
        return tf.nest.pack_sequence_as(results, hidden[: len(flat)], expand_composites=True)

    return call


def _may_have_gradient(tensor: tf.Tensor) -> bool:
    return not (tensor.dtype.is_integer or tensor.dtype.is_bool)


def _pass(_: tf.Operation, cotangent: tf.Tensor) -> tf.Tensor:
    return cotangent
