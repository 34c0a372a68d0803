"""Programs in which results decide which calls are made, and the same in plain Python.

Steps of loops do not count as calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import kerasrec
from tests.memo.cases import at

_RANDOM = np.random.default_rng(1)
_FLOAT = tf.TensorSpec([], tf.float64)


@dataclass(frozen=True)
class Rounds:
    """A program.

    Args:
        function: a recursive function with `memo=True`.
        plain: the same for the integers and floats of one root token; functions in it are `cached`.
        arguments: of several root tokens, `[roots, ...]` each; the floats first.
    """

    function: kerasrec.RecursiveFunction
    plain: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]

    @property
    def name(self) -> str:
        return self.function.name

    def expected(self, arguments: tuple[np.ndarray, ...]) -> tuple[np.ndarray, int]:
        """The values of some root tokens by plain Python, and how many calls it makes."""
        values, calls = [], 0
        for given in zip(*arguments, strict=True):
            _MADE.clear()
            floats = [item for item in given if np.ndim(item)]
            find = self.plain(*floats)
            values.append(find(*(int(item) for item in given if not np.ndim(item))))
            calls += sum(function.cache_info().misses for function in _MADE)
        return np.array(values), calls


_MADE: list[Any] = []


def cached(function):
    """A function that returns what an equal call has returned; its calls are counted."""
    _MADE.append(functools.cache(function))
    return _MADE[-1]


@kerasrec.recursive(memo=True)
def hofstadter_g(n):
    return kerasrec.cond(n < 1, lambda: n, lambda: n - hofstadter_g(hofstadter_g(n - 1)))


def plain_hofstadter_g():
    @cached
    def find(n):
        return n if n < 1 else n - find(find(n - 1))

    return find


@kerasrec.recursive(memo=True)
def hofstadter_h(n):
    def inside():
        return n - hofstadter_h(hofstadter_h(hofstadter_h(n - 1)))

    return kerasrec.cond(n < 1, lambda: n, inside)


def plain_hofstadter_h():
    @cached
    def find(n):
        return n if n < 1 else n - find(find(find(n - 1)))

    return find


@kerasrec.recursive(memo=True)
def hofstadter_q(n):
    def inside():
        return hofstadter_q(n - hofstadter_q(n - 1)) + hofstadter_q(n - hofstadter_q(n - 2))

    return kerasrec.cond(n < 3, lambda: tf.ones_like(n), inside)


def plain_hofstadter_q():
    @cached
    def find(n):
        return 1 if n < 3 else find(n - find(n - 1)) + find(n - find(n - 2))

    return find


@kerasrec.recursive(memo=True)
def female(n):
    return kerasrec.cond(n < 1, lambda: tf.ones_like(n), lambda: n - male(female(n - 1)))


@kerasrec.recursive(memo=True)
def male(n):
    return kerasrec.cond(n < 1, lambda: tf.zeros_like(n), lambda: n - female(male(n - 1)))


def plain_female():
    @cached
    def female(n):
        return n - male(female(n - 1)) if n else 1

    @cached
    def male(n):
        return n - female(male(n - 1)) if n else 0

    return female


@kerasrec.recursive(memo=True)
def mccarthy(n):
    return kerasrec.cond(n > 100, lambda: n - 10, lambda: mccarthy(mccarthy(n + 11)))


def plain_mccarthy():
    @cached
    def find(n):
        return n - 10 if n > 100 else find(find(n + 11))

    return find


@kerasrec.recursive(memo=True)
def tak(x, y, z):
    def inside():
        return tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y))

    return kerasrec.cond(y >= x, lambda: z, inside)


def plain_tak():
    @cached
    def find(x, y, z):
        if y >= x:
            return z
        return find(find(x - 1, y, z), find(y - 1, z, x), find(z - 1, x, y))

    return find


@kerasrec.recursive(memo=True)
def catalan_by_loop(n):
    """How many binary trees have n inner nodes."""

    def add(left, total):
        return left + 1, total + catalan_by_loop(left) * catalan_by_loop(n - 1 - left)

    def sum_over_left():
        return kerasrec.while_loop(lambda left, _: left < n, add, (0, 0))[1]

    return kerasrec.cond(n < 1, lambda: 1, sum_over_left)


def plain_catalan_by_loop():
    @cached
    def find(n):
        return sum(find(left) * find(n - 1 - left) for left in range(n)) if n else 1

    return find


@kerasrec.recursive(memo=True)
def weight(x, n):
    """Integers that are returned decide which floats are multiplied."""

    def inside():
        left = weight(x, n - hofstadter_q(n - 1))
        right = weight(x, n - hofstadter_q(n - 2))
        return tf.tanh(left) * at(x, n % 4) + right * right

    return kerasrec.cond(n < 3, lambda: at(x, n), inside)


def plain_weight(x):
    sequence = plain_hofstadter_q()

    @cached
    def find(n):
        if n < 3:
            return x[n]
        left, right = find(n - sequence(n - 1)), find(n - sequence(n - 2))
        return np.tanh(left) * x[n % 4] + right * right

    return find


@kerasrec.recursive(memo=True)
def float_decides(x, n):
    """A float that is returned decides which call is made."""

    def inside():
        before = float_decides(x, n - 1)
        more = kerasrec.cond(
            before > 0.3,
            lambda: float_decides(x, n - 2) * float_decides(x, n - 3),
            lambda: float_decides(x, n - 3) + 0.7,
        )
        return tf.sin(before) * at(x, n % 4) + more

    return kerasrec.cond(n < 3, lambda: at(x, tf.maximum(n, 0)), inside)


def plain_float_decides(x):
    @cached
    def find(n):
        if n < 3:
            return x[max(n, 0)]
        before = find(n - 1)
        more = find(n - 2) * find(n - 3) if before > 0.3 else find(n - 3) + 0.7
        return np.sin(before) * x[n % 4] + more

    return find


@kerasrec.recursive(memo=True)
def rows_of_result(x, n):
    """A result decides for how many entries of a row calls are made."""

    def inside():
        rows = tf.ragged.range(hofstadter_q(n))
        below = kerasrec.map_fn(lambda k: rows_of_result(x, k) * at(x, k % 4), rows)
        return tf.sin(tf.reduce_sum(below, axis=1)) + at(x, n % 4)

    return kerasrec.cond(n < 3, lambda: at(x, n), inside)


def plain_rows_of_result(x):
    sequence = plain_hofstadter_q()

    @cached
    def find(n):
        if n < 3:
            return x[n]
        return np.sin(sum(find(k) * x[k % 4] for k in range(sequence(n)))) + x[n % 4]

    return find


@kerasrec.recursive(memo=True)
def chart_by_loop(x, i, j):
    """The weight of all binary trees over words i .. j - 1, as a loop over the places to split."""

    def split():
        def add(k, total):
            return k + 1, total * 0.9 + chart_by_loop(x, i, k) * chart_by_loop(x, k, j)

        zero = tf.zeros_like(i, tf.float64)
        return kerasrec.while_loop(lambda k, _: k < j, add, (i + 1, zero))[1]

    below = kerasrec.cond(j - i < 2, lambda: at(x, i % 4), split)
    return tf.tanh(below) * at(x, j % 4)


def plain_chart_by_loop(x):
    @cached
    def find(i, j):
        found, total = x[i % 4], 0.0
        for k in range(i + 1, j):
            total = total * 0.9 + find(i, k) * find(k, j)
        return np.tanh(total if j - i > 1 else found) * x[j % 4]

    return find


@kerasrec.recursive(memo=True)
def grows_in_a_loop(x, n):
    """A loop of vectors without a call, whose result decides which calls are made."""
    first = (tf.zeros_like(n), tf.gather(x, [0, 1], axis=1))
    _, grown = kerasrec.while_loop(lambda k, _: k < n % 3, lambda k, y: (k + 1, y * 1.5), first)
    left, right = tf.unstack(grown, axis=1)

    def below():
        step = kerasrec.cond(left > right, lambda: 1, lambda: 2)
        return grows_in_a_loop(x, n - step) * left + grows_in_a_loop(x, n - 2)

    return kerasrec.cond(n < 1, lambda: right, below)


def plain_grows_in_a_loop(x):
    @cached
    def find(n):
        left, right = x[:2] * 1.5 ** (n % 3)
        return find(n - (1 if left > right else 2)) * left + find(n - 2) if n > 0 else right

    return find


_X = _RANDOM.uniform(0.3, 1.2, [3, 4])
_N = np.int32([9, 2, 12])
ROUNDS = [
    Rounds(hofstadter_g, plain_hofstadter_g, (np.int32([20, 0, 33, 20]),)),
    Rounds(hofstadter_h, plain_hofstadter_h, (np.int32([15, 25]),)),
    Rounds(hofstadter_q, plain_hofstadter_q, (np.int32([30, 7, 1]),)),
    Rounds(female, plain_female, (np.int32([12, 21]),)),
    Rounds(mccarthy, plain_mccarthy, (np.int32([99, 42, 120]),)),
    Rounds(tak, plain_tak, (np.int32([6, 12]), np.int32([4, 8]), np.int32([2, 4]))),
    Rounds(catalan_by_loop, plain_catalan_by_loop, (np.int32([8, 0, 10]),)),
    Rounds(weight, plain_weight, (_X, _N)),
    Rounds(float_decides, plain_float_decides, (_X, _N)),
    Rounds(rows_of_result, plain_rows_of_result, (_X, _N)),
    Rounds(chart_by_loop, plain_chart_by_loop, (_X, np.int32([0, 1, 2]), np.int32([6, 2, 8]))),
    Rounds(grows_in_a_loop, plain_grows_in_a_loop, (_X, np.int32([7, 0, 6]))),
]
