"""Programs of dynamic programming, and the same by `functools.cache` on NumPy, a root at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import kerasrec

_RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A program.

    Args:
        name: of it.
        function: a recursive function with `memo=True`.
        plain: from the arguments of one root to a function of the keys that caches what it
            returns, and the keys that it is called with first.
        arguments: of several roots, `[roots, ...]` each.
    """

    name: str
    function: kerasrec.RecursiveFunction
    plain: Callable[..., tuple[Any, tuple[int, ...]]]
    arguments: tuple[np.ndarray, ...]

    def __repr__(self) -> str:
        return self.name


@kerasrec.recursive(memo=True)
def fib(n):
    return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))


def plain_fib(n):
    @functools.cache
    def find(n):
        return n if n < 2 else find(n - 1) + find(n - 2)

    return find, (n,)


@kerasrec.recursive(memo=True)
def binomial(n, k):
    def inside():
        return binomial(n - 1, k - 1) + binomial(n - 1, k)

    return kerasrec.cond((k == 0) | (k == n), lambda: tf.ones_like(n), inside)


def plain_binomial(n, k):
    @functools.cache
    def find(n, k):
        return 1 if k in (0, n) else find(n - 1, k - 1) + find(n - 1, k)

    return find, (n, k)


@kerasrec.recursive(memo=True)
def common(a, b, i, j):
    """The length of the longest common subsequence of a[:i] and b[:j]."""

    def compare():
        is_same = tf.gather(a, i - 1, batch_dims=1) == tf.gather(b, j - 1, batch_dims=1)
        return kerasrec.cond(
            is_same,
            lambda: common(a, b, i - 1, j - 1) + 1,
            lambda: tf.maximum(common(a, b, i - 1, j), common(a, b, i, j - 1)),
        )

    return kerasrec.cond((i == 0) | (j == 0), lambda: tf.zeros_like(i), compare)


def plain_common(a, b, i, j):
    @functools.cache
    def find(i, j):
        if i == 0 or j == 0:
            return 0
        if a[i - 1] == b[j - 1]:
            return find(i - 1, j - 1) + 1
        return max(find(i - 1, j), find(i, j - 1))

    return find, (i, j)


@kerasrec.recursive(memo=True)
def distance(a, b, costs, i, j):
    """A soft edit distance: a[:i] to b[:j] for learned costs of replacing, inserting, deleting."""

    def edit():
        one, other = tf.gather(a, i - 1, batch_dims=1), tf.gather(b, j - 1, batch_dims=1)
        replace = tf.gather(tf.gather(costs, one, batch_dims=1), other, batch_dims=1)
        ways = [
            distance(a, b, costs, i - 1, j - 1) + replace,
            distance(a, b, costs, i - 1, j) + 1.3,
            distance(a, b, costs, i, j - 1) + 0.7,
        ]
        return -tf.reduce_logsumexp(-tf.stack(ways, 1), axis=1)

    return kerasrec.cond(
        (i == 0) | (j == 0), lambda: tf.cast(i, costs.dtype) + tf.cast(j, costs.dtype), edit
    )


def plain_distance(a, b, costs, i, j):
    @functools.cache
    def find(i, j):
        if i == 0 or j == 0:
            return float(i + j)
        ways = [
            find(i - 1, j - 1) + costs[a[i - 1], b[j - 1]],
            find(i - 1, j) + 1.3,
            find(i, j - 1) + 0.7,
        ]
        return -np.logaddexp.reduce([-way for way in ways])

    return find, (i, j)


@kerasrec.recursive(memo=True, returns=tf.TensorSpec([], tf.float64))
def matrix_chain(sizes, i, j):
    """The fewest multiplications for the product of matrices i .. j - 1."""
    splits = tf.ragged.range(i + 1, j)
    ends = tf.gather(sizes, i, batch_dims=1) * tf.gather(sizes, j, batch_dims=1)
    middle = kerasrec.map_fn(lambda k: at(sizes, k), splits)
    costs = matrix_chain(sizes, i, splits) + matrix_chain(sizes, splits, j)
    costs += middle * ends[:, tf.newaxis]
    return tf.where(j - i < 2, tf.zeros_like(ends), tf.reduce_min(costs, axis=1))


CASES = [
    Case("fib", fib, plain_fib, (np.int32([10, 1, 15]),)),
    Case("binomial", binomial, plain_binomial, (np.int32([7, 3, 10]), np.int32([3, 3, 5]))),
    Case(
        "common subsequence",
        common,
        plain_common,
        (
            _RANDOM.integers(0, 3, [3, 6]).astype(np.int32),
            _RANDOM.integers(0, 3, [3, 7]).astype(np.int32),
            np.int32([6, 3, 5]),
            np.int32([7, 6, 0]),
        ),
    ),
    Case(
        "edit distance",
        distance,
        plain_distance,
        (
            _RANDOM.integers(0, 3, [2, 4]).astype(np.int32),
            _RANDOM.integers(0, 3, [2, 5]).astype(np.int32),
            _RANDOM.uniform(0.2, 2.0, [2, 3, 3]),
            np.int32([4, 3]),
            np.int32([5, 4]),
        ),
    ),
]
