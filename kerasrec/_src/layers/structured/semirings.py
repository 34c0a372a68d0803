"""Semirings: how a dynamic program combines alternatives, and parts of one structure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

NEVER = -1e30
"""A logarithm of 0 that has gradients; no structure scores so little, whatever its parts score."""

_IMPOSSIBLE = -1e6
"""The largest score of a part that stands for a weight of 0."""


class Semiring(NamedTuple):
    """The operations of a dynamic program: the same program sums, maximizes, samples or counts.

    A program combines alternatives with `plus` and the parts of a structure with `times` (Goodman
    1999, "Semiring parsing"). Its argument `semiring` implements both. A value is one number, or
    several along axis 1, after the axis of tokens; therefore, programs count all other axes from
    the last. The static methods of this class return the usual semirings.

    Args:
        from_scores: Returns the values of scores `[tokens, ...]`, which are logarithms of weights.
            In the usual semirings, a score of -1e6 or less stands for a weight of 0.
        times: Returns the value of two parts together; shapes broadcast.
        plus: Returns the value of all alternatives along an axis, a negative number.

    Example:

    >>> @kerasrec.recursive(memo=True)
    ... def paths(semiring, costs, n):  # costs [tokens, n, 2]: of two ways for each step
    ...     def step():
    ...         ways = semiring.from_scores(-tf.gather(costs, n - 1, batch_dims=1))
    ...         return semiring.times(paths(semiring, costs, n - 1), semiring.plus(ways, -1))
    ...     return kerasrec.cond(n < 1, lambda: semiring.from_scores(tf.zeros([1]))[0], step)
    >>> costs = tf.constant([[[1.0, 2.0], [3.0, 1.5]]])
    >>> print(paths(kerasrec.layers.Semiring.max(), costs, [2]).numpy())
    [-2.5]
    >>> print(paths(kerasrec.layers.Semiring.k_max(3), costs, [2]).numpy())
    [[-2.5 -3.5 -4. ]]
    """

    from_scores: Callable[[tf.Tensor], tf.Tensor]
    times: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    plus: Callable[[tf.Tensor, int], tf.Tensor]

    @staticmethod
    def log() -> Semiring:
        """Logarithms of sums of weights. The gradient is the probability of each part."""
        return Semiring(_or_never, tf.add, _log_sum)

    @staticmethod
    def max() -> Semiring:
        """The score of the best structure. The gradient is 1 for each of its parts."""
        return Semiring(_or_never, tf.add, _largest)

    @staticmethod
    @functools.cache
    def k_max(k: int) -> Semiring:
        """The scores of the best `k` structures, best first, along axis 1; -1e30 for none."""
        if k < 1:
            raise ValueError(f"`k` must be at least 1; received {k}.")

        def from_scores(scores: tf.Tensor) -> tf.Tensor:
            none = tf.fill(tf.shape(scores), tf.constant(NEVER, scores.dtype))
            return tf.stack([_or_never(scores), *[none] * (k - 1)], 1)

        def times(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
            return best(tf.expand_dims(first, 1) + tf.expand_dims(second, 2), 2)

        def plus(values: tf.Tensor, axis: int) -> tf.Tensor:
            return best(values, values.shape.rank + axis)

        def best(values: tf.Tensor, axis: int) -> tf.Tensor:
            """The best along axis 1 and another axis together, along axis 1."""
            joined = tf.concat(tf.unstack(values, k, 1), axis - 1)
            found = tf.math.top_k(_with_last(joined, axis - 1), k)[0]
            rank = found.shape.rank
            return tf.transpose(found, [0, rank - 1, *range(1, rank - 1)])

        return Semiring(from_scores, times, plus)

    @staticmethod
    def sampling() -> Semiring:
        """Logarithms of sums of weights. The gradient is 1 for each part of a random structure."""
        return Semiring(_or_never, tf.add, _log_sum_with_drawn)

    @staticmethod
    def entropy() -> Semiring:
        """The logarithm of a sum of weights, then the entropy of the structures, along axis 1.

        Source: Li and Eisner 2009, "First- and second-order expectation semirings".
        """
        return Semiring(_with_zero, tf.add, _log_sum_and_entropy)

    @staticmethod
    def counting() -> Semiring:
        """The number of structures of which every part scores more than -1e6, float64."""
        return Semiring(_is_possible, tf.multiply, tf.reduce_sum)


def _or_never(scores: tf.Tensor) -> tf.Tensor:
    return tf.where(scores <= _IMPOSSIBLE, tf.constant(NEVER, scores.dtype), scores)


def _log_sum(values: tf.Tensor, axis: int) -> tf.Tensor:
    """As `tf.reduce_logsumexp`, in fewer ops, for finite numbers."""
    top = tf.stop_gradient(tf.reduce_max(values, axis, keepdims=True))
    return tf.math.log(tf.reduce_sum(tf.exp(values - top), axis)) + tf.squeeze(top, axis)


def _largest(values: tf.Tensor, axis: int) -> tf.Tensor:
    """The largest value; of equal ones only the first has a gradient, unlike `tf.reduce_max`."""
    return tf.math.top_k(_with_last(values, values.shape.rank + axis), 1)[0][..., 0]


def _with_last(values: tf.Tensor, axis: int) -> tf.Tensor:
    """Moves an axis behind the others."""
    others = [place for place in range(values.shape.rank) if place != axis]
    return tf.transpose(values, [*others, axis])


def _log_sum_with_drawn(values: tf.Tensor, axis: int) -> tf.Tensor:
    """As `_log_sum`, with the gradient of one value, drawn by its probability (Gumbel 1954)."""
    uniform = tf.random.uniform(tf.shape(values), 1e-30, dtype=values.dtype)
    drawn = _largest(values - tf.math.log(-tf.math.log(uniform)), axis)
    return drawn + tf.stop_gradient(_log_sum(values, axis) - drawn)


def _with_zero(scores: tf.Tensor) -> tf.Tensor:
    return tf.stack([_or_never(scores), tf.zeros_like(scores)], 1)


def _log_sum_and_entropy(values: tf.Tensor, axis: int) -> tf.Tensor:
    logs, entropies = tf.unstack(values, 2, 1)
    total = _log_sum(logs, axis)
    logs -= tf.expand_dims(total, axis)
    entropy = tf.reduce_sum(tf.exp(logs) * (entropies - logs), axis)
    return tf.stack([total, entropy], 1)


def _is_possible(scores: tf.Tensor) -> tf.Tensor:
    return tf.cast(scores > _IMPOSSIBLE, tf.float64)
