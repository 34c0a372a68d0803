"""Loops and searches: what they give, what their graphs look like, and what they refuse.

Values and gradients by all engines: `loop_that_calls`, `loops_in_a_loop` and `wins_at_nim` of
`tests/programs.py`.
"""

import re

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import while_loop
from tests.parameters import few_of

INTS = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@kerasrec.recursive
def collatz(n):
    def step(n, count):
        return kerasrec.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), count + 1

    return while_loop(lambda n, _: n > 1, step, (n, 0))[1]


def plain_collatz(n):
    count = 0
    while n > 1:
        n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
    return count


@pytest.mark.slow
def test_each_token_goes_on_as_long_as_it_asks_to():
    n = np.arange(1, 40)
    np.testing.assert_array_equal(collatz(n), list(map(plain_collatz, n)))


def test_its_nodes_are_enter_next_and_exit():
    graph = collatz.tagged_graph(1)
    linkage = re.findall(r"(ENTER|NEXT|EXIT|CALL|RETURN)_(\d+)\(", str(graph))
    assert linkage == [
        ("CALL", "2"), ("RETURN", "2"),
        *[("ENTER", "0")] * 2, ("EXIT", "0"), *[("NEXT", "1")] * 2, ("EXIT", "1"),
    ]  # fmt: skip
    # Nobody reads the last `n`.
    assert "loop loop(n: i32[], count: i32[]) -> i32[]  #" in str(collatz.function_graphs(1))


@pytest.mark.slow
def test_the_state_keeps_its_structure():
    @kerasrec.recursive
    def f(x):
        alone = while_loop(lambda v: v < 9, lambda v: 2 * v, x)
        (listed,) = while_loop(lambda v: v < 9, lambda v: 2 * v, [x])
        named = while_loop(lambda s: s["v"] < 9, lambda s: {"v": 2 * s["v"]}, {"v": x})
        return alone, listed, named

    alone, listed, named = f([1, 10, 3])
    for found in (alone, listed, named["v"]):
        np.testing.assert_array_equal(found, [16, 10, 12])


@pytest.mark.slow
def test_at_most_so_many_iterations():
    @kerasrec.recursive
    def f(x, most):
        three = while_loop(lambda v: v < 100, lambda v: 2 * v, x, maximum_iterations=3)
        own = while_loop(lambda v: v < 100, lambda v: 2 * v, x, maximum_iterations=most)
        return three, own

    np.testing.assert_array_equal(f([1, 99], [0, 3]), [[8, 198], [1, 198]])


@pytest.mark.slow
def test_many_iterations_take_no_depth():
    @kerasrec.recursive(max_depth=3)
    def counted(n):
        return while_loop(lambda k: k < n, lambda k: k + 1, 0)

    assert counted(300_000) == 300_000


@pytest.mark.many
@pytest.mark.parametrize("dtype", few_of(INTS, "int64", many=["uint8"]))
def test_counts_and_indices_are_of_any_int_dtype(dtype):
    """Numbers that int32 does not have are not wrapped: they are too large, or negative."""
    largest = min(tf.as_dtype(dtype).max, 2**32 + 2)

    @kerasrec.recursive
    def f(count):
        row = tf.minimum(count, tf.constant(5, dtype))
        kerasrec.collect("rows", tf.cast(row, tf.float32), row, tf.constant(6, dtype))
        last = while_loop(lambda x: x < 9, lambda x: x + 1, 0, maximum_iterations=count)
        chosen = kerasrec.switch(count, [lambda: 10, lambda: 20, lambda: 30])
        some = kerasrec.any_of(count, lambda number: number == 2)
        return last, chosen, some, kerasrec.all_of(count, lambda number: number < 2)

    found, collected = f.with_collected(tf.constant([0, 1, 2, 3, largest], dtype))
    wanted = [0, 1, 2, 3, 9], [10, 20, 30, 30, 30], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(collected["rows"], [0, 1, 2, 3, 0, 5])


def test_negative_counts_and_indices_of_int64():
    @kerasrec.recursive
    def f(n):
        last = while_loop(lambda x: x < 9, lambda x: x + 1, 0, maximum_iterations=n)
        return last, kerasrec.any_of(n, lambda number: number == 0)

    last, some = f(tf.constant([-1, -(2**32) + 1, -(2**63), 1], tf.int64))
    assert last.numpy().tolist() == [0, 0, 0, 1] and some.numpy().tolist() == [False] * 3 + [True]

    @kerasrec.recursive
    def row(n):
        kerasrec.collect("rows", 1.0, n, 6)
        return n

    with pytest.raises(tf.errors.InvalidArgumentError, match="an index of `rows` is outside its"):
        row(tf.constant([2**32 + 1], tf.int64))


