"""Programs of dynamic programming, and the same by `functools.cache`, a root at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import kerasrec

_RANDOM = np.random.default_rng(0)
_FLOAT = tf.TensorSpec([], tf.float64)


@dataclass(frozen=True)
class Case:
    """A program.

    Args:
        name: of it.
        function: a recursive function with `memo=True`.
        plain: takes the arguments of one root, and gives a function of integers that caches what it
            returns, with the integers that it is called with first.
        arguments: of several roots, `[roots, ...]` each.
    """

    name: str
    function: kerasrec.RecursiveFunction
    plain: Callable[..., tuple[Any, tuple[int, ...]]]
    arguments: tuple[np.ndarray, ...]

    def expected(self, arguments: tuple[np.ndarray, ...]) -> tuple[np.ndarray, int]:
        """The values of some roots by plain Python, and how many calls it makes."""
        values, calls = [], 0
        for root in range(len(arguments[0])):
            find, keys = self.plain(*(array[root] for array in arguments))
            values.append(find(*map(int, keys)))
            calls += find.cache_info().misses
        return np.array(values), calls


def at(table, place):
    """An entry of each token's row."""
    return tf.gather(table, place, batch_dims=1)


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


@kerasrec.recursive(memo=True, returns=tf.TensorSpec([], tf.int32))
def catalan(n):
    """How many binary trees have n inner nodes."""
    rows = kerasrec.map_fn(lambda k: catalan(k) * catalan(n - 1 - k), tf.ragged.range(n))
    return tf.where(n == 0, tf.ones_like(n), tf.reduce_sum(rows, axis=1))


def plain_catalan(n):
    @functools.cache
    def find(n):
        return sum(find(k) * find(n - 1 - k) for k in range(n)) if n else 1

    return find, (n,)


