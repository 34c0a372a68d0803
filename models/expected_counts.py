"""The common part of dynamic programs over tables of scores: reading a table, and its gradient.

How often each score is counted is the gradient of the program's result. With
`plus = tf.reduce_logsumexp` that is an expectation over all derivations, with `tf.reduce_max` it is
the number in the best one (Eisner 2016, "Inside-outside and forward-backward algorithms are just
backprop").
"""

from collections.abc import Callable

import tensorflow as tf

NEVER = -1e6  # a logarithm of 0 that has gradients
Plus = Callable[..., tf.Tensor]  # adds over axes: tf.reduce_logsumexp or tf.reduce_max


def at(table: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """The entry of each token's table: `[tokens, n, ...]`, int32 `[tokens]` to `[tokens, ...]`."""
    return tf.gather(table, index, batch_dims=1)


def counts(total: Callable[[tf.Tensor], tf.Tensor], scores: tf.Tensor) -> tf.Tensor:
    """The gradient of `total(scores)`, of the shape of `scores`."""
    with tf.GradientTape() as tape:
        tape.watch(scores)
        result = total(scores)
    return tf.convert_to_tensor(tape.gradient(result, scores))