class TestRefuses:
    def refusal(self, kind, message, *args):
        @kerasrec.recursive
        def f(x):
            return tf.nest.flatten(while_loop(*[item(x) for item in args]))[0]

        with pytest.raises(kind, match=message):
            f([1.0, 2.0])

    def test_a_condition_that_is_no_truth_value(self):
        self.refusal(
            kerasrec.TraceError,
            r"kerasrec.while_loop at .*: `cond` must be one bool value per token",
            lambda x: lambda v: v,
            lambda x: lambda v: v + 1,
            lambda x: x,
        )

    def test_another_nest(self):
        self.refusal(
            kerasrec.SignatureError,
            r"body of kerasrec.while_loop at .* returns tensor, and .* is \[tensor, tensor\]",
            lambda x: lambda v, k: v < 1,
            lambda x: lambda v, k: v + 1,
            lambda x: (x, 0),
        )

    def test_another_type(self):
        self.refusal(
            kerasrec.SignatureError,
            r"returns f32\[\] where the state before it has i32\[\] \(tensor 1 of the state\)",
            lambda x: lambda v, k: v < 1,
            lambda x: lambda v, k: (v + 1, tf.cast(k, tf.float32)),
            lambda x: (x, 0),
        )

    def test_no_state(self):
        message = r"The state of kerasrec.while_loop at .* is \[\]; it has no tensors"
        self.refusal(kerasrec.SignatureError, message, *[lambda x: len] * 2, lambda x: [])

    def test_something_that_is_no_function(self):
        message = "`body` of kerasrec.while_loop at .* is 7, not a function of the state"
        self.refusal(kerasrec.SignatureError, message, lambda x: len, lambda x: 7, lambda x: x)

    def test_a_fraction_of_iterations(self):
        self.refusal(
            kerasrec.SignatureError,
            r"`maximum_iterations` of .* must be an int, or one int per token, .* it is float32",
            lambda x: lambda v: v < 1,
            lambda x: lambda v: v + 1,
            lambda x: x,
            lambda x: 1.5,
        )

    def test_outside_of_a_recursive_function(self):
        with pytest.raises(kerasrec.TraceError, match="while_loop was called outside a recursive"):
            while_loop(lambda v: v < 3, lambda v: v + 1, 0)


@kerasrec.recursive
def is_third(k):
    return k == 2


@kerasrec.recursive
def search(n):
    return kerasrec.any_of(n, is_third), kerasrec.all_of(n, lambda k: ~is_third(k))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "num_tried"), few_of([(0, 0), (2, 2), (3, 3), (50, 3)], many=[(50, 3)])
)
def test_a_search_stops_at_the_first(n, num_tried):
    """Search and its two loops are calls; each iteration is one, and each question."""
    found, never = search(n)
    assert (bool(found), bool(never)) == (n > 2, n <= 2)
    assert search.run_trace(n).num_calls == 3 + 2 * num_tried * 2


@pytest.mark.many
def test_what_a_search_refuses():
    for test in (kerasrec.any_of, kerasrec.all_of):
        name = f"kerasrec.{test.__name__}"

        @kerasrec.recursive
        def g(n, test=test):
            return test(n, lambda k: k)

        message = rf"{name} at .*: `predicate` must be one bool value .* it is int32"
        with pytest.raises(kerasrec.TraceError, match=message):
            g(3)
    for outside in (
        lambda: kerasrec.any_of(3, tf.is_tensor),
        lambda: kerasrec.all_of(3, tf.is_tensor),
    ):
        with pytest.raises(kerasrec.TraceError, match="outside a recursive function"):
            outside()


@pytest.mark.parametrize("of", [kerasrec.any_of, kerasrec.all_of])
@pytest.mark.parametrize("count", [lambda _: 1.5, lambda n: n > 0, lambda n: tf.stack([n, n], 1)])
def test_counts_that_are_not_ints(of, count):
    f = kerasrec.recursive(lambda n: of(count(n), lambda number: number < n))
    with pytest.raises(kerasrec.SignatureError, match=r"`count` of kerasrec.a.*must be an int, or"):
        f(1)
