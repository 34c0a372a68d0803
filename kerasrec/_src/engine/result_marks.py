"""Tells a gradient which results of a run are read.

TensorFlow passes zeros to the gradient of a function for each of its results that is not read. Here
each result gets a mark. The cotangent of the mark is 1 if the result has a cotangent, and is
missing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from kerasrec._src.private import unseen_by_op_callbacks
from kerasrec._src.trace.custom_gradient import Differentiated, custom_gradient


def marked(result: tf.Tensor, mark: tf.Tensor | None) -> tf.Tensor:
    """Returns the result; if it gets a cotangent, so does its mark, unless that is None."""
    if mark is None:
        return result
    return (_eagerly if tf.executing_eagerly() else _in_graph)(result, mark)


def _both(
    result: tf.Tensor, mark: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
    return tf.identity(result), lambda cotangent: [cotangent, tf.ones_like(mark)]


_eagerly = tf.custom_gradient(_both)


@tf.function(autograph=False, reduce_retracing=True)
@unseen_by_op_callbacks()
def _in_graph(result: tf.Tensor, mark: tf.Tensor) -> tf.Tensor:
    def call(result: tf.Tensor, mark: tf.Tensor) -> Differentiated:
        found, back = _both(result, mark)
        return [found], back

    return custom_gradient(call)(result, mark)[0]
