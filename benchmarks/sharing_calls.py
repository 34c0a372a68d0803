"""How many calls programs of dynamic programming make, with and without `memo=True`."""

import functools

import numpy as np
import tensorflow as tf

import kerasrec
from benchmarks.sharing_cases import Edits, Inside
from benchmarks.sharing_programs import make_distance, make_inside

TOLERANCE = 1e-5


@kerasrec.recursive(memo=True)
def fib(n):
    return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))


@kerasrec.recursive(memo=True)
def binomial(n, k):
    def inner():
        return binomial(n - 1, k - 1) + binomial(n - 1, k)

    return kerasrec.cond((k == 0) | (k == n), lambda: tf.ones_like(n), inner)


@kerasrec.recursive(memo=True)
def diamond(height):
    """The number of paths in a graph where the node at each height has two edges to the next."""
    return kerasrec.cond(
        height == 0,
        lambda: tf.ones_like(height),
        lambda: diamond(height - 1) + diamond(height - 1),
    )


def plain_fib(find, n):
    return n if n < 2 else find(n - 1) + find(n - 2)


def plain_binomial(find, n, k):
    return 1 if k in (0, n) else find(n - 1, k - 1) + find(n - 1, k)


def plain_diamond(find, height):
    return find(height - 1) + find(height - 1) if height else 1


def plain_distance(a, b, find, i, j):
    if i == 0 or j == 0:
        return i + j
    replaced = find(i - 1, j - 1) + (a[i - 1] != b[j - 1])
    return min(replaced, find(i - 1, j) + 1, find(i, j - 1) + 1)


def plain_inside(words, rules, find, i, j):
    num_symbols = 2 * len(rules)
    if j - i < 2:
        return np.pad(words[i], [num_symbols - words.shape[1], 0], constant_values=-np.inf)
    pairs = [np.add.outer(find(i, k), find(k, j)).ravel() for k in range(i + 1, j)]
    sums = np.logaddexp.reduce(rules[:, np.newaxis] + pairs, axis=(1, 2))
    return np.pad(sums, [0, num_symbols - len(rules)], constant_values=-np.inf)


def rows():
    """The calls of each program: kerasrec's, those of `functools.cache`, and those of neither."""
    return [_row(*program) for program in _programs()]


def _row(title, function, plain, tables, key):
    arguments = [*(table[np.newaxis] for table in tables), *(number[np.newaxis] for number in key)]
    cached, every = counted(plain)
    (found,) = function(*arguments).numpy()
    correct = cached(*key)
    is_there = np.isfinite(correct)
    if not np.allclose(found[is_there], correct[is_there], rtol=TOLERANCE, atol=0):
        raise ValueError(f"kerasrec returns {found} for {title}; expected {correct}.")
    return {
        "program": title,
        "memo": sum(function.run_trace(*arguments).calls.values()),
        "cache": cached.cache_info().misses,
        "every": every(*key),
    }


def _programs():
    """Titles, the same program twice, the tables that it reads, and the integers it begins with."""
    edits, inside = Edits(batch=1, length=20), Inside(batch=1, length=10, symbols=3)
    strings, weights = edits.strings[:, 0], inside.weights(None)
    words, rules = weights["words"][0], weights["rules"]
    yield "fib(90)", fib, plain_fib, [], np.int64([90])
    yield "binomial(30, 15)", binomial, plain_binomial, [], np.int32([30, 15])
    yield "diamond of height 12", diamond, plain_diamond, [], np.int32([12])
    plain = functools.partial(plain_distance, *strings)
    yield "edit distance, 20 letters", make_distance("waves"), plain, strings, np.int32([20, 20])
    plain = functools.partial(plain_inside, words, rules.astype(float))
    yield "inside, 10 words", make_inside(tf.constant(rules)), plain, [words], np.int32([0, 10])


def counted(plain):
    """The program with a cache, and a counter of the calls that it would make without one."""

    @functools.cache
    def cached(*key):
        return np.asarray(plain(cached, *map(int, key)))

    @functools.cache
    def every(*key):
        called = []
        plain(lambda *other: called.append(other) or cached(*other), *map(int, key))
        return 1 + sum(every(*other) for other in called)

    return cached, every
