"""Shuffled datasets, whose order depends only on the number of passes that have read them."""

import tensorflow as tf


def shuffled_when_read(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same elements; their next order is drawn when a pass reads its first element.

    `Dataset.shuffle` draws an order for each iterator that is made, and Keras' `fit` makes two for
    each epoch, of which it reads one. One seed would then give each training loop other batches.
    """
    lazy = tf.data.Dataset.range(1).flat_map(lambda _: dataset)
    number = tf.get_static_value(dataset.cardinality())
    is_known = number is not None and number >= 0
    return lazy.apply(tf.data.experimental.assert_cardinality(number)) if is_known else lazy
