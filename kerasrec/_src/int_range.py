"""Checks, while the graph runs, that numbers keep their values when they are cast to integers."""

import tensorflow as tf

from kerasrec._src.errors import asserted

LARGEST = 2**31 - 1  # of int32


def cast_integers(values: tf.Tensor, dtype: tf.DType, what: str) -> tf.Tensor:
    """Casts integers; fails if one would become another number.

    Args:
        values: Integers of any dtype and shape.
        dtype: An integer dtype.
        what: The name of the integers, for messages.

    Raises:
        ValueError: If they are not integers.
        tf.errors.InvalidArgumentError: When the graph runs, if one is out of the range of `dtype`;
            the message shows it and its place.
    """
    if not values.dtype.is_integer:
        raise ValueError(f"{what} are {values.dtype.name}; expected integers.")
    cast = tf.cast(values, dtype)
    if dtype.min <= values.dtype.min and values.dtype.max <= dtype.max:
        return cast
    # Between signed and unsigned of one size, a cast and back always restores the number.
    is_out = (tf.cast(cast, values.dtype) != values) | ((cast < 0) != (values < 0))
    expected = f"{dtype.name}, {dtype.min} to {dtype.max}"
    return _unless(is_out, cast, values, f"{what} must be {expected}. Received:")


def whole_numbers(values: tf.Tensor, what: str) -> tf.Tensor:
    """Casts floats to int64; fails if one is not an integer.

    Args:
        values: Floats of any dtype and shape.
        what: The name of the numbers, for messages.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, if one is not an integer; the message
            shows it and its place.
    """
    cast = tf.cast(values, tf.int64)
    is_wrong = tf.cast(cast, values.dtype) != values
    return _unless(is_wrong, cast, values, f"{what} must be integers. Received:")


def _unless(is_wrong: tf.Tensor, cast: tf.Tensor, values: tf.Tensor, message: str) -> tf.Tensor:
    """Returns the cast values; fails, with the first wrong one and its place, if one is wrong."""
    shown = [message, tf.boolean_mask(values, is_wrong)[:1], "at", tf.where(is_wrong)[:1]]
    with asserted(~tf.reduce_any(is_wrong), shown):
        return tf.identity(cast)
