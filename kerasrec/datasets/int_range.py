"""The check that integers keep their values where they are cast, done while the graph runs."""

import tensorflow as tf

LARGEST = 2**31 - 1  # of int32


def cast_integers(values: tf.Tensor, dtype: tf.DType, what: str) -> tf.Tensor:
    """Casts integers, and none of them to another number.

    Args:
        values: Integers of any dtype and shape.
        dtype: Of integers.
        what: Of what they are, for messages.

    Raises:
        ValueError: If they are no integers.
        tf.errors.InvalidArgumentError: When they are read, if one is out of the range of `dtype`;
            the message has it and its place.
    """
    if not values.dtype.is_integer:
        raise ValueError(f"{what} are {values.dtype.name}; expected integers.")
    cast = tf.cast(values, dtype)
    if dtype.min <= values.dtype.min and values.dtype.max <= dtype.max:
        return cast
    # As many bits give the same number back, with or without a sign.
    is_out = (tf.cast(cast, values.dtype) != values) | ((cast < 0) != (values < 0))
    check = tf.debugging.Assert(
        ~tf.reduce_any(is_out),
        [
            f"{what} must be {dtype.name}, {dtype.min} to {dtype.max}. Received:",
            tf.boolean_mask(values, is_out)[:1],
            "at",
            tf.where(is_out)[:1],
        ],
    )
    # Eager mode has checked already and returns None.
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(cast)
