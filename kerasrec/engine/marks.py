"""Lets a gradient know which results of a run are read.

TensorFlow hands zeros to the gradient of a function for each of its results that nobody reads. A
result passes through here together with a mark; so the mark has a cotangent, 1, if and only if the
result has one.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from kerasrec.graph.custom_gradient import custom_gradient


def marked(result: tf.Tensor, mark: tf.Tensor | None) -> tf.Tensor:
    """The same result; where it has a cotangent, its mark has one, if there is a mark."""
    if mark is None:
        return result
    return (_eagerly if tf.executing_eagerly() else _in_graph)(result, mark)


def _both(result: tf.Tensor, mark: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    return tf.identity(result), lambda cotangent: [cotangent, tf.ones_like(mark)]


_eagerly = tf.custom_gradient(_both)


@tf.function(autograph=False, reduce_retracing=True)
def _in_graph(result: tf.Tensor, mark: tf.Tensor) -> tf.Tensor:
    def call(result: tf.Tensor, mark: tf.Tensor) -> tuple[list, Callable]:
        found, back = _both(result, mark)
        return [found], back

    return custom_gradient(call)(result, mark)[0]
