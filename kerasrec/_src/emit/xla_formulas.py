"""Fires ops so that XLA gives the results of TensorFlow's own kernels, for all numbers.

XLA differs in two ways. First, some of its ops differ: with the flags that TensorFlow sets on a
CPU, its `max(0, NaN)` is 0. These ops have a formula here. Second, it rewrites sequences of ops by
the laws of real numbers: then `log(exp(1000))` is 1000 instead of infinity. So each op's result is
hidden from the next op.

Two differences remain: the sign of a zero in a maximum or minimum of equal values, and subnormal
numbers, which count as zero in some of TensorFlow's own kernels and not in others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from kerasrec._src.graph.fire import fire
from kerasrec._src.graph.nodes import operations
from kerasrec._src.graph.values import Node
from kerasrec._src.ops.table import Fails, Is, facts_of, has
from kerasrec._src.ops.views import gathers_rows

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def fire_exactly(node: Node, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The outputs of an op that the scalar engine takes, for the given inputs, in XLA."""
    formula = _FORMULAS.get(node.op)
    found = formula(node, *inputs) if formula else fire(node, inputs)
    if node.is_constant:
        return found
    return [_opaque(tensor) if tensor.dtype.is_floating else tensor for tensor in found]


def fire_alike(node: Node, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The outputs of an op in XLA, which may merge it with others if no digit is lost."""
    formula = _FORMULAS.get(node.op)
    found = formula(node, *inputs) if formula else fire(node, inputs, has_gradient=False)
    return list(map(_opaque, found)) if has(node.op, Is.OVERFLOWING) else found


def _opaque(tensor: tf.Tensor) -> tf.Tensor:
    """The same tensor, as a choice by its own value, which XLA's simplifier cannot see through."""
    return tf.where(_is_nan(tensor), tf.constant(float("nan"), tensor.dtype), tensor)


def _is_nan(tensor: tf.Tensor) -> tf.Tensor:
    return tf.not_equal(tensor, tensor)


def _zeros_for(is_zero: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    return tf.where(is_zero, tf.zeros_like(tensor), tensor)


def _kept_where(is_kept: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Multiplies by 1 or 0, so that infinity times 0 is NaN; XLA would omit the product."""
    return tf.where(is_kept, tensor, tensor * tf.zeros_like(tensor))


def _larger(node: Node, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    return [tf.where((x >= y) | _is_nan(x), x, y)]


def _smaller(node: Node, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    return [tf.where((x <= y) | _is_nan(x), x, y)]


def _extreme(node: Node, values: tf.Tensor, axes: tf.Tensor) -> list[tf.Tensor]:
    (found,) = fire(node, [values, axes])
    if not values.dtype.is_floating:
        return [found]
    keepdims = operations([node])[0].get_attr("keep_dims")
    has_nan = tf.reduce_any(_is_nan(values), axes, keepdims)
    return [tf.where(has_nan, tf.constant(float("nan"), found.dtype), found)]


def _place_of_extreme(node: Node, values: tf.Tensor, axis: tf.Tensor) -> list[tf.Tensor]:
    """Skips NaN, as TensorFlow's own kernel does; XLA gives the place of the first NaN.

    The kernel begins with place 0 and the lowest finite number, or the highest for a minimum. So it
    gives place 0 if all numbers are that number, infinities beyond it, or NaN.
    """
    if values.dtype.is_floating and node.op == "ArgMax":
        values = tf.where(values > values.dtype.min, values, values.dtype.min)
    elif values.dtype.is_floating:
        values = tf.where(values < values.dtype.max, values, values.dtype.max)
    return fire(node, [values, axis])


def _sum(node: Node, values: tf.Tensor, axes: tf.Tensor) -> list[tf.Tensor]:
    """Sums so that no sum is -0, as in TensorFlow, which starts a sum with 0."""
    (found,) = fire(node, [values, axes])
    return [_zeros_for(tf.equal(found, 0), found) if found.dtype.is_floating else found]


def _sign(node: Node, x: tf.Tensor) -> list[tf.Tensor]:
    (found,) = fire(node, [x])
    return [_zeros_for(tf.equal(x, 0), found) if found.dtype.is_floating else found]


def _relu(node: Node, x: tf.Tensor) -> list[tf.Tensor]:
    return [_zeros_for(x <= 0, x)]


def _relu6(node: Node, x: tf.Tensor) -> list[tf.Tensor]:
    return [_zeros_for(x <= 0, tf.where(x >= 6, tf.constant(6, x.dtype), x))]


def _elu(node: Node, x: tf.Tensor) -> list[tf.Tensor]:
    return [tf.where(x < 0, _opaque(tf.exp(x)) - 1, x)]


def _selu(node: Node, x: tf.Tensor) -> list[tf.Tensor]:
    """Gives zero if exp rounds to 1; the gradient distinguishes zero from numbers below it."""
    return [tf.where(x < 0, (_opaque(tf.exp(x)) - 1) * _SELU_SCALE_ALPHA, x * _SELU_SCALE)]


def _relu_gradient(node: Node, cotangent: tf.Tensor, x: tf.Tensor) -> list[tf.Tensor]:
    return [_kept_where(x > 0, cotangent)]


def _relu6_gradient(node: Node, cotangent: tf.Tensor, x: tf.Tensor) -> list[tf.Tensor]:
    return [_kept_where((x > 0) & (x < 6), cotangent)]


def _elu_gradient(node: Node, cotangent: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    return [tf.where(y < 0, (y + 1) * cotangent, cotangent)]


def _selu_gradient(node: Node, cotangent: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    return [tf.where(y < 0, cotangent * (y + _SELU_SCALE_ALPHA), cotangent * _SELU_SCALE)]


def _gradient_of_root(node: Node, y: tf.Tensor, cotangent: tf.Tensor) -> list[tf.Tensor]:
    """Gives zero for a cotangent of zero, whatever the slope."""
    return [_zeros_for(tf.equal(cotangent, 0), fire(node, [y, cotangent])[0])]


def _gradient_of_rsqrt(node: Node, y: tf.Tensor, cotangent: tf.Tensor) -> list[tf.Tensor]:
    """Multiplies in TensorFlow's order, because the cube may overflow."""
    return [_zeros_for(tf.equal(cotangent, 0), (-0.5 * cotangent * y) * (y * y))]


def _power(node: Node, base: tf.Tensor, exponent: tf.Tensor) -> list[tf.Tensor]:
    """Multiplies repeatedly if needed, since XLA reads only six bits of an integer exponent."""
    static = tf.get_static_value(exponent)
    if base.dtype.is_floating or (static is not None and static.max() < 64):
        return fire(node, [base, exponent])
    one = tf.ones_like(exponent)

    def square(power: tf.Tensor, base: tf.Tensor, exponent: tf.Tensor) -> tuple[tf.Tensor, ...]:
        is_odd = tf.equal(tf.bitwise.bitwise_and(exponent, one), one)
        half = tf.bitwise.right_shift(exponent, one)
        return tf.where(is_odd, power * base, power), base * base, half

    shape = tf.broadcast_static_shape(base.shape, exponent.shape)
    given = [tf.broadcast_to(item, shape) for item in (tf.ones_like(base), base, exponent)]
    # A negative exponent, which is an error or in a branch that is not chosen, ends the loop, too.
    power, *_ = tf.while_loop(
        lambda power, base, exponent: tf.reduce_any(exponent > 0), square, given
    )
    return [power]


def _shift(node: Node, x: tf.Tensor, bits: tf.Tensor) -> list[tf.Tensor]:
    """Shifts by 0 or all bits but one if there are fewer or more; XLA would lose all bits."""
    most = tf.constant(8 * x.dtype.size - 1, x.dtype)
    return fire(node, [x, tf.clip_by_value(bits, tf.zeros_like(most), most)])


def _cast(node: Node, x: tf.Tensor) -> list[tf.Tensor]:
    """Casts numbers out of range as this machine's CPU does; XLA casts them to other numbers."""
    dtype = node.types[0].dtype
    (found,) = fire(node, [x])
    if not (x.dtype.is_floating and dtype.is_integer):
        return [found]
    above, below, of_nan = _cast_out_of_range(x.dtype, dtype)
    limit = tf.constant(2.0 ** (8 * dtype.size - 1), x.dtype)
    found = tf.where(x >= limit, tf.constant(above, dtype), found)
    found = tf.where(x < -limit, tf.constant(below, dtype), found)
    return [tf.where(_is_nan(x), tf.constant(of_nan, dtype), found)]


@functools.cache
def _cast_out_of_range(source: tf.DType, target: tf.DType) -> list[int]:
    """The numbers to which infinity, its negative and NaN are cast on this CPU."""
    with tf.init_scope(), tf.device("/device:CPU:0"):
        values = tf.constant([float("inf"), -float("inf"), float("nan")], source)
        return tf.cast(values, target).numpy().tolist()


def _gather(node: Node, table: tf.Tensor, indices: tf.Tensor, axis: tf.Tensor) -> list[tf.Tensor]:
    if gathers_rows(*operations([node])):
        table = not_empty(table)
    return fire(node, [table, indices, axis])


def not_empty(table: tf.Tensor) -> tf.Tensor:
    """Gives an empty table a row of zeros: XLA's gather from none lacks the axes of indices."""
    if table.shape[0]:
        return table
    is_empty = tf.cast(tf.equal(tf.shape(table)[0], 0), tf.int32)
    return tf.pad(table, [[0, is_empty], *[[0, 0]] * (table.shape.rank - 1)])


def where_failing(
    node: Node, inputs: Sequence[tf.Tensor], num_rows: tf.Tensor | None = None
) -> tf.Tensor | None:
    """Where TensorFlow's own kernel fails and XLA goes on, as bools; None if it never does.

    Args:
        node: The op.
        inputs: The tensors for its inputs.
        num_rows: The number of rows of the first input, if that has been padded.
    """
    fails = facts_of(node.op).fails
    if fails is Fails.LABEL_OUTSIDE:
        return _is_outside(inputs[1], tf.shape(inputs[0])[1])
    if fails in (Fails.ROW_OUTSIDE, Fails.PLACE_OUTSIDE, Fails.RAGGED_ROW_OUTSIDE):
        sizes = tf.shape(inputs[0])
        first = sizes[0] if num_rows is None else num_rows
        if fails is Fails.ROW_OUTSIDE:
            return _is_outside(inputs[1], first)
        if fails is Fails.RAGGED_ROW_OUTSIDE:  # The first input has the splits.
            return _is_outside(inputs[2], first - 1)
        places = inputs[1]
        return _is_outside(places, tf.concat([[first], sizes[1:]], 0)[: places.shape[-1]])
    if not node.types[0].dtype.is_integer:
        return None
    if fails is Fails.ZERO_DIVISOR:
        return tf.equal(inputs[1], 0)
    return inputs[1] < 0 if fails is Fails.NEGATIVE_EXPONENT else None


def _is_outside(indices: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    return (indices < 0) | (indices >= tf.cast(size, indices.dtype))


_FORMULAS: dict[str, Callable[..., list[tf.Tensor]]] = {
    "ArgMax": _place_of_extreme,
    "ArgMin": _place_of_extreme,
    "Cast": _cast,
    "Elu": _elu,
    "EluGrad": _elu_gradient,
    "GatherV2": _gather,
    "LeftShift": _shift,
    "Max": _extreme,
    "Maximum": _larger,
    "Min": _extreme,
    "Minimum": _smaller,
    "Pow": _power,
    "ReciprocalGrad": _gradient_of_root,
    "Relu": _relu,
    "Relu6": _relu6,
    "Relu6Grad": _relu6_gradient,
    "ReluGrad": _relu_gradient,
    "RightShift": _shift,
    "RsqrtGrad": _gradient_of_rsqrt,
    "Selu": _selu,
    "SeluGrad": _selu_gradient,
    "Sign": _sign,
    "SqrtGrad": _gradient_of_root,
    "Sum": _sum,
}