@kerasrec.recursive(memo=True)
def common(a, b, i, j):
    """The length of the longest common subsequence of a[:i] and b[:j]."""

    def compare():
        return kerasrec.cond(
            at(a, i - 1) == at(b, j - 1),
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
    """The edit distance of a[:i] and b[:j], with costs of replacing and a soft minimum."""

    def edit():
        ways = [
            distance(a, b, costs, i - 1, j - 1) + at(at(costs, at(a, i - 1)), at(b, j - 1)),
            distance(a, b, costs, i - 1, j) + 1.3,
            distance(a, b, costs, i, j - 1) + 0.7,
        ]
        return -tf.reduce_logsumexp(-tf.stack(ways, 1), axis=1)

    return kerasrec.cond((i == 0) | (j == 0), lambda: tf.cast(i + j, tf.float64), edit)


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


@kerasrec.recursive(memo=True, returns=_FLOAT)
def matrix_chain(sizes, i, j):
    """The fewest multiplications for the product of matrices i .. j - 1."""

    def split(k):
        below = matrix_chain(sizes, i, k) + matrix_chain(sizes, k, j)
        return below + at(sizes, i) * at(sizes, k) * at(sizes, j)

    costs = tf.reduce_min(kerasrec.map_fn(split, tf.ragged.range(i + 1, j)), axis=1)
    return tf.where(j - i < 2, tf.zeros_like(costs), costs)


def plain_matrix_chain(sizes, i, j):
    @functools.cache
    def find(i, j):
        splits = [find(i, k) + find(k, j) + sizes[i] * sizes[k] * sizes[j] for k in range(i + 1, j)]
        return min(splits, default=0.0)

    return find, (i, j)


@kerasrec.recursive(memo=True)
def hidden_markov(scores, t):
    """Log probabilities of the observations up to time t, for each state then."""

    def forward():
        before = hidden_markov(scores, t - 1)[:, :, tf.newaxis] + TRANSITIONS
        return tf.reduce_logsumexp(before, axis=1) + at(scores, t)

    return kerasrec.cond(t == 0, lambda: at(scores, t), forward)


TRANSITIONS = tf.Variable(_RANDOM.normal(size=[3, 3]))


def plain_hidden_markov(scores, t):
    @functools.cache
    def find(t):
        if t == 0:
            return scores[0]
        return np.logaddexp.reduce(find(t - 1)[:, None] + TRANSITIONS.numpy()) + scores[t]

    return find, (t,)


@kerasrec.recursive(memo=True)
def inside(scores, i, j):
    """Log weights of all trees over words i .. j - 1, for each symbol at the root."""

    def split():
        def pair(k):
            left, right = inside(scores, i, k), inside(scores, k, j)
            weights = left[:, :, tf.newaxis] + right[:, tf.newaxis, :]
            return tf.reduce_logsumexp(weights[:, tf.newaxis] + RULES, axis=[2, 3])

        rows = kerasrec.map_fn(pair, tf.ragged.range(i + 1, j)).to_tensor(-np.inf)
        return tf.reduce_logsumexp(rows, axis=1)

    return kerasrec.cond(j - i < 2, lambda: at(scores, i), split)


RULES = tf.Variable(_RANDOM.normal(size=[2, 2, 2]))


def plain_inside(scores, i, j):
    rules = RULES.numpy()

    @functools.cache
    def find(i, j):
        if j - i < 2:
            return scores[i]
        weights = [find(i, k)[:, None] + find(k, j) for k in range(i + 1, j)]
        return np.array(
            [np.logaddexp.reduce([w + rule for w in weights], axis=None) for rule in rules]
        )

    return find, (i, j)


@kerasrec.recursive(memo=True)
def knapsack(weights, values, item, room):
    """The most that items below `item` are worth, within `room`."""

    def choose():
        weight = at(weights, item - 1)
        without = knapsack(weights, values, item - 1, room)
        return kerasrec.cond(
            weight > room,
            lambda: without,
            lambda: tf.maximum(
                without,
                knapsack(weights, values, item - 1, room - weight) + at(values, item - 1),
            ),
        )

    return kerasrec.cond(item == 0, lambda: tf.zeros([], tf.float64), choose)


def plain_knapsack(weights, values, item, room):
    @functools.cache
    def find(item, room):
        if item == 0:
            return 0.0
        without, weight = find(item - 1, room), int(weights[item - 1])
        if weight > room:
            return without
        return max(without, find(item - 1, room - weight) + values[item - 1])

    return find, (item, room)


@kerasrec.recursive(memo=True)
def paths(costs, row, column):
    """The cheapest way from the corner, a step down or to the right at a time."""

    def step():
        above = kerasrec.cond(
            row == 0,
            lambda: tf.constant(np.inf, tf.float64),
            lambda: paths(costs, row - 1, column),
        )
        left = kerasrec.cond(
            column == 0,
            lambda: tf.constant(np.inf, tf.float64),
            lambda: paths(costs, row, column - 1),
        )
        return tf.minimum(above, left)

    below = kerasrec.cond((row == 0) & (column == 0), lambda: tf.zeros([], tf.float64), step)
    return below + at(at(costs, row), column)


def plain_paths(costs, row, column):
    @functools.cache
    def find(row, column):
        if row == column == 0:
            return costs[0, 0]
        above = find(row - 1, column) if row else np.inf
        left = find(row, column - 1) if column else np.inf
        return min(above, left) + costs[row, column]

    return find, (row, column)


def _ints(high: int, shape: list[int]) -> np.ndarray:
    return _RANDOM.integers(0, high, shape).astype(np.int32)


CASES = [
    Case("fib", fib, plain_fib, (np.int32([10, 1, 15]),)),
    Case("binomial", binomial, plain_binomial, (np.int32([7, 3, 10]), np.int32([3, 3, 5]))),
    Case("catalan", catalan, plain_catalan, (np.int32([5, 0, 8]),)),
    Case(
        "common subsequence",
        common,
        plain_common,
        (_ints(3, [3, 6]), _ints(3, [3, 7]), np.int32([6, 3, 5]), np.int32([7, 6, 0])),
    ),
    Case(
        "edit distance",
        distance,
        plain_distance,
        (
            _ints(3, [2, 4]),
            _ints(3, [2, 5]),
            _RANDOM.uniform(0.2, 2.0, [2, 3, 3]),
            np.int32([4, 3]),
            np.int32([5, 4]),
        ),
    ),
    Case(
        "matrix chain",
        matrix_chain,
        plain_matrix_chain,
        (
            np.float64([[30, 35, 15, 5, 10, 20, 25], [3, 5, 7, 4, 2, 6, 1]]),
            np.int32([0, 1]),
            np.int32([6, 5]),
        ),
    ),
    Case(
        "hidden Markov",
        hidden_markov,
        plain_hidden_markov,
        (_RANDOM.normal(size=[2, 5, 3]), np.int32([4, 2])),
    ),
    Case(
        "inside",
        inside,
        plain_inside,
        (_RANDOM.normal(size=[2, 5, 2]), np.int32([0, 1]), np.int32([5, 4])),
    ),
    Case(
        "knapsack",
        knapsack,
        plain_knapsack,
        (
            1 + _ints(4, [2, 5]),
            _RANDOM.uniform(1, 9, [2, 5]),
            np.int32([5, 4]),
            np.int32([9, 6]),
        ),
    ),
    Case(
        "grid paths",
        paths,
        plain_paths,
        (_RANDOM.uniform(0, 1, [2, 4, 4]), np.int32([3, 2]), np.int32([3, 3])),
    ),
]
