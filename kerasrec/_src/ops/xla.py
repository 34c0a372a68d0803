"""How XLA is made to give the results of TensorFlow's own kernels, for all numbers.

XLA differs in three ways. First, some of its ops differ: with the flags that TensorFlow sets on a
CPU, its `max(0, NaN)` is 0. These ops have a formula here. Second, it rewrites sequences of ops by
the laws of real numbers: then `log(exp(1000))` is 1000 instead of infinity. Therefore an op's
result may have to be hidden from the next op. Third, it goes on where a kernel raises an error.

Two differences remain: the sign of a zero in a maximum or minimum of equal values, and subnormal
numbers, which count as zero in some of TensorFlow's own kernels and not in others.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

Kernel = Callable[..., tf.Tensor]
Formula = Callable[..., tf.Tensor]
"""A function of an op's kernel in XLA, and of the op's inputs, that computes the op's output."""
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


class Fails(enum.Enum):
    """When TensorFlow's own kernel raises an error where XLA goes on."""

    ZERO_DIVISOR = enum.auto()  # Of integers.
    NEGATIVE_EXPONENT = enum.auto()  # Of integers.
    ROW_OUTSIDE = enum.auto()  # By the second input, of the first.
    PLACE_OUTSIDE = enum.auto()  # The same, with an index for each of several axes.
    RAGGED_ROW_OUTSIDE = enum.auto()  # By the third input, of the splits, which are the first.
    OTHER_OUTSIDE = enum.auto()
    LABEL_OUTSIDE = enum.auto()

    def where(
        self, inputs: Sequence[tf.Tensor], num_rows: tf.Tensor | None = None
    ) -> tf.Tensor | None:
        """Returns where the kernel fails, as bools; None if it never does, or if XLA runs no such.

        Args:
            inputs: The op's inputs.
            num_rows: The number of rows of the first input, if that has been padded.
        """
        if self in (Fails.ZERO_DIVISOR, Fails.NEGATIVE_EXPONENT):
            if not inputs[1].dtype.is_integer:
                return None
            return tf.equal(inputs[1], 0) if self is Fails.ZERO_DIVISOR else inputs[1] < 0
        sizes = tf.shape(inputs[0])
        rows = sizes[0] if num_rows is None else num_rows
        match self:
            case Fails.ROW_OUTSIDE:
                return _is_outside(inputs[1], rows)
            case Fails.RAGGED_ROW_OUTSIDE:
                return _is_outside(inputs[2], rows - 1)
            case Fails.LABEL_OUTSIDE:
                return _is_outside(inputs[1], sizes[1])
            case Fails.PLACE_OUTSIDE:
                places = inputs[1]
                return _is_outside(places, tf.concat([[rows], sizes[1:]], 0)[: places.shape[-1]])
        return None


# These fail with an error that does not show where in the program the index comes from.
OUTSIDE = frozenset({Fails.ROW_OUTSIDE, Fails.PLACE_OUTSIDE, Fails.OTHER_OUTSIDE})


def opaque(tensor: tf.Tensor) -> tf.Tensor:
    """The same tensor, as a choice by its own value, which XLA's simplifier cannot see through."""
    return tf.where(_is_nan(tensor), tf.constant(float("nan"), tensor.dtype), tensor)


def _is_nan(tensor: tf.Tensor) -> tf.Tensor:
    return tf.not_equal(tensor, tensor)


