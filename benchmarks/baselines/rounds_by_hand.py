"""Programs of several rounds without recursion: loops over a structure known beforehand."""

import tensorflow as tf

from benchmarks.rounds_tensorflow import TensorFlowRunner, zeros


class RoundsByHand(TensorFlowRunner):
    def function(self, case, weights):
        make = {"walk": _walk, "branches": _branches}.get(case.program)
        return make and make(case, weights)


def _walk(case, weights):
    """All trees have as many leaves, and in preorder they stand from left to right."""
    is_leaf = case.inputs["children"][:, 0] < 0
    words = tf.constant(case.inputs["words"][is_leaf].reshape(case.batch, -1).T)

    def walk():
        kernel = tf.convert_to_tensor(weights["recurrent_kernel"])
        xs = tf.gather(weights["table"], words) @ weights["kernel"] + weights["bias"]
        _, h = tf.while_loop(
            lambda place, _: place < len(words),
            lambda place, h: (place + 1, tf.tanh(xs[place] + h @ kernel)),
            (0, zeros(case.inputs["roots"], weights)),
            maximum_iterations=len(words),
        )
        return h

    return walk


def _branches(case, weights):
    """All roots have one depth: a step for each level, all through the dense layer."""
    kinds = tf.constant(case.inputs["kinds"][:, None])

    def branches():
        h, scale = zeros(kinds, weights), tf.ones(kinds.shape)
        for level in range(case.size):
            is_odd = tf.bitwise.right_shift(kinds, level) % 2 == 1
            h = tf.where(is_odd, h, tf.tanh(h @ weights["kernel"] + weights["bias"]))
            scale = tf.where(is_odd, 0.5 * scale, scale)
        return scale * h

    return branches
