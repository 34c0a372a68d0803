"""The one list of recursive programs that every stage is tested with.

Each program stands here twice: for kerasrec, and in plain Python, as a recursion over one token
with Python's own `if`. The two share nothing but the variables and tensors they close over.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of


@dataclass(frozen=True, eq=False)
class Program:
    """A program and what to run it on.

    Args:
        name: for the test's id.
        function: for kerasrec.
        plain: the same for one token: Python ints for integer scalars, otherwise tensors.
        inputs: the arguments, `[tokens, ...]` each.
        sources: variables and tensors it closes over that have a gradient.
        has_gradient: whether there is anything to differentiate.
        is_smooth: whether finite differences can be taken; its dtype is then float64.
        plain_tables: for one token, the tables that it collects.
        is_deep: too deep for one token at a time.
        num_rounds: how often a body calls in a row, each time with the result of the last call.
        reads_made: whether it reads values of data types that it has made.
    """

    name: str
    function: kerasrec.RecursiveFunction
    plain: Callable
    inputs: tuple
    sources: tuple = ()
    has_gradient: bool = False
    is_smooth: bool = False
    plain_tables: Callable[..., dict] | None = None
    is_deep: bool = False
    num_rounds: int = 1
    reads_made: bool = False

    @property
    def flat_inputs(self) -> list[np.ndarray]:
        return tf.nest.flatten(self.inputs)

    @property
    def num_tokens(self) -> int:
        return len(self.flat_inputs[0])


PROGRAMS: list[Program] = []


def add(function: kerasrec.RecursiveFunction, plain: Callable, *inputs: Any, **options: Any):
    name = options.pop("name", function.__name__)
    PROGRAMS.append(Program(name, function, plain, inputs, **options))


def smooth(function: kerasrec.RecursiveFunction, plain: Callable, *inputs: Any, **options: Any):
    add(function, plain, *inputs, has_gradient=True, is_smooth=True, **options)


def values_of(kind, objects):
    """Objects of a data type as an argument, without a trace, as tests are still collected."""
    tf.config.run_functions_eagerly(True)
    values = kerasrec.Schema(kind).of(objects)
    tf.config.run_functions_eagerly(False)
    return values


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def f64(*values: Any) -> np.ndarray:
    return np.array(values, np.float64)


def some(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.8, 0.8, shape).astype(dtype)


# Integers.


@kerasrec.recursive
def factorial(n):
    return kerasrec.cond(n < 2, lambda: 1, lambda: n * factorial(n - 1))


def plain_factorial(n):
    return 1 if n < 2 else n * plain_factorial(n - 1)


add(factorial, plain_factorial, i32(0, 1, 5, 7))


@kerasrec.recursive
def fib(n):
    return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))


def plain_fib(n):
    return n if n < 2 else plain_fib(n - 1) + plain_fib(n - 2)


add(fib, plain_fib, i32(5, 0, 7, 6))
add(fib, plain_fib, i32(0, 1), name="fib_zero_calls")


@kerasrec.recursive
def is_even(n):
    return kerasrec.cond(n == 0, lambda: True, lambda: is_odd(n - 1))


@kerasrec.recursive
def is_odd(n):
    return kerasrec.cond(n == 0, lambda: False, lambda: is_even(n - 1))


def plain_is_even(n):
    return True if n == 0 else plain_is_odd(n - 1)


def plain_is_odd(n):
    return False if n == 0 else plain_is_even(n - 1)


add(is_even, plain_is_even, i32(0, 1, 6, 9))


@kerasrec.recursive
def ackermann(m, n):
    return kerasrec.cond(
        m == 0,
        lambda: n + 1,
        lambda: kerasrec.cond(
            n == 0,
            lambda: ackermann(m - 1, 1),
            lambda: ackermann(m - 1, ackermann(m, n - 1)),
        ),
    )


def plain_ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return plain_ackermann(m - 1, 1)
    return plain_ackermann(m - 1, plain_ackermann(m, n - 1))


add(ackermann, plain_ackermann, i32(0, 1, 2, 2), i32(3, 2, 2, 1), num_rounds=2)


@kerasrec.recursive
def takeuchi(x, y, z):
    return kerasrec.cond(
        y < x,
        lambda: takeuchi(takeuchi(x - 1, y, z), takeuchi(y - 1, z, x), takeuchi(z - 1, x, y)),
        lambda: z,
    )


def plain_takeuchi(x, y, z):
    if y < x:
        return plain_takeuchi(
            plain_takeuchi(x - 1, y, z),
            plain_takeuchi(y - 1, z, x),
            plain_takeuchi(z - 1, x, y),
        )
    return z


add(takeuchi, plain_takeuchi, i32(5, 1, 4), i32(3, 2, 2), i32(1, 3, 0), num_rounds=2)


@kerasrec.recursive
def mccarthy_91(n):
    return kerasrec.cond(n > 100, lambda: n - 10, lambda: mccarthy_91(mccarthy_91(n + 11)))


def plain_mccarthy_91(n):
    return n - 10 if n > 100 else plain_mccarthy_91(plain_mccarthy_91(n + 11))


add(mccarthy_91, plain_mccarthy_91, i32(95, 101, 111), num_rounds=2)


@kerasrec.recursive
def gcd(a, b):
    return kerasrec.cond(b == 0, lambda: a, lambda: gcd(b, a % b))


def plain_gcd(a, b):
    return a if b == 0 else plain_gcd(b, a % b)


add(gcd, plain_gcd, np.array([12, 7, 100]), np.array([18, 0, 75]))


@kerasrec.recursive
def fib_of_next(n):
    return 2 * fib(n) + fib(n + 1)


add(fib_of_next, lambda n: 2 * plain_fib(n) + plain_fib(n + 1), i32(3, 0, 5))


@kerasrec.recursive
def down(n):
    return kerasrec.cond(n > 5, lambda: back(n - 3), lambda: back(n - 1) * 2)


@kerasrec.recursive
def back(n):
    return kerasrec.cond(n <= 0, lambda: 1, lambda: down(n - 1) + n)


def plain_down(n):
    return plain_back(n - 3) if n > 5 else plain_back(n - 1) * 2


def plain_back(n):
    return 1 if n <= 0 else plain_down(n - 1) + n


add(down, plain_down, i32(0, 3, 9), name="calls_in_both_branches")


@kerasrec.recursive
def stern(n):
    """Two callees, one of which calls this one twice in each other's arguments."""
    return kerasrec.cond(n < 2, lambda: n, lambda: hofstadter(n) - 1)


@kerasrec.recursive
def hofstadter(n):
    return kerasrec.cond(n < 1, lambda: 1, lambda: n - stern(hofstadter(n - 1)))


def plain_stern(n):
    return n if n < 2 else plain_hofstadter(n) - 1


def plain_hofstadter(n):
    return 1 if n < 1 else n - plain_stern(plain_hofstadter(n - 1))


add(stern, plain_stern, i32(1, 4, 6), name="mutual_in_arguments", num_rounds=2)

# Floats.


@kerasrec.recursive
def power(x, n):
    return kerasrec.cond(n < 1, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))


def plain_power(x, n):
    return 1.0 if n < 1 else x * plain_power(x, n - 1)


smooth(power, plain_power, f64(2.0, 1.5, -3.0), i32(3, 0, 2))
add(
    power,
    plain_power,
    f32(2.0, 1.5, -3.0),
    i32(3, 0, 2),
    name="power_f32",
    has_gradient=True,
)


@kerasrec.recursive
def square(x):
    return x * x


smooth(square, lambda x: x * x, f64(0.5, -2.0), name="no_call_at_all")


@kerasrec.recursive
def first(x, n):
    return kerasrec.cond(n == 0, lambda: x, lambda: second(tf.sin(x), n - 1))


@kerasrec.recursive
def second(x, n):
    return kerasrec.cond(n == 0, lambda: x + 1.0, lambda: third(x * x, n - 1))


@kerasrec.recursive
def third(x, n):
    return kerasrec.cond(n == 0, lambda: -x, lambda: 2.0 * first(x / 2.0, n - 1))


def plain_first(x, n):
    return x if n == 0 else plain_second(tf.sin(x), n - 1)


def plain_second(x, n):
    return x + 1.0 if n == 0 else plain_third(x * x, n - 1)


def plain_third(x, n):
    return -x if n == 0 else 2.0 * plain_first(x / 2.0, n - 1)


smooth(first, plain_first, f64(0.3, 0.5, 0.7, 0.9), i32(0, 4, 2, 7), name="three_mutual")


