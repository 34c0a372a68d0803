"""For how many sizes XLA compiles: counted, and bounded."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.frames.rows_xla.sizes import KnownSizes, bucket_beside
from tests.frames.helpers import never_by_waves


def fib_by(**options):
    @kerasrec.recursive(**options)
    def fib(n, w):
        return kerasrec.cond(n < 2, lambda: 2.0 * w, lambda: tf.tanh(fib(n - 1, w)) + fib(n - 2, w))

    return fib


def values_and_gradient(fib, n):
    w = tf.linspace(0.1, 1.0, len(n))
    with tf.GradientTape() as tape:
        tape.watch(w)
        values = fib(n, w)
    return values, tape.gradient(values, w)


@pytest.mark.slow
def test_past_the_bound_waves_run_what_is_new():
    fib, by_waves = fib_by(engine="compiled", max_xla_sizes=1), fib_by(engine="waves")
    small, larger = [3, 2], [1, 5, 4, 2, 3]
    for n in (small, larger, small):
        found, wanted = values_and_gradient(fib, n), values_and_gradient(by_waves, n)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        assert fib.num_xla_sizes == 1
    assert by_waves.num_xla_sizes == 0


@pytest.mark.many
def test_what_is_past_the_bound_is_not_compiled():
    fib = fib_by(engine="compiled", max_xla_sizes=0)
    with never_by_waves(), pytest.raises(tf.errors.InvalidArgumentError, match="taken over"):
        fib([3, 2], [1.0, 1.0])
    assert fib.num_xla_sizes == 0


@pytest.mark.many
def test_sizes_are_counted_once_each():
    known = KnownSizes(2)
    admitted = tf.function(lambda rows: known.admit([tf.zeros([rows, 3])], tf.constant([7, 8])))
    assert [bool(admitted(tf.constant(rows))) for rows in (1, 2, 1, 3, 2)] == [1, 1, 1, 0, 1]
    assert len(known) == 2
    assert not known.admit([tf.zeros([1, 3])], tf.constant([8, 7]))


@pytest.mark.many
def test_a_table_is_padded_in_proportion_to_another():
    sizes = [1, 2, 3, 32, 33, 512, 513, 1024, 1025]
    found = [int(bucket_beside(tf.constant(size), tf.constant(1024))) for size in sizes]
    assert found == [2, 2, 32, 32, 512, 512, 1024, 1024, 2048]
    assert [int(bucket_beside(tf.constant(size), tf.constant(1))) for size in (0, 3)] == [0, 4]


@pytest.mark.slow
def test_a_layer_counts_sizes_of_training_and_of_inference():
    layer = kerasrec.layers.TreeRNN(2, engine="compiled")
    assert layer.num_xla_sizes == 0
    trees = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    for training in (False, True, True):
        layer(tf.zeros([1, 3, 2]), trees, training=training)
    assert layer.num_xla_sizes == 2


@pytest.mark.many
def test_a_bound_below_zero_is_an_error():
    with pytest.raises(kerasrec.TraceError, match="max_xla_sizes is -1; it must be at least 0"):
        fib_by(max_xla_sizes=-1)


def test_sizes_of_a_gradient_are_counted(optimized):
    """TensorFlow drops ops from the graph of a gradient that no result waits for."""
    known = KnownSizes(2)

    @tf.function
    @tf.custom_gradient
    def same(x):
        return tf.identity(x), lambda upstream: tf.where(known.admit([x], [7]), upstream, 0.0)

    x = tf.ones([3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = same(x)
    np.testing.assert_array_equal(tape.gradient(y, x), [1, 1, 1])
    assert len(known) == 1
