"""Every optimizer and strategy against Keras' own training on one device with dense gradients.

On clusters: `test_local_cluster.py`.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.sparse_gradients import with_rows_once
from kerasrec.training import Model
from tests.parameters import few_of
from tests.training.every_optimizer import (
    OPTIMIZERS,
    accumulating,
    assert_same_weights,
    by_keras,
    expected_of_trees,
    expected_of_words,
    of_trees,
    of_words,
    trees,
    weights,
    words,
)

# Those that do more with gradients, or weights, than a step.
OTHERS = {
    "clipnorm": lambda: keras.optimizers.Adagrad(0.1, clipnorm=0.1),
    "clipvalue": lambda: keras.optimizers.SGD(0.1, clipvalue=0.05),
    "global_clipnorm": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1),
    "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
    "use_ema": lambda: keras.optimizers.Adam(0.01, use_ema=True),
}


@pytest.mark.many
def test_each_row_comes_once():
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0], [4.0]]), tf.constant([5, 2, 5]), [7, 1])
    dense = tf.ones([2])
    none, found, same = with_rows_once([None, slices, dense])
    assert none is None and same is dense
    np.testing.assert_array_equal(found.indices, [5, 2])
    np.testing.assert_array_equal(found.values, [[5.0], [2.0]])
    np.testing.assert_array_equal(found.dense_shape, [7, 1])


@pytest.mark.slow
def test_trees_on_two_replicas(two_replicas):
    with two_replicas.scope():
        model = of_trees()
    assert_same_weights(weights(model, trees()), expected_of_trees())


@pytest.mark.slow
def test_trees():
    assert_same_weights(weights(of_trees(), trees()), expected_of_trees())


@pytest.mark.parametrize("name", few_of(OPTIMIZERS, many=[]))
def test_accumulated_gradients(two_replicas, name):
    expected = expected_of_words(accumulating(name))
    with two_replicas.scope():
        model = of_words(accumulating(name))
    assert_same_weights(weights(model, words()), expected)


@pytest.mark.parametrize("name", few_of(OTHERS, many=[]))
def test_other_steps(two_replicas, name):
    expected = expected_of_words(OTHERS[name]())
    assert_same_weights(weights(of_words(OTHERS[name]()), words()), expected)
    with two_replicas.scope():
        model = of_words(OTHERS[name]())
    assert_same_weights(weights(model, words()), expected)


@pytest.mark.parametrize("jit_compile", few_of([False, True], many=[]))
def test_fit_of_a_model(jit_compile):
    class Own(Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
            return super().compute_loss(x, y, y_pred, sample_weight)

    model = of_words("adam", model_class=Own)
    model.jit_compile = jit_compile
    assert_same_weights(weights(model, words(), by_keras), expected_of_words("adam"))


@pytest.mark.slow
def test_keras_squares_rows_apart():
    """If this no longer holds, the docstring of `Model` is wrong about Keras."""
    found, expected = weights(of_words("adam"), words(), by_keras), expected_of_words("adam")
    with pytest.raises(AssertionError, match="table/embeddings"):
        assert_same_weights(found, expected)
