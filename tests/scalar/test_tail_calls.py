"""Calls whose results are returned as they are take the frames of their callers."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.scalar import sweeps
from kerasrec._src.schedule.tails import tail_calls
from tests.programs import PROGRAMS


def labels_of_tail_calls(program):
    graph = program.function.tagged_graph(*program.inputs)
    return [tail_calls(body, graph.call_sites.values()) for body in graph.bodies.values()]


def test_tail_calls_are_found():
    """Of Ackermann's three calls those that are returned; none of fib's."""
    found = {program.name: labels_of_tail_calls(program) for program in PROGRAMS[:5]}
    assert found["fib"] == found["factorial"] == [set()]
    assert found["ackermann"] == [{0, 2}]
    assert [len(labels) for labels in found["is_even"]] == [1, 1]


def counting(**options):
    @kerasrec.recursive(engine="scalar", **options)
    def tail(n, total):
        return kerasrec.cond(n == 0, lambda: total, lambda: tail(n - 1, total + n % 3))

    return tail


@pytest.mark.slow
def test_they_nest_nothing():
    tail = counting(max_depth=2)
    np.testing.assert_array_equal(tail([300_000, 5, 0], [0, 1, 2]), [300_000, 7, 2])


@pytest.mark.slow
def test_calls_of_each_other_nest_nothing():
    @kerasrec.recursive(engine="scalar", max_depth=3)
    def even(n):
        return kerasrec.cond(n == 0, lambda: True, lambda: odd(n - 1))

    @kerasrec.recursive
    def odd(n):
        return kerasrec.switch(tf.minimum(n, 1), [lambda: False, lambda: even(n - 1)])

    np.testing.assert_array_equal(even([1001, 1000]), [False, True])


@pytest.mark.slow
def test_what_is_read_by_others_too_is_no_tail_call():
    @kerasrec.recursive(engine="scalar")
    def pair(n):
        def again():
            a, b = pair(n - 1)
            return a, a + b

        return kerasrec.cond(n == 0, lambda: (1, 1), again)

    assert [int(item) for item in pair(6)] == [1, 7]

    @kerasrec.recursive(engine="scalar")
    def swapped(n, a, b):
        def again():
            a_below, b_below = swapped(n - 1, a + 1, b)
            return b_below, a_below

        return kerasrec.cond(n == 0, lambda: (a, b), again)

    assert [int(item) for item in swapped(3, 0, 10)] == [10, 3]


@pytest.mark.slow
def test_calls_for_the_arguments_of_a_tail_call_are_made_before_it():
    """They may fail. A call whose result nobody reads is not made, so it cannot."""

    @kerasrec.recursive(engine="scalar")
    def f(n):
        def again():
            divided(n - 1)
            return f(n - 1 + 0 * divided(n - 2))

        return kerasrec.cond(n <= 0, lambda: n, again)

    @kerasrec.recursive
    def divided(n):
        return 6 // n

    assert f(1) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="by zero"):
        f(2)


@pytest.mark.slow
def test_a_frame_that_is_taken_has_failed_before():
    @kerasrec.recursive(engine="scalar")
    def f(n):
        return kerasrec.cond(n <= 0, lambda: n, lambda: f(n - 1 + 0 * (6 // (n - 2))))

    assert f(1) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="by zero"):
        f(4)


@pytest.mark.slow
def test_they_nest_in_a_gradient():
    @kerasrec.recursive(engine="scalar", max_depth=2)
    def power(x, n, product):
        return kerasrec.cond(n == 0, lambda: product, lambda: power(x, n - 1, product * x))

    x = tf.constant([1.001, 0.999], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = power(x, [5000, 3], tf.ones([2], tf.float64))
    np.testing.assert_allclose(y, x ** [5000.0, 3.0], rtol=1e-9)
    np.testing.assert_allclose(tape.gradient(y, x), [5000, 3] * x ** [4999.0, 2.0], rtol=1e-9)


ENDLESS = r": 1,000 tail calls in a row\. Does every path reach a base case"


@pytest.mark.slow
def test_those_that_never_end_are_stopped(monkeypatch):
    monkeypatch.setattr(sweeps, "MOST_TAIL_CALLS", 1000)
    tail = counting()
    assert tail(999, 0) == 999
    with pytest.raises(tf.errors.InvalidArgumentError, match=ENDLESS):
        tail(-1, 0)


@pytest.mark.slow
def test_calls_between_them_do_not_hide_that_they_never_end(monkeypatch):
    monkeypatch.setattr(sweeps, "MOST_TAIL_CALLS", 1000)

    @kerasrec.recursive(engine="scalar")
    def below(n):
        return kerasrec.cond(n < 1, lambda: 0, lambda: 1 + below(n - 1))

    @kerasrec.recursive(engine="scalar")
    def endless(n):
        return kerasrec.cond(n == 7, lambda: n, lambda: endless(n + 2 + 0 * below(3)))

    assert endless(1) == 7
    with pytest.raises(tf.errors.InvalidArgumentError, match=ENDLESS):
        endless(0)
