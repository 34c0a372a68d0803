"""What TensorFlow's loops and functions do that cannot be followed."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from tests.trace.helpers import answer

LINE = r"test_kinds\.py:\d+"


@pytest.mark.many
def test_a_gradient_of_a_loop_in_a_body():
    """TensorFlow adds to the loop, whether it was looked at before or not."""

    def slopes(x):
        return tf.gradients(tf.map_fn(lambda row: row * row, x), x)[0]

    def slopes_of_branches(x):
        squares = tf.map_fn(lambda row: row * row, x)
        cond(squares > 1.0, lambda: squares, lambda: 2.0 * squares)
        return tf.gradients(squares, x)[0]

    for function in map(recursive, (slopes, slopes_of_branches)):
        answer(kerasrec.TraceError, lambda of=function: of(2.0), f"loop at {LINE}", "tf.function")
    np.testing.assert_allclose(recursive(lambda x: tf.function(slopes)(x))(3.0), 6.0)


def test_sums_of_sorted_segments_in_a_function_of_tensorflow():
    """They have no results for the last rows if these are empty, and nobody can replace them."""

    @tf.function(autograph=False)
    def sums(n):
        rows = tf.ragged.range(n)
        return tf.math.segment_sum(rows.values, rows.value_rowids())

    answer(kerasrec.TraceError, lambda: recursive(sums)([2, 0]), "not one value per token")