def _zeros_for(is_zero: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    return tf.where(is_zero, tf.zeros_like(tensor), tensor)


def _kept_where(is_kept: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Multiplies by 1 or 0, so that infinity times 0 is NaN; XLA would omit the product."""
    return tf.where(is_kept, tensor, tensor * tf.zeros_like(tensor))


def larger(kernel: Kernel, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Gives NaN if one number is NaN; XLA may give the other one."""
    return tf.where((x >= y) | _is_nan(x), x, y)


def smaller(kernel: Kernel, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Gives NaN if one number is NaN; XLA may give the other one."""
    return tf.where((x <= y) | _is_nan(x), x, y)


def extreme(kernel: Kernel, values: tf.Tensor, axes: tf.Tensor) -> tf.Tensor:
    """Gives NaN if one number is NaN; XLA may skip it."""
    found = kernel(values, axes)
    if not values.dtype.is_floating:
        return found
    keepdims = found.shape.rank == values.shape.rank
    has_nan = tf.reduce_any(_is_nan(values), axes, keepdims)
    return tf.where(has_nan, tf.constant(float("nan"), found.dtype), found)


def place_of_largest(kernel: Kernel, values: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    """Skips NaN, as TensorFlow's own kernel does; XLA gives the place of the first NaN.

    The kernel begins with place 0 and the lowest finite number, so it gives place 0 if all numbers
    are that number, -infinity or NaN.
    """
    if values.dtype.is_floating:
        values = tf.where(values > values.dtype.min, values, values.dtype.min)
    return kernel(values, axis)


def place_of_smallest(kernel: Kernel, values: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    """The same for the smallest number."""
    if values.dtype.is_floating:
        values = tf.where(values < values.dtype.max, values, values.dtype.max)
    return kernel(values, axis)


def sums(kernel: Kernel, values: tf.Tensor, axes: tf.Tensor) -> tf.Tensor:
    """Sums so that no sum is -0, as in TensorFlow, which starts a sum with 0."""
    found = kernel(values, axes)
    return _zeros_for(tf.equal(found, 0), found) if found.dtype.is_floating else found


def sign(kernel: Kernel, x: tf.Tensor) -> tf.Tensor:
    """Gives 0, not -0, for -0."""
    found = kernel(x)
    return _zeros_for(tf.equal(x, 0), found) if found.dtype.is_floating else found


def relu(kernel: Kernel, x: tf.Tensor) -> tf.Tensor:
    """Passes NaN on."""
    return _zeros_for(x <= 0, x)


def relu6(kernel: Kernel, x: tf.Tensor) -> tf.Tensor:
    """Passes NaN on."""
    return _zeros_for(x <= 0, tf.where(x >= 6, tf.constant(6, x.dtype), x))


def elu(kernel: Kernel, x: tf.Tensor) -> tf.Tensor:
    """Subtracts 1 after rounding; XLA has an op for both."""
    return tf.where(x < 0, opaque(tf.exp(x)) - 1, x)


def selu(kernel: Kernel, x: tf.Tensor) -> tf.Tensor:
    """Gives zero if exp rounds to 1; the gradient distinguishes zero from numbers below it."""
    return tf.where(x < 0, (opaque(tf.exp(x)) - 1) * _SELU_SCALE_ALPHA, x * _SELU_SCALE)


def relu_gradient(kernel: Kernel, cotangent: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Multiplies by 1 or 0."""
    return _kept_where(x > 0, cotangent)


def relu6_gradient(kernel: Kernel, cotangent: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Multiplies by 1 or 0."""
    return _kept_where((x > 0) & (x < 6), cotangent)


def elu_gradient(kernel: Kernel, cotangent: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Passes a cotangent on unchanged where the result is not below 0."""
    return tf.where(y < 0, (y + 1) * cotangent, cotangent)


def selu_gradient(kernel: Kernel, cotangent: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Multiplies in TensorFlow's order."""
    return tf.where(y < 0, cotangent * (y + _SELU_SCALE_ALPHA), cotangent * _SELU_SCALE)


def gradient_of_root(kernel: Kernel, y: tf.Tensor, cotangent: tf.Tensor) -> tf.Tensor:
    """Gives zero for a cotangent of zero, whatever the slope."""
    return _zeros_for(tf.equal(cotangent, 0), kernel(y, cotangent))


def gradient_of_rsqrt(kernel: Kernel, y: tf.Tensor, cotangent: tf.Tensor) -> tf.Tensor:
    """Multiplies in TensorFlow's order, because the cube may overflow."""
    return _zeros_for(tf.equal(cotangent, 0), (-0.5 * cotangent * y) * (y * y))


def power(kernel: Kernel, base: tf.Tensor, exponent: tf.Tensor) -> tf.Tensor:
    """Multiplies repeatedly if needed, since XLA reads only six bits of an integer exponent."""
    static = tf.get_static_value(exponent)
    if base.dtype.is_floating or (static is not None and static.max() < 64):
        return kernel(base, exponent)
    one = tf.ones_like(exponent)

    def square(power: tf.Tensor, base: tf.Tensor, exponent: tf.Tensor) -> tuple[tf.Tensor, ...]:
        is_odd = tf.equal(tf.bitwise.bitwise_and(exponent, one), one)
        half = tf.bitwise.right_shift(exponent, one)
        return tf.where(is_odd, power * base, power), base * base, half

    shape = tf.broadcast_static_shape(base.shape, exponent.shape)
    given = [tf.broadcast_to(item, shape) for item in (tf.ones_like(base), base, exponent)]
    # A negative exponent, an error or in a branch that is not chosen, also ends the loop.
    power, *_ = tf.while_loop(
        lambda power, base, exponent: tf.reduce_any(exponent > 0), square, given
    )
    return power


def shift(kernel: Kernel, x: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Shifts by 0 or all bits but one if there are fewer or more; XLA would lose all bits."""
    most = tf.constant(8 * x.dtype.size - 1, x.dtype)
    return kernel(x, tf.clip_by_value(bits, tf.zeros_like(most), most))


def cast(kernel: Kernel, x: tf.Tensor) -> tf.Tensor:
    """Casts numbers out of range as this machine's CPU does; XLA casts them to other numbers."""
    found = kernel(x)
    dtype = found.dtype
    if not (x.dtype.is_floating and dtype.is_integer):
        return found
    above, below, of_nan = _cast_out_of_range(x.dtype, dtype)
    limit = tf.constant(2.0 ** (8 * dtype.size - 1), x.dtype)
    found = tf.where(x >= limit, tf.constant(above, dtype), found)
    found = tf.where(x < -limit, tf.constant(below, dtype), found)
    return tf.where(_is_nan(x), tf.constant(of_nan, dtype), found)


@functools.cache
def _cast_out_of_range(source: tf.DType, target: tf.DType) -> list[int]:
    """The numbers to which infinity, its negative and NaN are cast on this CPU."""
    with tf.init_scope(), tf.device("/device:CPU:0"):
        values = tf.constant([float("inf"), -float("inf"), float("nan")], source)
        return tf.cast(values, target).numpy().tolist()


def gather(kernel: Kernel, table: tf.Tensor, indices: tf.Tensor, axis: tf.Tensor) -> tf.Tensor:
    """Takes rows, also of an empty table."""
    takes_rows = tf.get_static_value(axis) in (None, 0)
    return kernel(not_empty(table) if takes_rows else table, indices, axis)


def not_empty(table: tf.Tensor) -> tf.Tensor:
    """Gives an empty table a row of zeros: XLA's gather from none lacks the axes of indices."""
    if table.shape[0]:
        return table
    is_empty = tf.cast(tf.equal(tf.shape(table)[0], 0), tf.int32)
    return tf.pad(table, [[0, is_empty], *[[0, 0]] * (table.shape.rank - 1)])


def _is_outside(indices: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    return (indices < 0) | (indices >= tf.cast(size, indices.dtype))
