"""The check that integers are int32, for data that are known when a dataset is read."""

import tensorflow as tf

LARGEST = 2**31 - 1  # of int32


def to_int32(values: tf.Tensor, what: str) -> tf.Tensor:
    """Casts integers to int32, and none of them to another number.

    Args:
        values: Integers of any dtype and shape.
        what: Of what they are, for messages.

    Raises:
        ValueError: If they are no integers.
        tf.errors.InvalidArgumentError: When they are read, if one is out of int32's range; the
            message has it and its place.
    """
    if not values.dtype.is_integer:
        raise ValueError(f"{what} are {values.dtype.name}; expected integers.")
    exact = tf.cast(values, tf.float64)
    is_out = (exact < -LARGEST - 1) | (exact > LARGEST)
    check = tf.debugging.Assert(
        ~tf.reduce_any(is_out),
        [
            f"{what} must be int32, -2147483648 to {LARGEST}. Received:",
            tf.boolean_mask(values, is_out)[:1],
            "at",
            tf.where(is_out)[:1],
        ],
    )
    # Eager mode has checked already and returns None.
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(tf.cast(values, tf.int32))
