"""A custom gradient, and that it goes with its graph."""

import gc
import weakref

import numpy as np
import tensorflow as tf

from kerasrec._src.trace.custom_gradient import custom_gradient


@custom_gradient
def tripled(x, y):
    """`x * y` with three times its gradient."""
    return [x * y, tf.range(3)], lambda cotangent, _: [3.0 * cotangent * y, None]


@custom_gradient
def rows(table):
    """The first and the last row of a table, sparse."""
    places = [0, table.shape[0] - 1]
    found = tf.IndexedSlices(tf.gather(table, places), tf.constant(places), tf.shape(table))
    return [found], lambda cotangent: [5.0 * cotangent.values[0] + 0.0 * table]


def test_tapes_and_graphs_see_nothing_but_it():
    x, y = tf.constant([1.0, 2.0]), tf.constant([5.0, 7.0])

    @tf.function(autograph=False)
    def run(x, y):
        return tripled(x, y)

    @tf.function(autograph=False)
    def gradients(x, y):
        return tf.gradients(run(x, y)[0], x)[0], tf.gradients(tripled(x, y)[0], x)[0]

    with tf.GradientTape() as outer:
        outer.watch([x, y])
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            product, numbers = run(x, y)
        first = tape.gradient(product, [x, y])
    np.testing.assert_array_equal(product, x * y)
    np.testing.assert_array_equal(numbers, [0, 1, 2])
    np.testing.assert_array_equal(first[0], 3.0 * y)
    assert not np.any(first[1])
    np.testing.assert_array_equal(outer.gradient(first[0], y), [3.0, 3.0])
    for found in gradients(x, y):
        np.testing.assert_array_equal(found, 3.0 * y)


def test_sparse_results():
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    @tf.function(autograph=False)
    def run():
        return rows(tf.identity(table))[0]

    with tf.GradientTape() as tape:
        found = run()
        loss = tf.reduce_sum(found.values * [[2.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(found.values, [[1.0, 2.0], [5.0, 6.0]])
    np.testing.assert_array_equal(tape.gradient(loss, table), [[10.0, 15.0]] * 3)


def test_it_goes_with_its_graph():
    def graph_of_a_run():
        run = tf.function(lambda x: tripled(x, x), autograph=False)
        x = tf.constant([1.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, _ = run(x)
        np.testing.assert_array_equal(tape.gradient(y, x), [3.0])
        return weakref.ref(run.get_concrete_function(x).graph)

    graph = graph_of_a_run()
    gc.collect()
    assert graph() is None


def test_what_was_saved_has_no_gradient_rather_than_a_wrong_one(tmp_path):
    module = tf.Module()
    module.run = tf.function(
        lambda x, y: tripled(x, y)[0], [tf.TensorSpec([2]), tf.TensorSpec([2])], autograph=False
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    x, y = tf.constant([1.0, 2.0]), tf.constant([5.0, 7.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        product = loaded.run(x, y)
    np.testing.assert_array_equal(product, x * y)
    assert tape.gradient(product, x) is None