@kerasrec.recursive
def fast_power(x, n):
    return kerasrec.cond(
        n == 0,
        lambda: tf.ones_like(x),
        lambda: kerasrec.cond(
            n % 2 == 0,
            lambda: tf.square(fast_power(x, n // 2)),
            lambda: x * fast_power(x, n - 1),
        ),
    )


def plain_fast_power(x, n):
    if n == 0:
        return tf.ones_like(x)
    if n % 2 == 0:
        return tf.square(plain_fast_power(x, n // 2))
    return x * plain_fast_power(x, n - 1)


smooth(fast_power, plain_fast_power, some(3, 2), i32(5, 0, 6), name="nested_cond")


@kerasrec.recursive
def either(x, n):
    return kerasrec.cond(x > 0.0, lambda: lower(x, n), lambda: higher(x, n) * 1.5)


@kerasrec.recursive
def lower(x, n):
    return kerasrec.cond(n == 0, lambda: x * x, lambda: either(x - 0.4, n - 1))


@kerasrec.recursive
def higher(x, n):
    return kerasrec.cond(n == 0, lambda: tf.exp(x), lambda: either(x + 0.7, n - 1) + x)


def plain_either(x, n):
    return plain_lower(x, n) if x > 0.0 else plain_higher(x, n) * 1.5


def plain_lower(x, n):
    return x * x if n == 0 else plain_either(x - 0.4, n - 1)


def plain_higher(x, n):
    return tf.exp(x) if n == 0 else plain_either(x + 0.7, n - 1) + x


smooth(either, plain_either, f64(0.53, -0.21, 0.12), i32(4, 3, 0), name="either_callee")


@kerasrec.recursive
def halve(x):
    return kerasrec.cond(x < 1.0, lambda: x, lambda: halve(x / 2.0) + tf.sin(x))


@kerasrec.recursive
def left_user(x):
    return halve(x) * x


@kerasrec.recursive
def right_user(x):
    return halve(x + 1.0) - halve(2.0 * x)


@kerasrec.recursive
def both_users(x):
    return left_user(x) + right_user(x)


def plain_halve(x):
    return x if x < 1.0 else plain_halve(x / 2.0) + tf.sin(x)


def plain_both_users(x):
    return plain_halve(x) * x + plain_halve(x + 1.0) - plain_halve(2.0 * x)


smooth(both_users, plain_both_users, f64(0.3, 5.1, 2.2), name="used_by_two")


@kerasrec.recursive
def halved(x, n):
    return kerasrec.cond(n < 1, lambda: x, lambda: 0.5 * halved(x, n - 1))


@kerasrec.recursive
def sum_of_halved(x, n):
    """Calls two functions in one round, which come to an end at different depths."""
    return kerasrec.cond(n < 1, lambda: x, lambda: halved(x, n) + sum_of_halved(x, n - 1))


def plain_sum_of_halved(x, n):
    return x if n < 1 else 0.5**n * x + plain_sum_of_halved(x, n - 1)


smooth(sum_of_halved, plain_sum_of_halved, f64(1.5, -0.5, 2.0), i32(2, 0, 3))


@kerasrec.recursive
def call_in_argument(x, n):
    return kerasrec.cond(
        n == 0,
        lambda: tf.sin(x),
        lambda: call_in_argument(call_in_argument(x, n - 1) * 0.9 + x, n - 1),
    )


def plain_call_in_argument(x, n):
    if n == 0:
        return tf.sin(x)
    return plain_call_in_argument(plain_call_in_argument(x, n - 1) * 0.9 + x, n - 1)


smooth(call_in_argument, plain_call_in_argument, f64(0.3, 0.8, -0.4), i32(2, 0, 3), num_rounds=2)


@kerasrec.recursive
def decides_as_it_runs(x, n):
    """Whether it calls again depends on the result of the first call."""

    def inner():
        seen = decides_as_it_runs(tf.sin(x), n - 1)
        return kerasrec.cond(
            seen > 0.4,
            lambda: decides_as_it_runs(seen * x, n - 2) + x,
            lambda: seen * 2.0,
        )

    return kerasrec.cond(n <= 0, lambda: x, inner)


def plain_decides_as_it_runs(x, n):
    if n <= 0:
        return x
    seen = plain_decides_as_it_runs(tf.sin(x), n - 1)
    return plain_decides_as_it_runs(seen * x, n - 2) + x if seen > 0.4 else seen * 2.0


smooth(decides_as_it_runs, plain_decides_as_it_runs, f64(0.9, 0.2, 1.3), i32(3, 4, 2), num_rounds=2)


@kerasrec.recursive
def never_chosen(x, n):
    return kerasrec.cond(
        n < -1,
        lambda: never_chosen(x * x, n - 1) + x,
        lambda: kerasrec.cond(n == 0, lambda: x, lambda: never_chosen(tf.tanh(x), n - 1)),
    )


def plain_never_chosen(x, n):
    return x if n == 0 else plain_never_chosen(tf.tanh(x), n - 1)


smooth(never_chosen, plain_never_chosen, f64(0.9, 0.2), i32(3, 1), name="branch_without_tokens")


@kerasrec.recursive
def three_ways(x, n):
    return kerasrec.switch(
        n,
        [
            lambda: x,
            lambda: tf.sin(three_ways(x, n - 1)),
            lambda: x * three_ways(x + 0.1, tf.where(n > 0, n - 2, n + 7)),
        ],
    )


def plain_three_ways(x, n):
    if n == 0:
        return x
    if n == 1:
        return tf.sin(plain_three_ways(x, 0))
    return x * plain_three_ways(x + 0.1, n - 2 if n > 0 else n + 7)


smooth(three_ways, plain_three_ways, f64(0.4, 0.5, 0.6, 0.7, 0.8), i32(0, 1, 2, 5, -3))

KERNELS = tf.Variable(some(4, 2, 2, seed=14), name="kernels")


@kerasrec.recursive
def many_ways(x, n):
    """A kernel of a stack for each way, read before and after a call; one kernel is unread."""

    def by(kernel):
        def inner():
            before = tf.tanh(x @ kernel)
            return before * many_ways(before + 0.1, n // 2) @ kernel

        return inner

    one, *others, _ = map(by, tf.unstack(KERNELS))
    return kerasrec.switch(n % 5, [lambda: x, one, *others, lambda: tf.sin(x)])


def plain_many_ways(x, n):
    way = n % 5
    if way in (0, 4):
        return tf.sin(x) if way else x
    kernel = KERNELS[way - 1]
    before = tf.tanh(tf.linalg.matvec(kernel, x, transpose_a=True))
    after = before * plain_many_ways(before + 0.1, n // 2)
    return tf.linalg.matvec(kernel, after, transpose_a=True)


smooth(many_ways, plain_many_ways, some(5, 2, seed=15), i32(13, 7, 5, 6, 4), sources=(KERNELS,))


@kerasrec.recursive
def statistics(x, n):
    def inner():
        rest = statistics(tf.cos(x), n - 1)
        low, high = rest["range"]
        return {
            "count": rest["count"] + 1,
            "range": (tf.minimum(low, x), tf.maximum(high, x)),
            "sum": rest["sum"] + x * rest["product"],
            "product": rest["product"] * x,
        }

    return kerasrec.cond(
        n == 0, lambda: {"count": 0, "range": (x, x), "sum": x, "product": x + 1.0}, inner
    )


def plain_statistics(x, n):
    if n == 0:
        return {"count": 0, "range": (x, x), "sum": x, "product": x + 1.0}
    rest = plain_statistics(tf.cos(x), n - 1)
    low, high = rest["range"]
    return {
        "count": rest["count"] + 1,
        "range": (tf.minimum(low, x), tf.maximum(high, x)),
        "sum": rest["sum"] + x * rest["product"],
        "product": rest["product"] * x,
    }


smooth(statistics, plain_statistics, f64(0.4, 0.9, 1.3), i32(0, 3, 2), name="several_outputs")


@kerasrec.recursive
def nest(state, n):
    left, right = state["pair"]
    return kerasrec.cond(
        n == 0,
        lambda: left * state["scale"],
        lambda: nest({"pair": (right, left + right), "scale": state["scale"] * 0.5}, n - 1),
    )


def plain_nest(state, n):
    left, right = state["pair"]
    if n == 0:
        return left * state["scale"]
    return plain_nest({"pair": (right, left + right), "scale": state["scale"] * 0.5}, n - 1)


smooth(
    nest,
    plain_nest,
    {"pair": (some(3, seed=1), some(3, seed=2)), "scale": some(3, seed=3)},
    i32(4, 0, 2),
    name="nested_arguments",
)


@kerasrec.recursive
def ignores(x, y, n):
    """`y` is handed on and never read; `x` is not differentiated below the root."""
    return kerasrec.cond(
        n == 0, lambda: tf.stop_gradient(x), lambda: x * ignores(x, y * 2.0, n - 1)
    )


def plain_ignores(x, y, n):
    return tf.stop_gradient(x) if n == 0 else x * plain_ignores(x, y * 2.0, n - 1)


add(ignores, plain_ignores, f64(0.4, 2.0), f64(1.0, 2.0), i32(2, 1), has_gradient=True)


@kerasrec.recursive
def matrices(x, n):
    """Shapes with more axes, and one that is read from the tensor."""

    def inner():
        below = matrices(tf.matmul(x, x, transpose_b=True), n - 1)
        return below + tf.reduce_mean(x, axis=-1, keepdims=True)

    return kerasrec.cond(
        n == 0,
        lambda: tf.nn.softmax(x) + tf.zeros([tf.shape(x)[0], 2, 1], x.dtype),
        inner,
    )


def plain_matrices(x, n):
    if n == 0:
        return tf.nn.softmax(x)
    below = plain_matrices(x @ tf.transpose(x), n - 1)
    return below + tf.reduce_mean(x, axis=-1, keepdims=True)


smooth(matrices, plain_matrices, some(3, 2, 2), i32(0, 2, 1))


@kerasrec.recursive
def chain(x, n):
    return kerasrec.cond(n == 0, lambda: x, lambda: 1.0 + 0.999 * chain(x, n - 1))


def plain_chain(x, n):
    factor = 0.999**n
    return factor * x + (1.0 - factor) / (1.0 - 0.999)


add(chain, plain_chain, f64(0.5, 3.0), i32(10_000, 17), has_gradient=True, is_deep=True)

# Trees and what is closed over: nodes 0 and 7 are roots; -1 stands for no child.

CHILDREN = i32([1, 2], [3, 4], [-1, -1], [-1, -1], [5, 6], [-1, -1], [-1, -1], [-1, -1])
WORDS = i32(0, 0, 1, 2, 0, 3, 1, 2)
NODE_VALUES = tf.constant(some(8, seed=4))


@kerasrec.recursive
def tree_sum(node):
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)
    return tf.gather(NODE_VALUES, node) + kerasrec.cond(
        left < 0, lambda: tf.zeros([], tf.float64), lambda: tree_sum(left) * tree_sum(right)
    )


def plain_tree_sum(node):
    left, right = CHILDREN[node]
    below = 0.0 if left < 0 else plain_tree_sum(left) * plain_tree_sum(right)
    return NODE_VALUES[node] + below


add(tree_sum, plain_tree_sum, i32(0, 7, 1), sources=(NODE_VALUES,), has_gradient=True)

EMBEDDING = tf.Variable(some(4, 3, seed=5), name="embedding")
KERNEL = tf.Variable(some(6, 3, seed=6), name="kernel")
BIAS = tf.Variable(some(3, seed=7), name="bias")

GATES = tf.Variable(some(6, 9, seed=8))
GATES_BIAS = tf.Variable(some(9, seed=9))


@kerasrec.recursive
def tree_rnn(node):
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)

    def inner():
        return tf.tanh(tf.concat([tree_rnn(left), tree_rnn(right)], 1) @ KERNEL + BIAS)

    return kerasrec.cond(left < 0, lambda: tf.gather(EMBEDDING, tf.gather(WORDS, node)), inner)


def plain_tree_rnn(node):
    left, right = CHILDREN[node]
    if left < 0:
        return EMBEDDING[WORDS[node]]
    below = tf.concat([plain_tree_rnn(left), plain_tree_rnn(right)], 0)
    return tf.tanh(tf.linalg.matvec(KERNEL, below, transpose_a=True) + BIAS)


smooth(tree_rnn, plain_tree_rnn, i32(0, 7, 4), sources=(EMBEDDING, KERNEL, BIAS))


@kerasrec.recursive
def gated_tree(node):
    """Cuts one product into its gates, as the cells of an LSTM do."""
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)

    def inner():
        below = tf.concat([gated_tree(left), gated_tree(right)], 1)
        gates, update = tf.split(below @ GATES + GATES_BIAS, [6, 3], 1)
        keep, forget = tf.split(tf.sigmoid(gates), 2, 1)
        return keep * tf.tanh(update) + forget * below[:, :3]

    return kerasrec.cond(left < 0, lambda: tf.gather(EMBEDDING, tf.gather(WORDS, node)), inner)


def plain_gated_tree(node):
    left, right = CHILDREN[node]
    if left < 0:
        return EMBEDDING[WORDS[node]]
    below = tf.concat([plain_gated_tree(left), plain_gated_tree(right)], 0)
    total = tf.linalg.matvec(GATES, below, transpose_a=True) + GATES_BIAS
    keep, forget = tf.sigmoid(total[:3]), tf.sigmoid(total[3:6])
    return keep * tf.tanh(total[6:]) + forget * below[:3]


smooth(gated_tree, plain_gated_tree, i32(0, 7, 4), sources=(EMBEDDING, GATES, GATES_BIAS))


@kerasrec.recursive
def labels_all(node):
    """Keeps the state of every node in a table."""
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)
    state = kerasrec.cond(
        left < 0,
        lambda: tf.gather(EMBEDDING, tf.gather(WORDS, node)),
        lambda: tf.sin(labels_all(left)) * labels_all(right),
    )
    kerasrec.collect("states", state, node, len(CHILDREN))
    kerasrec.cond(left < 0, lambda: state[:, 0], lambda: _inner_too(state, node))
    return state


def _inner_too(state, node):
    kerasrec.collect("inner", state[:, :2] * 2.0, node, len(CHILDREN))
    return state[:, 0]


def plain_labels_all(node):
    left, right = CHILDREN[node]
    if left < 0:
        return EMBEDDING[WORDS[node]]
    return tf.sin(plain_labels_all(left)) * plain_labels_all(right)


def plain_labels_tables(node):
    left, right = CHILDREN[node]
    state = plain_labels_all(node)
    row = tf.one_hot(node, len(CHILDREN), dtype=state.dtype)[:, tf.newaxis]
    tables = {"states": row * state, "inner": row * (state[:2] * (0.0 if left < 0 else 2.0))}
    for child in (left, right):
        if child >= 0:
            below = plain_labels_tables(child)
            tables = {name: table + below[name] for name, table in tables.items()}
    return tables


smooth(
    labels_all,
    plain_labels_all,
    i32(0, 7),
    sources=(EMBEDDING,),
    plain_tables=plain_labels_tables,
    name="collect",
)


@kerasrec.recursive
def leaf_alone(node):
    """Calls nobody, but has all else: branches, a product in gates, tables, closed-over weights."""
    kind = (tf.gather(CHILDREN, node)[:, 0] + node) % 3

    def gated():
        row = tf.gather(EMBEDDING, tf.gather(WORDS, node) % 4)
        gates, update = tf.split(tf.concat([row, row], 1) @ GATES + GATES_BIAS, [6, 3], 1)
        keep, forget = tf.split(tf.sigmoid(gates), 2, 1)
        state = keep * tf.tanh(update) + forget * row
        kerasrec.collect("gated", state, node, len(CHILDREN))
        return state

    state = kerasrec.switch(kind, [gated, lambda: BIAS, lambda: tf.sin(BIAS)])
    kerasrec.collect("states", state[:, :2], node // 2, len(CHILDREN))
    return state


def plain_leaf_alone(node):
    kind = (CHILDREN[node][0] + node) % 3
    if kind:
        return BIAS if kind == 1 else tf.sin(BIAS)
    row = EMBEDDING[WORDS[node] % 4]
    total = tf.linalg.matvec(GATES, tf.concat([row, row], 0), transpose_a=True) + GATES_BIAS
    keep, forget = tf.sigmoid(total[:3]), tf.sigmoid(total[3:6])
    return keep * tf.tanh(total[6:]) + forget * row


def plain_leaf_alone_tables(node):
    state = plain_leaf_alone(node)
    rows = [tf.one_hot(place, len(CHILDREN), dtype=state.dtype) for place in (node, node // 2)]
    is_gated = 0.0 if (CHILDREN[node][0] + node) % 3 else 1.0
    return {
        "gated": rows[0][:, tf.newaxis] * state * is_gated,
        "states": rows[1][:, tf.newaxis] * state[:2],
    }


smooth(
    leaf_alone,
    plain_leaf_alone,
    i32(*range(8)),
    sources=(EMBEDDING, GATES, GATES_BIAS, BIAS),
    plain_tables=plain_leaf_alone_tables,
    name="no_call_but_all_else",
)

SCALE = tf.constant(0.7, tf.float64)
OFFSETS = tf.constant([0.1, -0.2], tf.float64)


@kerasrec.recursive
def collects_below_a_choice(x, n):
    """The call's result only decides; the values that it collects have a gradient all the same."""
    kerasrec.collect("seen", x * x, n, 4)
    return kerasrec.cond(
        n == 0,
        lambda: x,
        lambda: kerasrec.cond(
            collects_below_a_choice(tf.sin(x), n - 1) > 0.3, lambda: x, lambda: 2.0 * x
        ),
    )


def plain_collects_below_a_choice(x, n):
    if n == 0:
        return x
    return x if plain_collects_below_a_choice(tf.sin(x), n - 1) > 0.3 else 2.0 * x


def plain_collects_below_a_choice_tables(x, n):
    rows = [x * x * tf.one_hot(n, 4, dtype=x.dtype)]
    while n > 0:
        x, n = tf.sin(x), n - 1
        rows.append(x * x * tf.one_hot(n, 4, dtype=x.dtype))
    return {"seen": tf.add_n(rows)}


smooth(
    collects_below_a_choice,
    plain_collects_below_a_choice,
    f64(0.7, 0.2, 1.1),
    i32(3, 0, 2),
    plain_tables=plain_collects_below_a_choice_tables,
)


@kerasrec.recursive
def pair_below(x, y, n):
    """Calls in two rounds, and a call whose result is not read."""

    def inner():
        power(y, n)
        low, high = pair_below(x * 0.9, y + power(x, n), n - 1)
        again, _ = pair_below(low, y, n - 2)
        return tf.sin(low) + again, high * y

    return kerasrec.cond(n <= 0, lambda: (x, y), inner)


@kerasrec.recursive
def reads_the_first(x, y, n):
    """Nobody reads the second result, so neither `y` nor the powers are computed."""
    low, _ = pair_below(x, y, n)
    return low


def plain_pair_below(x, n):
    if n <= 0:
        return x
    low = plain_pair_below(x * 0.9, n - 1)
    return tf.sin(low) + plain_pair_below(low, n - 2)


smooth(
    reads_the_first,
    lambda x, y, n: plain_pair_below(x, n),
    f64(0.7, 0.2, 1.1),
    f64(0.3, 0.1, 0.2),
    i32(3, 0, 2),
    num_rounds=2,
)


@kerasrec.recursive
def table_alone(x, n):
    """It stays for collected values; none of its results is read."""
    kerasrec.collect("seen", x * x, n, 4)
    return kerasrec.cond(n == 0, lambda: x, lambda: table_alone(tf.sin(x), n - 1) * power(x, n))


@kerasrec.recursive
def reads_the_table(x, n):
    table_alone(x, n)
    return 2.0 * x


smooth(
    reads_the_table,
    lambda x, n: 2.0 * x,
    f64(0.7, 0.2, 1.1),
    i32(3, 0, 2),
    plain_tables=plain_collects_below_a_choice_tables,
)


@kerasrec.recursive
def keeps_integers(n):
    """Nobody reads what it returns, and no gradient enters it."""
    kerasrec.collect("integers", n, n, 4)
    return kerasrec.cond(n == 0, lambda: n, lambda: keeps_integers(n - 1) + fib(n))


@kerasrec.recursive
def keeps_in_rounds(n):
    keeps_integers(fib(n))
    return fib(fib(n))


add(
    keeps_in_rounds,
    lambda n: plain_fib(plain_fib(n)),
    i32(3, 1, 4),
    plain_tables=lambda n: {"integers": tf.constant(i32(*range(plain_fib(n) + 1), 0, 0, 0)[:4])},
    num_rounds=2,
)


@kerasrec.recursive
def captures(x, n):
    """Closes over tensors, one of them through an op that no token takes part in."""
    return kerasrec.cond(
        n == 0, lambda: OFFSETS, lambda: tf.exp(SCALE) * x + captures(tf.sin(x * SCALE), n - 1)
    )


def plain_captures(x, n):
    if n == 0:
        return OFFSETS
    return tf.exp(SCALE) * x + plain_captures(tf.sin(x * SCALE), n - 1)


smooth(captures, plain_captures, some(3, 2, seed=8), i32(0, 3, 1), sources=(SCALE, OFFSETS))


@kerasrec.recursive
def adds_twice(x, n):
    """Adds what it closes over twice in one sum, which TensorFlow rewrites wrongly in a loop."""
    return kerasrec.cond(n == 0, lambda: x, lambda: OFFSETS + (adds_twice(x, n - 1) + OFFSETS))


def plain_adds_twice(x, n):
    return x if n == 0 else x + 2 * n * OFFSETS


smooth(adds_twice, plain_adds_twice, some(3, 2, seed=8), i32(0, 3, 1), sources=(OFFSETS,))


@kerasrec.recursive
def nested(x, n):
    """Closes over what it computes for each of its tokens, also by way of `without`."""
    sine = tf.sin(x)
    scale = tf.exp(SCALE)

    @kerasrec.recursive
    def uses(m):
        return kerasrec.cond(m < 1, lambda: x * sine, lambda: without(m - 1) * sine * scale + x)

    @kerasrec.recursive
    def without(m):
        return kerasrec.cond(m < 1, lambda: uses(m), lambda: uses(m - 1) * 0.5)

    return kerasrec.cond(n < 1, lambda: x, lambda: nested(sine, n - 1) + uses(n))


def plain_nested(x, n):
    sine = tf.sin(x)

    def uses(m):
        return x * sine if m < 1 else without(m - 1) * sine * tf.exp(SCALE) + x

    def without(m):
        return uses(m) if m < 1 else uses(m - 1) * 0.5

    return x if n < 1 else plain_nested(sine, n - 1) + uses(n)


smooth(nested, plain_nested, f64(0.3, 0.8, -0.4, 0.5), i32(3, 0, 4, 1), sources=(SCALE,))


@kerasrec.recursive
def nested_in_branch(x, n):
    """Closes over tensors of a branch, calls the function around it, and calls twice in a row."""

    def inner():
        cosine = tf.cos(x)

        @kerasrec.recursive
        def walk(z, m):
            return kerasrec.cond(
                m < 1,
                lambda: nested_in_branch(z * cosine, n - 2),
                lambda: walk(walk(z + cosine, m - 2) * x, m - 2),
            )

        return walk(cosine, n)

    return kerasrec.cond(n < 1, lambda: x, inner)


def plain_nested_in_branch(x, n):
    if n < 1:
        return x
    cosine = tf.cos(x)

    def walk(z, m):
        if m < 1:
            return plain_nested_in_branch(z * cosine, n - 2)
        return walk(walk(z + cosine, m - 2) * x, m - 2)

    return walk(cosine, n)


smooth(nested_in_branch, plain_nested_in_branch, f64(0.3, 0.8, -0.4), i32(3, 0, 2), num_rounds=2)

# Several rounds: what waits for a return differs from token to token.


@kerasrec.recursive
def walk(node, h):
    """Hands a state over the leaves, from left to right."""
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)

    def leaf():
        x = tf.gather(EMBEDDING, tf.gather(WORDS, node))
        return tf.tanh(tf.concat([x, h], 1) @ KERNEL + BIAS)

    return kerasrec.cond(left < 0, leaf, lambda: walk(right, walk(left, h)))


def plain_walk(node, h):
    left, right = CHILDREN[node]
    if left < 0:
        below = tf.concat([EMBEDDING[WORDS[node]], h], 0)
        return tf.tanh(tf.linalg.matvec(KERNEL, below, transpose_a=True) + BIAS)
    return plain_walk(right, plain_walk(left, h))


smooth(
    walk,
    plain_walk,
    i32(0, 7, 1, 4),
    some(4, 3, seed=15),
    sources=(EMBEDDING, KERNEL, BIAS),
    num_rounds=2,
)


@kerasrec.recursive
def softened(x):
    return tf.sin(x) + 0.1


@kerasrec.recursive
def branches(x, n, kind):
    """Its branches have different numbers of rounds; the bits of `kind` choose between them."""
    return kerasrec.cond(
        n == 0,
        lambda: x,
        lambda: kerasrec.cond(
            kind % 2 == 1,
            lambda: 0.9 * branches(x, n - 1, kind // 2),
            lambda: branches(softened(x), n - 1, kind // 2) * x,
        ),
    )


def plain_branches(x, n, kind):
    if n == 0:
        return x
    if kind % 2 == 1:
        return 0.9 * plain_branches(x, n - 1, kind // 2)
    return plain_branches(tf.sin(x) + 0.1, n - 1, kind // 2) * x


smooth(
    branches,
    plain_branches,
    f64(0.3, 0.8, -0.4, 0.6, 0.5),
    i32(3, 2, 3, 0, 3),
    i32(0, 1, 5, 1, 7),
    num_rounds=2,
)


@kerasrec.recursive
def calls_self_first(x, n):
    return kerasrec.cond(
        n <= 0, lambda: x, lambda: calls_other_first(calls_self_first(0.9 * x, n - 2) + x, n - 1)
    )


@kerasrec.recursive
def calls_other_first(x, n):
    """Each of the two calls itself in the round in which the other calls the other."""
    return kerasrec.cond(
        n <= 0,
        lambda: tf.cos(x),
        lambda: 0.5 * calls_other_first(calls_self_first(tf.sin(x), n - 1) * x, n - 2),
    )


def plain_calls_self_first(x, n):
    if n <= 0:
        return x
    return plain_calls_other_first(plain_calls_self_first(0.9 * x, n - 2) + x, n - 1)


def plain_calls_other_first(x, n):
    if n <= 0:
        return tf.cos(x)
    return 0.5 * plain_calls_other_first(plain_calls_self_first(tf.sin(x), n - 1) * x, n - 2)


smooth(
    calls_self_first,
    plain_calls_self_first,
    f64(0.3, 0.8, -0.4, 0.5),
    i32(3, 0, 4, 1),
    name="mutual_in_rounds",
    num_rounds=2,
)


@kerasrec.recursive
def swapped(x, y, n):
    """Returns all that its last call returned and nothing else, but in another order."""

    def inner():
        low, high = swapped(tf.sin(x), y, n - 1)
        first, second = swapped(0.5 * high, low + x, n - 2)
        return second, first

    return kerasrec.cond(n <= 0, lambda: (x, x * y), inner)


def plain_swapped(x, y, n):
    if n <= 0:
        return x, x * y
    low, high = plain_swapped(tf.sin(x), y, n - 1)
    first, second = plain_swapped(0.5 * high, low + x, n - 2)
    return second, first


smooth(swapped, plain_swapped, f64(0.3, 0.8, -0.4), f64(0.7, 0.2, 0.5), i32(3, 0, 4), num_rounds=2)


@kerasrec.recursive
def collects_in_rounds(node, h):
    """Tables of each node's arguments and, in a branch, of the results of its first call."""
    left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)
    kerasrec.collect("given", h, node, len(CHILDREN))

    def inner():
        first = collects_in_rounds(left, tf.cos(h))
        kerasrec.collect("between", first * h, node, len(CHILDREN))
        return collects_in_rounds(right, first) + h

    return kerasrec.cond(left < 0, lambda: h * tf.gather(NODE_VALUES, node), inner)


def plain_collects_in_rounds(node, h):
    left, right = CHILDREN[node]
    if left < 0:
        return h * NODE_VALUES[node]
    return plain_collects_in_rounds(right, plain_collects_in_rounds(left, tf.cos(h))) + h


def plain_collects_in_rounds_tables(node, h):
    left, right = CHILDREN[node]
    row = tf.one_hot(node, len(CHILDREN), dtype=h.dtype)
    if left < 0:
        return {"given": row * h, "between": row * 0.0}
    first = plain_collects_in_rounds(left, tf.cos(h))
    tables = {"given": row * h, "between": row * first * h}
    for child, given in ((left, tf.cos(h)), (right, first)):
        below = plain_collects_in_rounds_tables(child, given)
        tables = {name: table + below[name] for name, table in tables.items()}
    return tables


smooth(
    collects_in_rounds,
    plain_collects_in_rounds,
    i32(0, 7, 1),
    f64(0.4, 0.9, -0.3),
    sources=(NODE_VALUES,),
    plain_tables=plain_collects_in_rounds_tables,
    num_rounds=2,
)

DENSE = keras.layers.Dense(3, activation="tanh", name="inside")
DENSE.build([None, 4])


@kerasrec.recursive
def dense_inside(x, n):
    def inner():
        return DENSE(tf.concat([dense_inside(x, n - 1), x[:, :1]], axis=1))

    return kerasrec.cond(n == 0, lambda: x, inner)


def plain_dense_inside(x, n):
    if n == 0:
        return x
    below = tf.concat([plain_dense_inside(x, n - 1), x[:1]], axis=0)
    return tf.tanh(tf.linalg.matvec(DENSE.kernel, below, transpose_a=True) + DENSE.bias)


add(
    dense_inside,
    plain_dense_inside,
    some(3, 3, seed=9, dtype="float32"),
    i32(2, 0, 1),
    sources=tuple(variable.value for variable in DENSE.weights),
    has_gradient=True,
)

# Rows of children: nodes 0 and 9 are roots; 1 has one child, 0 four; a leaf has none.

ROWS_OF_CHILDREN = [[1, 2, 3, 4], [5], [], [6, 7], [], [8, 4], [], [], [], [7, 2]]
CHILD_ROWS = tf.ragged.constant(ROWS_OF_CHILDREN, dtype=tf.int32)
ROW_VALUES = tf.constant(some(10, seed=10))


@kerasrec.recursive
def count_nodes(node):
    return 1 + tf.reduce_sum(count_nodes(tf.gather(CHILD_ROWS, node)), axis=1)


def plain_count_nodes(node):
    return 1 + sum(plain_count_nodes(child) for child in ROWS_OF_CHILDREN[node])


add(count_nodes, plain_count_nodes, i32(0, 9, 3))
add(count_nodes, plain_count_nodes, i32(7, 8), name="only_empty_rows")


@kerasrec.recursive
def ragged_sum(node):
    below = ragged_sum(tf.gather(CHILD_ROWS, node))
    return tf.gather(ROW_VALUES, node) + tf.reduce_sum(tf.sin(below) * 2.0, axis=1)


def plain_ragged_sum(node):
    below = [tf.sin(plain_ragged_sum(child)) * 2.0 for child in ROWS_OF_CHILDREN[node]]
    return tf.add_n([ROW_VALUES[node], *below])


add(ragged_sum, plain_ragged_sum, i32(0, 9, 3), sources=(ROW_VALUES,), has_gradient=True)

UNITS = 3
INPUTS = tf.Variable(some(10, UNITS, seed=11), name="inputs")
GATES = tf.Variable(some(2 * UNITS, 3 * UNITS, seed=12), name="gates")
FORGET = tf.Variable(some(2 * UNITS, UNITS, seed=13), name="forget")
STATE = (tf.TensorSpec([UNITS], tf.float64), tf.TensorSpec([UNITS], tf.float64))


@kerasrec.recursive(returns=STATE)
def child_sum(node):
    """Tai et al. 2015, section 3.1: a forget gate for each child."""
    x = tf.gather(INPUTS, node)
    h, c = child_sum(tf.gather(CHILD_ROWS, node))
    i, o, u = tf.split(tf.concat([x, tf.reduce_sum(h, axis=1)], 1) @ GATES, 3, axis=1)

    def remembered(h_k, c_k):
        return tf.sigmoid(tf.concat([x, h_k], 1) @ FORGET) * c_k

    kept = kerasrec.map_fn(lambda state: remembered(*state), (h, c))
    cell = tf.sigmoid(i) * tf.tanh(u) + tf.reduce_sum(kept, axis=1)
    return tf.sigmoid(o) * tf.tanh(cell), cell


def plain_child_sum(node):
    x = INPUTS[node]
    states = [plain_child_sum(child) for child in ROWS_OF_CHILDREN[node]]
    total = tf.add_n([tf.zeros_like(x), *(h for h, _ in states)])
    i, o, u = tf.split(tf.linalg.matvec(GATES, tf.concat([x, total], 0), transpose_a=True), 3)
    cell = tf.sigmoid(i) * tf.tanh(u)
    for h, c in states:
        cell += tf.sigmoid(tf.linalg.matvec(FORGET, tf.concat([x, h], 0), transpose_a=True)) * c
    return tf.sigmoid(o) * tf.tanh(cell), cell


smooth(child_sum, plain_child_sum, i32(0, 9, 5), sources=(INPUTS, GATES, FORGET))


@kerasrec.recursive
def scaled_sum(node, x):
    """Outer values and a choice for each entry; `x` is repeated for the entries of a row."""
    children = tf.gather(CHILD_ROWS, node)
    below = scaled_sum(children, tf.sin(x) + 0.1)

    def one(entry):
        child, value = entry
        return kerasrec.cond(child % 2 == 0, lambda: value * x, lambda: value - x * x)

    return x + tf.reduce_sum(kerasrec.map_fn(one, (children, below)), axis=1)


def plain_scaled_sum(node, x):
    total = x
    for child in ROWS_OF_CHILDREN[node]:
        value = plain_scaled_sum(child, tf.sin(x) + 0.1)
        total += value * x if child % 2 == 0 else value - x * x
    return total


smooth(scaled_sum, plain_scaled_sum, i32(0, 9, 3), f64(0.3, 0.5, -0.2), name="map_with_cond")


@kerasrec.recursive(
    returns={
        "low": tf.TensorSpec([], tf.float64),
        "mean": tf.TensorSpec([], tf.float64),
        "size": tf.TensorSpec([], tf.int32),
    }
)
def two_ragged_calls(node, x):
    """One of the calls from inside a map, several outputs, rows that are put together again."""
    children = tf.gather(CHILD_ROWS, node)
    one = two_ragged_calls(children, x * 0.9)
    two = kerasrec.map_fn(lambda child: two_ragged_calls(child, tf.cos(x))["low"] * x, children)
    own = tf.RaggedTensor.from_tensor(tf.expand_dims(x, 1))
    longer = kerasrec.map_fn(tf.sin, tf.concat([two, own], axis=1))
    return {
        "low": x + tf.reduce_min(longer, axis=1),
        "mean": tf.reduce_mean(longer, axis=1) + tf.reduce_sum(one["mean"] * one["low"], axis=1),
        "size": 1 + tf.reduce_sum(one["size"], axis=1),
    }


def plain_two_ragged_calls(node, x):
    one = [plain_two_ragged_calls(child, x * 0.9) for child in ROWS_OF_CHILDREN[node]]
    two = [plain_two_ragged_calls(child, tf.cos(x))["low"] * x for child in ROWS_OF_CHILDREN[node]]
    longer = tf.sin(tf.stack([*two, x]))
    return {
        "low": x + tf.reduce_min(longer),
        "mean": tf.reduce_mean(longer) + sum(item["mean"] * item["low"] for item in one),
        "size": 1 + sum(item["size"] for item in one),
    }


smooth(two_ragged_calls, plain_two_ragged_calls, i32(3, 0), f64(0.4, 0.7))


@kerasrec.recursive
def ragged_in_branch(node, x):
    """The call in a branch; rows from around it chosen along with their tokens."""
    children = tf.gather(CHILD_ROWS, node)
    halves = kerasrec.map_fn(lambda child: tf.cast(child, x.dtype) * x / 2.0, children)

    def inner():
        below = ragged_in_branch(children, x + 0.1)
        products = kerasrec.map_fn(lambda pair: pair[0] * pair[1], (below, halves))
        return tf.reduce_sum(products, axis=1) + tf.reduce_sum(halves, axis=1)

    def other():
        return tf.sin(x) + tf.reduce_sum(ragged_in_branch(children, x * x) * halves, axis=1)

    return kerasrec.switch(node % 3, [lambda: tf.cos(x), inner, other])


def plain_ragged_in_branch(node, x):
    children = ROWS_OF_CHILDREN[node]
    halves = [child * x / 2.0 for child in children]
    if node % 3 == 0:
        return tf.cos(x)
    if node % 3 == 1:
        below = [plain_ragged_in_branch(child, x + 0.1) for child in children]
        return sum((one * two + two for one, two in zip(below, halves, strict=True)), x * 0.0)
    below = [plain_ragged_in_branch(child, x * x) for child in children]
    return tf.sin(x) + sum(one * two for one, two in zip(below, halves, strict=True))


smooth(ragged_in_branch, plain_ragged_in_branch, i32(1, 0, 5, 4), f64(0.4, 0.7, -0.3, 0.2))


@kerasrec.recursive
def reduced_in_branch(node, x):
    """Called outside of the only branch that reads the results of the rows' entries."""
    below = reduced_in_branch(tf.gather(CHILD_ROWS, node), x / 2.0)
    return kerasrec.cond(node % 2 == 0, lambda: tf.sin(x), lambda: tf.reduce_sum(below, axis=1) * x)


def plain_reduced_in_branch(node, x):
    below = [plain_reduced_in_branch(child, x / 2.0) for child in ROWS_OF_CHILDREN[node]]
    return tf.sin(x) if node % 2 == 0 else tf.add_n([tf.zeros_like(x), *below]) * x


smooth(
    reduced_in_branch,
    plain_reduced_in_branch,
    i32(0, 3, 1, 4),
    f64(0.5, -0.4, 1.2, 0.3),
)


@kerasrec.recursive
def ragged_in_argument(node, x):
    children = tf.gather(CHILD_ROWS, node)
    first = ragged_in_argument(children, tf.sin(x))
    second = ragged_in_argument(children, first * 0.5 + kerasrec.map_fn(lambda _: x, children))
    return x + tf.reduce_sum(second * first, axis=1)


def plain_ragged_in_argument(node, x):
    total = x
    for child in ROWS_OF_CHILDREN[node]:
        first = plain_ragged_in_argument(child, tf.sin(x))
        total += plain_ragged_in_argument(child, first * 0.5 + x) * first
    return total


smooth(ragged_in_argument, plain_ragged_in_argument, i32(0, 9, 8), f64(0.3, 0.5, 0.7), num_rounds=2)


@kerasrec.recursive
def rows_in_rounds(node, x):
    """The entries of a row call, then again with the sum of the row, then their token calls."""
    children = tf.gather(CHILD_ROWS, node)
    total = tf.reduce_sum(rows_in_rounds(children, tf.sin(x)), axis=1)
    again = rows_in_rounds(children, kerasrec.map_fn(lambda _: 0.3 * total, children))
    return x + halved(tf.reduce_sum(again, axis=1) * x, 2)


def plain_rows_in_rounds(node, x):
    children = ROWS_OF_CHILDREN[node]
    total = sum(plain_rows_in_rounds(child, tf.sin(x)) for child in children)
    return x + 0.25 * sum(plain_rows_in_rounds(child, 0.3 * total) for child in children) * x


smooth(rows_in_rounds, plain_rows_in_rounds, i32(0, 9, 8), f64(0.3, 0.5, 0.7), num_rounds=3)


@kerasrec.recursive
def forest(node, x):
    """Mutual recursion, one of them without rows; a table of all nodes."""
    children = tf.gather(CHILD_ROWS, node)
    return tf.reduce_sum(tree(children, x), axis=1) * 0.5 + x


@kerasrec.recursive
def tree(node, x):
    value = tf.sin(forest(node, x * 0.8))
    kerasrec.collect("trees", value, node, len(ROWS_OF_CHILDREN))
    return value


def plain_forest(node, x):
    return 0.5 * sum(plain_tree(child, x) for child in ROWS_OF_CHILDREN[node]) + x


def plain_tree(node, x):
    return tf.sin(plain_forest(node, x * 0.8))


def plain_forest_tables(node, x):
    table = tf.zeros([len(ROWS_OF_CHILDREN)], tf.float64)
    for child in ROWS_OF_CHILDREN[node]:
        table += tf.one_hot(child, len(ROWS_OF_CHILDREN), dtype=tf.float64) * plain_tree(child, x)
        table += plain_forest_tables(child, x * 0.8)["trees"]
    return {"trees": table}


smooth(forest, plain_forest, i32(0, 9), f64(0.6, -0.4), plain_tables=plain_forest_tables)


@kerasrec.recursive
def calls_in_three_branches(n, x):
    """Calls of several branches wait together: those that were made later may stand first."""

    def changed():
        found, below = calls_in_three_branches(n - 2, x * 2.0)
        return n - found, tf.maximum(below, 0.16)

    def left_out():
        calls_in_three_branches(n - 1, x + 1.0)
        return n * n % 11, tf.sin(x)

    def handed_on():
        found, _ = calls_in_three_branches(n - 1, x)
        return found, x * 3.0

    which = tf.where(n <= 0, 0, 1 + (n + 3) % 4)
    return kerasrec.switch(which, [lambda: (n, x), changed, left_out, handed_on])


def plain_calls_in_three_branches(n, x):
    if n <= 0:
        return n, x
    if n % 4 == 1:
        found, below = plain_calls_in_three_branches(n - 2, x * 2.0)
        return n - found, tf.maximum(below, 0.16)
    if n % 4 == 2:
        return n * n % 11, tf.sin(x)
    return plain_calls_in_three_branches(n - 1, x)[0], x * 3.0


smooth(
    calls_in_three_branches,
    plain_calls_in_three_branches,
    i32(-1, 0, 3, -1, 0, 3, 3),
    f64(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
)


SPLITS = np.cumsum([0, 2, 0, 3, 1, 0, 4, 1, 0, 1, 2])
TRAINED_ROWS = tf.constant(some(SPLITS[-1], seed=31))


@kerasrec.recursive
def trained_rows(node, x):
    """Rows of numbers that have a gradient, in a branch that other tokens have no row for."""

    def inside():
        rows = tf.gather(tf.RaggedTensor.from_row_splits(TRAINED_ROWS, SPLITS), node)
        own = kerasrec.map_fn(lambda number: tf.tanh(number * x), rows)
        return tf.reduce_sum(own, axis=1) * x + trained_rows(node - 3, x * 0.9)

    return kerasrec.cond(node < 0, lambda: tf.sin(x), inside)


def plain_trained_rows(node, x):
    if node < 0:
        return tf.sin(x)
    own = [tf.tanh(TRAINED_ROWS[at] * x) for at in range(SPLITS[node], SPLITS[node + 1])]
    return tf.add_n([x * 0.0, *own]) * x + plain_trained_rows(node - 3, x * 0.9)


smooth(
    trained_rows,
    plain_trained_rows,
    i32(9, -1, 5, 2),
    f64(0.6, 0.5, -0.4, 0.9),
    sources=(TRAINED_ROWS,),
)


@kerasrec.recursive
def grandchildren(node, x):
    """A map inside a map: rows of the entries of rows."""

    def one(child):
        below = grandchildren(tf.gather(CHILD_ROWS, child), x * 0.7)
        return tf.reduce_sum(below, axis=1) * x + tf.cast(child, x.dtype)

    return x + tf.reduce_sum(kerasrec.map_fn(one, tf.gather(CHILD_ROWS, node)), axis=1)


def plain_grandchildren(node, x):
    total = x
    for child in ROWS_OF_CHILDREN[node]:
        below = [plain_grandchildren(item, x * 0.7) for item in ROWS_OF_CHILDREN[child]]
        total += sum(below) * x + child
    return total


smooth(grandchildren, plain_grandchildren, i32(0, 9, 2), f64(0.6, 0.5, 0.4))


@kerasrec.recursive
def squares_of_children(node, x):
    """Rows without a call: what is mapped over them calls nobody."""
    rows = kerasrec.map_fn(lambda child: tf.cast(child, x.dtype) * x, tf.gather(CHILD_ROWS, node))
    return tf.reduce_sum(rows * rows, axis=1) + x


def plain_squares_of_children(node, x):
    return sum((child * x) ** 2 for child in ROWS_OF_CHILDREN[node]) + x


smooth(
    squares_of_children,
    plain_squares_of_children,
    i32(0, 9, 3),
    f64(0.3, 0.5, -0.2),
    name="rows_without_a_call",
)

PADDED = i32([1, 2, 3], [4, -1, -1], [-1, -1, -1], [5, -1, -1], [-1, -1, -1], [-1, -1, -1])
WEIGHTS = tf.constant(some(3, 2, seed=14))


@kerasrec.recursive
def padded(node):
    """Rows from a padded table, and back to one of a fixed size; closed-over tables of rows."""
    children = tf.RaggedTensor.from_tensor(tf.gather(PADDED, node), padding=-1)
    below = padded(children)
    table = below.to_tensor(shape=[None, 3])
    count = tf.cast(children.row_lengths(), tf.float64)
    return tf.gather(ROW_VALUES, node) + tf.reduce_sum(tf.tanh(table @ WEIGHTS), axis=1) * count


def plain_padded(node):
    below = [plain_padded(child) for child in PADDED[node] if child >= 0]
    table = tf.stack([*below, *[tf.zeros([], tf.float64)] * (3 - len(below))])
    seen = tf.tanh(tf.linalg.matvec(WEIGHTS, table, transpose_a=True))
    return ROW_VALUES[node] + tf.reduce_sum(seen) * len(below)


add(padded, plain_padded, i32(0, 1, 5), sources=(ROW_VALUES, WEIGHTS), has_gradient=True)


@kerasrec.recursive
def weight_without_arguments():
    return tf.tanh(SCALE) * 0.5


@kerasrec.recursive
def calls_without_arguments(x, n):
    """A function that takes nothing, called in a body and in both of its branches."""
    y = x + weight_without_arguments()
    return kerasrec.cond(
        n < 1,
        lambda: y * weight_without_arguments(),
        lambda: calls_without_arguments(tf.sin(y), n - 1) + weight_without_arguments(),
    )


def plain_calls_without_arguments(x, n):
    weight = tf.tanh(SCALE) * 0.5
    y = x + weight
    return y * weight if n < 1 else plain_calls_without_arguments(tf.sin(y), n - 1) + weight


smooth(
    calls_without_arguments,
    plain_calls_without_arguments,
    f64(0.3, 0.8, -0.4),
    i32(0, 3, 1),
    sources=(SCALE,),
    num_rounds=2,
)


@kerasrec.recursive
def loop_that_calls(x, n):
    """A loop whose body calls the function that the loop stands in."""

    def some():
        def step(k, total):
            return k + 1, total + tf.tanh(loop_that_calls(x * total, k))

        return kerasrec.while_loop(lambda k, _: k < n, step, (0, x))[1]

    return kerasrec.cond(n < 1, lambda: x, some)


def plain_loop_that_calls(x, n):
    total = x
    for k in range(n):
        total += tf.tanh(plain_loop_that_calls(x * total, k))
    return total


smooth(
    loop_that_calls, plain_loop_that_calls, f64(0.3, 0.8, -0.4, 0.5), i32(0, 3, 1, 2), num_rounds=2
)


@kerasrec.recursive
def loops_in_a_loop(x, n):
    """Each token goes on as often as its values require, at most `n` times, in a loop in a loop."""

    def outer(state):
        def inner(total, k):
            return total * 0.9 + tf.sin(state["v"]), k + 1

        most = tf.cast(tf.reduce_sum(state["v"], axis=1) * 4.0, tf.int32)
        total, k = kerasrec.while_loop(lambda _, k: k < most, inner, [state["v"], 0])
        return {"v": total @ WEIGHTS_OF_LOOP, "steps": state["steps"] + k}

    end = kerasrec.while_loop(
        lambda state: tf.reduce_sum(state["v"] ** 2, axis=1) < 9.0,
        outer,
        {"v": x, "steps": tf.zeros_like(n)},
        maximum_iterations=n,
    )
    return end["v"], end["steps"]


def plain_loops_in_a_loop(x, n):
    steps = 0
    for _ in range(n):
        if tf.reduce_sum(x**2) >= 9.0:
            break
        total = x
        for _ in range(int(tf.cast(tf.reduce_sum(x) * 4.0, tf.int32))):
            total = total * 0.9 + tf.sin(x)
            steps += 1
        x = tf.linalg.matvec(WEIGHTS_OF_LOOP, total, transpose_a=True)
    return x, steps


WEIGHTS_OF_LOOP = tf.constant(some(2, 2, seed=15) + 0.6)
add(
    loops_in_a_loop,
    plain_loops_in_a_loop,
    f64([0.3, 0.8], [1.2, 0.4], [2.5, 2.5], [0.5, 0.1]),
    i32(3, 1, 4, 0),
    sources=(WEIGHTS_OF_LOOP,),
    has_gradient=True,
    num_rounds=2,
)


@kerasrec.recursive
def repeated(function, x, n):
    return kerasrec.cond(n < 1, lambda: x, lambda: function(repeated(function, x, n - 1)))


@kerasrec.recursive
def passes_functions(x, n):
    """Functions as arguments: one of them closes over a token of the function that passes it."""
    found = repeated(lambda v: tf.sin(v) * x + SCALE, x, n)
    return found + repeated(tf.square, found, n // 2)


def plain_passes_functions(x, n):
    found = x
    for _ in range(n):
        found = tf.sin(found) * x + SCALE
    squared = found
    for _ in range(n // 2):
        squared = squared**2
    return found + squared


smooth(
    passes_functions,
    plain_passes_functions,
    f64(0.3, 0.8, -0.4, 0.5),
    i32(0, 4, 1, 3),
    sources=(SCALE,),
    num_rounds=2,
)


@kerasrec.recursive
def step_of(x, n):
    """A function for each token, which it has chosen, with the values captured in its call."""
    choices = [lambda v: tf.sin(v) * x, lambda v: v * SCALE + x, lambda v: repeated(tf.sin, v, n)]
    steps = kerasrec.functions(choices)
    return kerasrec.cond(n > 3, lambda: step_of(x * 0.5, n - 3), lambda: steps[n % 3])


@kerasrec.recursive
def in_steps(step, x, n):
    def again():
        other = step_of(x, n)
        chosen = kerasrec.cond(x > 0.6, lambda: step, lambda: other)
        return step(in_steps(chosen, x * 0.9, n - 1))

    return kerasrec.cond(n < 1, lambda: step(x), again)


@kerasrec.recursive
def functions_as_values(x, n):
    """Functions that are returned, chosen by each token, passed on, and called unknown."""
    return in_steps(step_of(x, n), x, n)


def plain_step_of(x, n):
    while n > 3:
        x, n = x * 0.5, n - 3
    return [
        lambda v: tf.sin(v) * x,
        lambda v: v * SCALE + x,
        lambda v: functools.reduce(lambda found, _: tf.sin(found), range(n), v),
    ][n % 3]


def plain_in_steps(step, x, n):
    if n < 1:
        return step(x)
    return step(plain_in_steps(step if x > 0.6 else plain_step_of(x, n), x * 0.9, n - 1))


smooth(
    functions_as_values,
    lambda x, n: plain_in_steps(plain_step_of(x, n), x, n),
    f64(0.3, 0.8, -0.4, 0.5, 1.1),
    i32(0, 5, 1, 4, 2),
    sources=(SCALE,),
    num_rounds=2,
)


@kerasrec.recursive
def reads_it_or_not(x, n, later):
    def goes_on():
        return kerasrec.cond(x > 0.7, lambda: x * x, lambda: reads_it_or_not(x * 1.3, n - 1, later))

    return kerasrec.cond(n < 1, lambda: x * later() + later(), goes_on)


@kerasrec.recursive
def passes_a_lazy_value(x, n):
    """A value that calls the function that it stands in, and is read only by some tokens."""
    later = kerasrec.lazy(lambda: tf.exp(passes_a_lazy_value(x * 0.5, n - 1)) * SCALE)
    return kerasrec.cond(n < 1, lambda: tf.sin(x), lambda: reads_it_or_not(x, n, later))


def plain_passes_a_lazy_value(x, n):
    if n < 1:
        return tf.sin(x)
    end, left = x, n
    while left >= 1:
        if end > 0.7:
            return end * end
        end, left = end * 1.3, left - 1
    later = tf.exp(plain_passes_a_lazy_value(x * 0.5, n - 1)) * SCALE
    return end * later + later


smooth(
    passes_a_lazy_value,
    plain_passes_a_lazy_value,
    f64(0.3, 0.8, 0.61, 0.2),
    i32(2, 3, 1, 0),
    sources=(SCALE,),
)


@kerasrec.recursive
def leaves_arguments_out(n, x, scale=None, state=(None, None)):
    """A function of three signatures, each of which calls another one."""
    below, (more, shift) = n - 1, state
    if scale is not None:
        return kerasrec.cond(n < 1, lambda: x * scale, lambda: leaves_arguments_out(below, scale))
    if more is None:
        return kerasrec.cond(
            n < 1,
            lambda: tf.sin(x),
            lambda: SCALE * leaves_arguments_out(below, x, state=(x * 0.5, 0.3)),
        )
    return kerasrec.cond(
        n < 1,
        lambda: more + shift,
        lambda: leaves_arguments_out(below, more) + leaves_arguments_out(n - 2, x, more),
    )


def plain_leaves_arguments_out(n, x, scale=None, state=(None, None)):
    more, shift = state
    if scale is not None:
        return x * scale if n < 1 else plain_leaves_arguments_out(n - 1, scale)
    if more is None and n < 1:
        return tf.sin(x)
    if more is None:
        return SCALE * plain_leaves_arguments_out(n - 1, x, state=(x * 0.5, 0.3))
    if n < 1:
        return more + shift
    left = plain_leaves_arguments_out(n - 1, more)
    return left + plain_leaves_arguments_out(n - 2, x, more)


smooth(
    leaves_arguments_out,
    plain_leaves_arguments_out,
    i32(0, 3, 5, 4),
    f64(0.3, 0.8, 0.61, 0.2),
    sources=(SCALE,),
)


@kerasrec.recursive
def wins_at_nim(a, b):
    """Whether who moves wins with two heaps: some move leads to where the other loses."""

    def leads_to_a_loss(k):
        is_of_a = k < a
        left_of_a, left_of_b = tf.where(is_of_a, k, a), tf.where(is_of_a, b, k - a)
        return kerasrec.all_of(1, lambda _: ~wins_at_nim(left_of_a, left_of_b))

    return kerasrec.any_of(a + b, leads_to_a_loss)


add(wins_at_nim, lambda a, b: a != b, i32(0, 1, 3, 2, 3), i32(0, 0, 2, 2, 3), num_rounds=2)


class Shape(kerasrec.DataType):
    pass


class Disc(Shape):
    radius: np.float64


class Group(Shape):
    scale: np.float64 | None
    parts: list[Shape]


class Shadow(Shape):
    of: Shape
    under: Shape | None


DISC = Disc(0.7)
SHAPES = [
    Group(None, [DISC, Group(0.5, []), Shadow(Group(1.2, [Disc(-0.4), DISC]), None)]),
    Shadow(DISC, Group(0.9, [DISC, Disc(0.3), Shadow(DISC, DISC)])),
    Disc(1.1),
    Group(-0.6, []),
]
SHAPE_VALUES = values_of(Shape, SHAPES)
SHAPE_OF_NODE = dict(zip(SHAPE_VALUES._node.numpy().tolist(), SHAPES, strict=True))


@kerasrec.recursive
def area(shape, x):
    """Of values of a data type, some of which may be missing, and a number next to them."""

    def group(group):
        scale = tf.where(group.has("scale"), group.scale, x)
        parts = kerasrec.map_fn(lambda part: area(part, x * scale), group.parts)
        return scale * tf.reduce_sum(tf.sin(parts), axis=1) + 0.1

    def shadow(shadow):
        under = kerasrec.match(shadow.under, {None: lambda: x * x, Shape: lambda s: area(s, x)})
        return area(shadow.of, x * SCALE) * under

    kinds = {Disc: lambda disc: tf.sin(disc.radius * x), Group: group, Shadow: shadow}
    return kerasrec.match(shape, kinds)


def plain_area(shape, x):
    if isinstance(shape, Disc):
        return tf.sin(shape.radius * x)
    if isinstance(shape, Group):
        scale = x if shape.scale is None else tf.constant(shape.scale, tf.float64)
        parts = [tf.sin(plain_area(part, x * scale)) for part in shape.parts]
        return scale * sum(parts, tf.constant(0.0, tf.float64)) + 0.1
    under = x * x if shape.under is None else plain_area(shape.under, x)
    return plain_area(shape.of, x * SCALE) * under


smooth(
    area,
    lambda shape, x: plain_area(SHAPE_OF_NODE[int(shape._node)], x),
    SHAPE_VALUES,
    f64(0.3, 0.8, -0.4, 1.1),
    sources=(SCALE,),
)


def kept_and_joined(keep, combine, node, x):
    """The kept entries of rows, and then all of them, folded by another function."""
    below = kerasrec.map_fn(lambda child: filters_rows(child, x * 0.8), tf.gather(CHILD_ROWS, node))
    kept = tf.concat([kerasrec.filter_fn(keep, below), below], axis=1)
    return combine(tf.gather(ROW_VALUES, node) * x, kept)


@kerasrec.recursive
def filters_rows(node, x):
    """Functions of functions over rows, which are filtered, joined and reduced."""
    largest = lambda value, rows: tf.maximum(value, tf.reduce_max(tf.sin(rows), axis=1))  # noqa: E731
    summed = lambda value, rows: value + tf.reduce_sum(tf.sin(rows), axis=1)  # noqa: E731
    return kerasrec.cond(
        x > 0.4,
        lambda: kept_and_joined(lambda value: value > 0.1, summed, node, x),
        lambda: kept_and_joined(lambda value: value < 0.2, largest, node, x),
    )


def plain_filters_rows(node, x):
    below = [plain_filters_rows(child, x * 0.8) for child in ROWS_OF_CHILDREN[node]]
    value = ROW_VALUES[node] * x
    if x > 0.4:
        return value + sum(tf.sin(item) for item in [*[v for v in below if v > 0.1], *below])
    return tf.reduce_max([value, *(tf.sin(item) for item in below)])


smooth(
    filters_rows,
    plain_filters_rows,
    i32(0, 9, 2, 0),
    f64(0.6, 0.3, 0.9, -0.5),
    sources=(ROW_VALUES,),
)


class Event(kerasrec.DataType):
    pass


class Note(Event):
    tone: tf.TensorSpec([2], tf.float64)
    sort: Literal["plain", "loud", "soft"]


class Bar(Event):
    events: list[Event]
    others: list[Event]


EVENTS = [
    Note([0.3, -0.7], "loud"),
    Bar([Note([0.5, 0.1], "soft"), Note([0.2, 0.9], "plain")], [Note([-0.4, 0.6], "loud")]),
    Bar([], [Bar([Note([0.8, 0.2], "soft"), Bar([], [])], [])]),
    Bar([], []),
]
EVENT_VALUES = values_of(Event, EVENTS)
EVENT_OF_NODE = dict(zip(EVENT_VALUES._node.numpy().tolist(), EVENTS, strict=True))


@kerasrec.recursive
def sounds(event, x):
    """Of vectors, by choices; lists of values are joined and filtered."""
    is_note = lambda event: kerasrec.match(event, {Note: lambda _: True, Bar: lambda _: False})  # noqa: E731

    def note(note):
        loud, soft = lambda: note.tone * x[:, None], lambda: tf.sin(note.tone)
        return kerasrec.switch(note.sort, [lambda: note.tone, loud, soft])

    def bar(bar):
        played = kerasrec.filter_fn(is_note, bar.events) + bar.others + bar.events
        below = kerasrec.map_fn(lambda event: sounds(event, x * SCALE), played)
        return tf.tanh(tf.reduce_sum(below, axis=1)) + x[:, None]

    return kerasrec.match(event, {Note: note, Bar: bar})


def plain_sounds(event, x):
    if isinstance(event, Note):
        tone = tf.constant(event.tone, tf.float64)
        return {"plain": tone, "loud": tone * x, "soft": tf.sin(tone)}[event.sort]
    notes = [item for item in event.events if isinstance(item, Note)]
    below = [plain_sounds(item, x * SCALE) for item in [*notes, *event.others, *event.events]]
    return tf.tanh(sum(below, tf.zeros(2, tf.float64))) + x


smooth(
    sounds,
    lambda event, x: plain_sounds(EVENT_OF_NODE[int(event._node)], x),
    EVENT_VALUES,
    f64(0.4, 0.7, -0.3, 1.2),
    sources=(SCALE,),
)


@kerasrec.recursive
def changed(event, x):
    """The object that was changed, and a number of it."""

    def note(note):
        tone = tf.sin(note.tone * x[:, None])
        return Note(tone, note.sort), tf.reduce_sum(tone, axis=1)

    def bar(bar):
        made, numbers = kerasrec.map_fn(lambda event: changed(event, x * SCALE), bar.events)
        return Bar(bar.others, made), x + tf.reduce_sum(numbers * numbers, axis=1)

    return kerasrec.match(event, {Note: note, Bar: bar})


@kerasrec.recursive
def makes_values(event, x):
    """Values that are made, of which a number is returned: `tests/datatypes` reads the values."""
    made, number = changed(event, x)
    _, other = changed(event, number)
    return kerasrec.cond(number > other, lambda: (Bar([made], []), number), lambda: (made, other))[
        1
    ]


def plain_makes_values(event, x):
    number = plain_number(event, x)
    return tf.maximum(number, plain_number(event, number))


def plain_number(event, x):
    if isinstance(event, Note):
        return tf.reduce_sum(tf.sin(tf.constant(event.tone, tf.float64) * x))
    return x + sum(plain_number(item, x * SCALE) ** 2 for item in event.events)


smooth(
    makes_values,
    lambda event, x: plain_makes_values(EVENT_OF_NODE[int(event._node)], x),
    EVENT_VALUES,
    f64(0.4, 0.7, -0.3, 1.2),
    sources=(SCALE,),
    num_rounds=2,
)


# A run reads the values again that it makes.


class Numbers(kerasrec.DataType):
    pass


class Empty(Numbers):
    pass


class Link(Numbers):
    head: np.float64
    tail: Numbers


@kerasrec.recursive
def upto(n, x):
    link = lambda: Link(tf.sin(tf.cast(n, x.dtype) * x), upto(n - 1, x * SCALE))  # noqa: E731
    return kerasrec.cond(n < 1, lambda: Empty(), link)


def plain_upto(n, x):
    return [] if n < 1 else [tf.sin(tf.cast(n, x.dtype) * x), *plain_upto(n - 1, x * SCALE)]


@kerasrec.recursive
def weighed(numbers, place):
    """A sum in which places count, so that the order does."""
    link = lambda link: link.head * place + weighed(link.tail, place + 1.0)  # noqa: E731
    return kerasrec.match(numbers, {Empty: lambda _: 0.0 * place, Link: link})


def plain_weighed(numbers):
    return sum(
        (number * place for place, number in enumerate(numbers, start=1)), tf.zeros([], tf.float64)
    )


@kerasrec.recursive
def joined(one, other):
    link = lambda link: Link(link.head, joined(link.tail, other))  # noqa: E731
    return kerasrec.match(one, {Empty: lambda _: other, Link: link})


@kerasrec.recursive
def reversed_naively(numbers):
    def link(link):
        return joined(reversed_naively(link.tail), Link(link.head, Empty()))

    return kerasrec.match(numbers, {Empty: lambda empty: empty, Link: link})


@kerasrec.recursive
def parted(numbers, pivot):
    """The numbers below a pivot, and the others."""

    def link(link):
        below, others = parted(link.tail, pivot)
        return kerasrec.cond(
            link.head < pivot,
            lambda: (Link(link.head, below), others),
            lambda: (below, Link(link.head, others)),
        )

    return kerasrec.match(numbers, {Empty: lambda empty: (empty, empty), Link: link})


@kerasrec.recursive
def quicksorted(numbers):
    def link(link):
        below, others = parted(link.tail, link.head)
        return joined(quicksorted(below), Link(link.head, quicksorted(others)))

    return kerasrec.match(numbers, {Empty: lambda empty: empty, Link: link})


@kerasrec.recursive
def inserted(number, numbers):
    def link(link):
        return kerasrec.cond(
            number < link.head,
            lambda: Link(number, Link(link.head, link.tail)),
            lambda: Link(link.head, inserted(number, link.tail)),
        )

    return kerasrec.match(numbers, {Empty: lambda empty: Link(number, empty), Link: link})


@kerasrec.recursive
def insertion_sorted(numbers):
    link = lambda link: inserted(link.head, insertion_sorted(link.tail))  # noqa: E731
    return kerasrec.match(numbers, {Empty: lambda empty: empty, Link: link})


@kerasrec.recursive
def halves(numbers):
    """Every second number, and the others."""

    def link(link):
        others, own = halves(link.tail)
        return Link(link.head, own), others

    return kerasrec.match(numbers, {Empty: lambda empty: (empty, empty), Link: link})


@kerasrec.recursive
def merged(one, other):
    def both(left, right):
        return kerasrec.cond(
            left.head < right.head,
            lambda: Link(left.head, merged(left.tail, right)),
            lambda: Link(right.head, merged(left, right.tail)),
        )

    def link(left):
        right = lambda right: both(left, right)  # noqa: E731
        return kerasrec.match(other, {Empty: lambda _: left, Link: right})

    return kerasrec.match(one, {Empty: lambda _: other, Link: link})


@kerasrec.recursive
def merge_sorted(numbers):
    def link(first):
        def more(_):
            left, right = halves(first)
            return merged(merge_sorted(left), merge_sorted(right))

        return kerasrec.match(first.tail, {Empty: lambda _: first, Link: more})

    return kerasrec.match(numbers, {Empty: lambda empty: empty, Link: link})


class Search(kerasrec.DataType):
    pass


class Nowhere(Search):
    pass


class Fork(Search):
    left: Search
    number: np.float64
    right: Search


@kerasrec.recursive
def put_in(number, tree):
    def fork(fork):
        return kerasrec.cond(
            number < fork.number,
            lambda: Fork(put_in(number, fork.left), fork.number, fork.right),
            lambda: Fork(fork.left, fork.number, put_in(number, fork.right)),
        )

    return kerasrec.match(tree, {Nowhere: lambda tree: Fork(tree, number, tree), Fork: fork})


@kerasrec.recursive
def all_put_in(numbers, tree):
    link = lambda link: all_put_in(link.tail, put_in(link.head, tree))  # noqa: E731
    return kerasrec.match(numbers, {Empty: lambda _: tree, Link: link})


@kerasrec.recursive
def in_order(tree, after):
    """The numbers of a tree, and others after them."""
    fork = lambda fork: in_order(fork.left, Link(fork.number, in_order(fork.right, after)))  # noqa: E731
    return kerasrec.match(tree, {Nowhere: lambda _: after, Fork: fork})


@kerasrec.recursive
def mapped(function, numbers):
    link = lambda link: Link(function(link.head), mapped(function, link.tail))  # noqa: E731
    return kerasrec.match(numbers, {Empty: lambda empty: empty, Link: link})


@kerasrec.recursive
def folded(function, numbers, start):
    link = lambda link: function(link.head, folded(function, link.tail, start))  # noqa: E731
    return kerasrec.match(numbers, {Empty: lambda _: start, Link: link})


@kerasrec.recursive
def sum_upto(n, x):
    return weighed(upto(n, x), tf.ones_like(x))


def of_list(change, plain_change, name):
    """Adds a program that makes a list, changes it, and weighs the result."""

    @kerasrec.recursive
    def program(n, x):
        return weighed(change(upto(n, x)), tf.ones_like(x))

    smooth(
        program,
        lambda n, x: plain_weighed(plain_change(plain_upto(n, x))),
        i32(5, 0, 3, 4),
        f64(0.8, 0.3, -0.6, 1.9),
        sources=(SCALE,),
        num_rounds=2,
        reads_made=True,
        name=name,
    )


def curve(x, other):
    return tf.tanh(x + x * other)


of_list(lambda numbers: numbers, list, "sum_upto")
of_list(quicksorted, sorted, "quicksort")
of_list(insertion_sorted, sorted, "insertion_sort")
of_list(merge_sorted, sorted, "merge_sort")
of_list(reversed_naively, lambda numbers: numbers[::-1], "naive_reverse")
of_list(lambda numbers: in_order(all_put_in(numbers, Nowhere()), Empty()), sorted, "search_tree")
of_list(
    lambda numbers: Link(
        folded(curve, mapped(tf.exp, numbers), tf.constant(0.5, tf.float64)), numbers
    ),
    lambda numbers: [
        functools.reduce(
            lambda found, x: curve(tf.exp(x), found), numbers[::-1], tf.constant(0.5, tf.float64)
        ),
        *numbers,
    ],
    "map_then_fold",
)


class Term(kerasrec.DataType):
    pass


class Constant(Term):
    value: np.float64


class Unknown(Term):
    pass


class Sum(Term):
    left: Term
    right: Term


class Product(Term):
    left: Term
    right: Term


@kerasrec.recursive
def evaluated(term, x):
    both = lambda term: (evaluated(term.left, x), evaluated(term.right, x))  # noqa: E731
    return kerasrec.match(
        term,
        {
            Constant: lambda term: term.value,
            Unknown: lambda _: x,
            Sum: lambda term: sum(both(term)),
            Product: lambda term: tf.multiply(*both(term)),
        },
    )


def plain_evaluated(term, x):
    if isinstance(term, Constant):
        return tf.constant(term.value, tf.float64)
    if isinstance(term, Unknown):
        return x
    left, right = plain_evaluated(term.left, x), plain_evaluated(term.right, x)
    return left + right if isinstance(term, Sum) else left * right


class Words(kerasrec.DataType):
    """The words of a term, operators first."""


class End(Words):
    pass


class Word(Words):
    word: Literal["number", "x", "+", "*"]
    number: np.float64
    rest: Words


@kerasrec.recursive
def parsed(words, scale):
    """The term with which words begin, and the words after it."""

    def word(word):
        def both(kind):
            left, rest = parsed(word.rest, scale)
            right, rest = parsed(rest, scale)
            return kind(left, right), rest

        number, unknown = lambda: Constant(word.number * scale * SCALE), Unknown
        return kerasrec.switch(
            word.word,
            [
                lambda: (number(), word.rest),
                lambda: (unknown(), word.rest),
                lambda: both(Sum),
                lambda: both(Product),
            ],
        )

    return kerasrec.match(words, {End: lambda end: (Constant(0.0), end), Word: word})


def plain_parsed(words, scale):
    word, *rest = words
    if word in ("+", "*"):
        left, rest = plain_parsed(rest, scale)
        right, rest = plain_parsed(rest, scale)
        return (Sum if word == "+" else Product)(left, right), rest
    return (Unknown() if word == "x" else Constant(word * scale * SCALE)), rest


@kerasrec.recursive
def parse_then_evaluate(words, x):
    term, _ = parsed(words, x * x)
    return evaluated(term, x)


SENTENCES = ["+ * 2.0 x * x + x 0.5", "x", "* + x 1.5 + x -0.5", "0.25"]


def words_of(sentence):
    *_, first = accumulate(reversed(sentence.split()), following, initial=End())
    return first


def following(rest, word):
    is_number = word not in ("x", "+", "*")
    return Word("number" if is_number else word, float(word) if is_number else 0.0, rest)


GIVEN_WORDS = values_of(Words, [words_of(sentence) for sentence in SENTENCES])
SENTENCE_OF_NODE = dict(zip(GIVEN_WORDS._node.numpy().tolist(), SENTENCES, strict=True))


def plain_parse_then_evaluate(words, x):
    words = SENTENCE_OF_NODE[int(words._node)].split()
    words = [word if word in ("x", "+", "*") else float(word) for word in words]
    return plain_evaluated(plain_parsed(words, x * x)[0], x)


smooth(
    parse_then_evaluate,
    plain_parse_then_evaluate,
    GIVEN_WORDS,
    f64(0.4, 0.7, -0.3, 1.2),
    sources=(SCALE,),
    num_rounds=2,
    reads_made=True,
)


@kerasrec.recursive
def is_constant(term, value):
    same = lambda term: term.value == tf.cast(value, tf.float64)  # noqa: E731
    return kerasrec.match(term, {Constant: same, Term: lambda _: False})


@kerasrec.recursive
def simplified(term):
    """A term without its outermost products with one or zero, and whether there were any."""

    def both(kind):
        def inside(term):
            left, left_changed = simplified(term.left)
            right, right_changed = simplified(term.right)
            return kind(left, right), left_changed | right_changed

        return inside

    def product(term):
        is_one, is_zero = is_constant(term.left, 1), is_constant(term.left, 0)
        return kerasrec.cond(
            is_one,
            lambda: (term.right, True),
            lambda: kerasrec.cond(
                is_zero, lambda: (Constant(0.0), True), lambda: both(Product)(term)
            ),
        )

    unchanged = lambda term: (term, False)  # noqa: E731
    kinds = {Constant: unchanged, Unknown: unchanged, Sum: both(Sum), Product: product}
    return kerasrec.match(term, kinds)


@kerasrec.recursive
def simplified_whole(term, x):
    """A fixed point of `simplified`, and in how many steps it was found."""
    found, has_changed = simplified(term)
    again = lambda: simplified_whole(found, x + 0.125)  # noqa: E731
    return kerasrec.cond(has_changed, again, lambda: (found, x))


@kerasrec.recursive
def simplify_then_evaluate(term, x):
    found, steps = simplified_whole(term, x)
    return evaluated(found, x) * steps * SCALE


def plain_simplified(term):
    if isinstance(term, Product) and isinstance(term.left, Constant) and term.left.value in (0, 1):
        return (term.right if term.left.value else Constant(0.0)), True
    if isinstance(term, Constant | Unknown):
        return term, False
    left, left_changed = plain_simplified(term.left)
    right, right_changed = plain_simplified(term.right)
    return type(term)(left, right), left_changed or right_changed


def plain_simplify_then_evaluate(term, x):
    steps, has_changed = x, True
    while has_changed:
        term, has_changed = plain_simplified(term)
        steps = steps + 0.125 * has_changed
    return plain_evaluated(term, x) * steps * SCALE


ONE, ZERO, TWO = Constant(1.0), Constant(0.0), Constant(2.0)
TERMS = [
    Product(ONE, Product(ONE, Sum(Unknown(), Product(TWO, Product(ONE, Unknown()))))),
    Unknown(),
    Sum(Product(ONE, Product(ZERO, Unknown())), Product(Unknown(), Unknown())),
    Product(TWO, Sum(Unknown(), Constant(0.5))),
]
TERM_VALUES = values_of(Term, TERMS)
TERM_OF_NODE = dict(zip(TERM_VALUES._node.numpy().tolist(), TERMS, strict=True))

smooth(
    simplify_then_evaluate,
    lambda term, x: plain_simplify_then_evaluate(TERM_OF_NODE[int(term._node)], x),
    TERM_VALUES,
    f64(0.4, 0.7, -0.3, 1.2),
    sources=(SCALE,),
    num_rounds=2,
    reads_made=True,
)


class Rest(kerasrec.DataType):
    """The steps that are left to do with a result: a continuation."""


class Finished(Rest):
    pass


class Times(Rest):
    factor: np.float64
    rest: Rest


class Other(Rest):
    """Computes the second call, with `n`."""

    n: int
    rest: Rest


class Plus(Rest):
    number: np.float64
    rest: Rest


@kerasrec.recursive
def resumed(rest, result, x):
    return kerasrec.match(
        rest,
        {
            Finished: lambda _: result,
            Times: lambda rest: resumed(rest.rest, result * rest.factor, x),
            Other: lambda rest: passing_fib(rest.n, Plus(result, rest.rest), x),
            Plus: lambda rest: resumed(rest.rest, tf.sin(rest.number + result), x),
        },
    )


@kerasrec.recursive
def passing_factorial(n, rest, x):
    more = lambda: passing_factorial(n - 1, Times(tf.cast(n, x.dtype) * x, rest), x)  # noqa: E731
    return kerasrec.cond(n < 1, lambda: resumed(rest, x, x), more)


@kerasrec.recursive
def passing_fib(n, rest, x):
    more = lambda: passing_fib(n - 1, Other(n - 2, rest), x)  # noqa: E731
    return kerasrec.cond(n < 2, lambda: resumed(rest, x * tf.cast(n + 1, x.dtype), x), more)


@kerasrec.recursive
def continuations(n, x):
    """Both in continuation-passing style, defunctionalised (Reynolds 1972)."""
    return passing_factorial(n, Finished(), x) + passing_fib(n, Finished(), x)


def plain_continuations(n, x):
    def fib(n):
        return x * (n + 1) if n < 2 else tf.sin(fib(n - 1) + fib(n - 2))

    return x * math.factorial(n) * x**n + fib(n)


smooth(
    continuations,
    plain_continuations,
    i32(5, 0, 3, 4),
    f64(0.8, 0.3, -0.6, 1.1),
    num_rounds=2,
    reads_made=True,
)


class Bush(kerasrec.DataType):
    size: np.float64
    shoots: list[Bush]
    lengths: list[np.float64]


@kerasrec.recursive
def grown(n, x):
    lengths = [x, tf.sin(x)]
    pair = lambda: Bush(x, [grown(n - 1, x * SCALE), grown(n - 2, tf.cos(x))], lengths)  # noqa: E731
    return kerasrec.cond(n < 1, lambda: Bush(x, [], []), pair)


def plain_grown(n, x):
    if n < 1:
        return x, [], []
    return x, [plain_grown(n - 1, x * SCALE), plain_grown(n - 2, tf.cos(x))], [x, tf.sin(x)]


@kerasrec.recursive
def pruned(bush, least):
    """Without small shoots, and with longer ones."""
    shoots = kerasrec.filter_fn(lambda shoot: shoot.size > least, bush.shoots)
    longer = kerasrec.map_fn(lambda length: length * bush.size, bush.lengths)
    return Bush(bush.size, pruned(shoots, least), longer)


def plain_pruned(bush, least):
    size, shoots, lengths = bush
    shoots = [plain_pruned(shoot, least) for shoot in shoots if shoot[0] > least]
    return size, shoots, [length * size for length in lengths]


@kerasrec.recursive
def extent(bush):
    own = tf.reduce_sum(bush.lengths, axis=1) + bush.size
    return tf.sin(own + tf.reduce_sum(extent(bush.shoots), axis=1))


def plain_extent(bush):
    size, shoots, lengths = bush
    return tf.sin(size + sum(lengths) + sum(map(plain_extent, shoots)))


@kerasrec.recursive
def grow_then_prune(n, x, least):
    return extent(pruned(grown(n, x), least))


smooth(
    grow_then_prune,
    lambda n, x, least: plain_extent(plain_pruned(plain_grown(n, x), least)),
    i32(4, 0, 3, 1),
    f64(0.8, 0.3, -0.6, 1.1),
    f64(0.55, 0.0, -1.0, 0.2),
    sources=(SCALE,),
    num_rounds=2,
    reads_made=True,
)


# For tests that take long with every program: what the default run and `make test` take.
FEW = ("ackermann", "power", "tree_rnn", "collect")
SOME = ("sum_of_halved", "no_call_but_all_else", "call_in_argument", "child_sum")
MORE = (*SOME, "three_mutual", "decides_as_it_runs", "gated_tree", "nested_in_branch", "captures")
MORE += ("only_empty_rows", "walk", "branches", "swapped")


def each(
    condition: Callable[[Program], bool] = lambda _: True,
    few: Collection[str] | None = None,
    many: Collection[str] | None = None,
) -> Any:
    """Parametrizes a test with the programs of the list.

    Args:
        condition: which of them.
        few: names of those that the default run takes; by default all.
        many: names of those that `make test` also takes; by default all. The rest is `slow`.
    """
    programs = [program for program in PROGRAMS if condition(program)]
    taken = [item for item in programs if few is None or item.name in few]
    others = [item for item in programs if many is None or item.name in many]
    return pytest.mark.parametrize(
        "program", few_of(programs, *taken, many=others), ids=[item.name for item in programs]
    )
