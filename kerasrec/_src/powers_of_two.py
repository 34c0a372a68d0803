"""Sizes rounded up to a power of two, so that XLA compiles for few of them."""

import tensorflow as tf


def next_power_of_two(number: tf.Tensor) -> tf.Tensor:
    """Rounds an int32 scalar up to a power of two: 0 and 1 to 1, 5 to 8."""
    is_smaller = tf.constant([1 << exponent for exponent in range(30)]) < number
    return tf.bitwise.left_shift(1, tf.reduce_sum(tf.cast(is_smaller, tf.int32)))
