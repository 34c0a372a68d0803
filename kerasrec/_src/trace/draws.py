"""Random numbers that depend on the call, and not on which calls run together.

A random op of TensorFlow draws for all tokens of a tensor at once. Which tokens those are is for an
engine to choose, so the op would give other numbers in another engine, or in a second run for a
gradient. Therefore each token has a separate generator here, SplitMix64 (Steele, Lea and Flood
2014, "Fast Splittable Pseudorandom Number Generators", section 3). It starts from the seed and from
the token's key, a hash of the root token and the tag (`graph/carried.py`). Thus each call gets a
split of the generator, as in section 2 of that paper.

Some draws stay ops of TensorFlow: those of other distributions; those whose size or bounds are not
known while tracing; those inside of loops and conditionals of TensorFlow; and all in programs with
`memo`, where a call may have the keys of several tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from kerasrec._src.graph.types import Kind
from kerasrec._src.ops.table import Draw, Is, has, op_named
from kerasrec._src.trace.functions import is_call, with_held
from kerasrec._src.trace.op_outputs import begins_with_count

_GAMMA = 0x9E3779B97F4A7C15
# The number of random bits in a float of each dtype: those of its significand.
_BITS = {tf.float16: 11, tf.bfloat16: 8, tf.float32: 24, tf.float64: 53}


def hold_draws(operations: Sequence[tf.Operation]) -> bool:
    """Whether an op of a graph calls a `tf.function` that draws in a way listed here."""
    calls = [operation for operation in operations if is_call(operation.type)]
    return any(op_named(node.op).draw for node in with_held(calls))


def repeats_draw(operation: tf.Operation) -> bool:
    """Whether an op, or an op of a `tf.function` that it calls, draws from a seed in a listed way.

    A gradient may have such an op to draw the value's numbers again.
    """
    found = with_held([operation]) if is_call(operation.type) else [operation.node_def]
    return any(op_named(node.op).draw and has(node.op, Is.SEEDED) for node in found)


def is_draw_of_tokens(operation: tf.Operation, kind: Callable[[tf.Tensor], Kind]) -> bool:
    """Whether an op draws numbers for each token in a way listed here, from a seed for all tokens.

    It must draw one row for each token, of a size that is known. The bounds of integers must also
    be known: TensorFlow checks them.

    Args:
        operation: Any op.
        kind: Returns the kind of a tensor.
    """
    if op_named(operation.type).draw is None:
        return False
    (output,) = operation.outputs
    shape, *others = operation.inputs
    return (
        begins_with_count(shape, kind)
        and output.shape[1:].is_fully_defined()
        and all(kind(tensor) is Kind.SHARED for tensor in others)
        and (output.dtype in _BITS or _has_known_bounds(operation))
    )


def seed_of(operation: tf.Operation) -> tf.Tensor:
    """Returns the seed of a draw, uint64 `[]`: it reads no token, and is new in each run."""
    if not has(operation.type, Is.SEEDED):
        seeds = {name: operation.get_attr(name) for name in ("seed", "seed2")}
        low, high = (tf.constant(number, tf.int64) for number in (-(2**63), 2**63 - 1))
        shape = tf.constant([], tf.int32)
        word = tf.raw_ops.RandomUniformInt(shape=shape, minval=low, maxval=high, **seeds)
        return tf.cast(word, tf.uint64)
    # A seed; or a key and a counter, which XLA makes of a seed in its own way.
    names = [argument.name for argument in operation.op_def.input_arg]
    named = zip(names, operation.inputs, strict=True)
    parts = [part for name, part in named if name in ("seed", "key", "counter")]
    if has(parts[0].op.type, Is.KEY):
        parts = parts[0].op.inputs
    words = tf.concat([tf.reshape(tf.cast(part, tf.uint64), [-1]) for part in parts], 0)
    mixed = _splitmix(words + _steps(tf.size(words)))
    # There is no kernel that sums uint64.
    return tf.cast(tf.reduce_sum(tf.cast(mixed, tf.int64)), tf.uint64)


def drawn(operation: tf.Operation, seed: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Returns numbers instead of those that a draw would give, `[tokens, ...]`.

    Args:
        operation: The draw.
        seed: Its seed, uint64 `[]`.
        key: The keys of the tokens, int64 `[tokens]`.
    """
    (output,) = operation.outputs
    shape = output.shape[1:].as_list()
    state = tf.cast(key, tf.uint64) + seed

    def words(block: int) -> tf.Tensor:
        """A word for each entry of the result, uint64 `[tokens, ...]`; others in each block."""
        size = math.prod(shape)
        steps = tf.reshape(_steps(size, block * size), shape)
        return _splitmix(tf.reshape(state, [-1] + [1] * len(shape)) + steps)

    return _DRAWS[op_named(operation.type).draw](words, operation)


_Words = Callable[[int], tf.Tensor]


def _uniform(words: _Words, operation: tf.Operation) -> tf.Tensor:
    """Numbers from 0 to 1, without 1."""
    return _fraction(words(0), operation.outputs[0].dtype)


def _normal(words: _Words, operation: tf.Operation) -> tf.Tensor:
    """Numbers of the standard normal distribution (Box and Muller 1958)."""
    dtype = operation.outputs[0].dtype
    exact = tf.float32 if dtype.size < 4 else dtype
    u, v = (_fraction(words(block), exact) for block in range(2))
    radius = tf.sqrt(-2.0 * tf.math.log(1.0 - u))  # `u` may be 0, but not 1.
    return tf.cast(radius * tf.cos(2.0 * math.pi * v), dtype)


def _integers(words: _Words, operation: tf.Operation) -> tf.Tensor:
    """Integers from a first one up to, and without, a last one."""
    low, high = map(tf.get_static_value, operation.inputs[-2:])
    offset = words(0) % _constant(int(high) - int(low))
    dtype = operation.outputs[0].dtype
    return tf.cast(offset, dtype) + tf.constant(low, dtype)


def _has_known_bounds(operation: tf.Operation) -> bool:
    """Whether the bounds of integers to be drawn are constants, and in order."""
    dtype = operation.outputs[0].dtype
    bounds = [tf.get_static_value(tensor) for tensor in operation.inputs[-2:]]
    is_int = dtype in (tf.int32, tf.int64)
    return is_int and all(item is not None for item in bounds) and bool(bounds[0] < bounds[1])


_DRAWS: dict[Draw | None, Callable[[_Words, tf.Operation], tf.Tensor]] = {
    Draw.UNIFORM: _uniform,
    Draw.NORMAL: _normal,
    Draw.INTEGERS: _integers,
}


def _fraction(word: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Turns words into numbers from 0 to 1, without 1."""
    bits = _BITS[dtype]
    upper = tf.bitwise.right_shift(word, _constant(64 - bits))
    return tf.cast(upper, dtype) * tf.constant(2.0**-bits, dtype)


def _steps(size: int | tf.Tensor, first: int = 0) -> tf.Tensor:
    """What SplitMix64 adds to its state before some of its numbers, uint64 `[size]`."""
    return tf.cast(tf.range(first + 1, first + 1 + size), tf.uint64) * _constant(_GAMMA)


def _splitmix(word: tf.Tensor) -> tf.Tensor:
    """Mixes the bits of numbers, uint64, so that each bit depends on all; no two become equal."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = _folded(word, shift) * _constant(factor)
    return _folded(word, 31)


def _folded(word: tf.Tensor, shift: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(word, tf.bitwise.right_shift(word, _constant(shift)))


def _constant(number: int) -> tf.Tensor:
    return tf.constant(number, tf.uint64)
