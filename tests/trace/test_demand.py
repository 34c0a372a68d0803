"""What is computed only for the tokens that read it.

Values and gradients by all engines: `passes_a_lazy_value` and `wins_at_nim` of `tests/programs.py`.
"""

import copy

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of
from tests.programs import fib


@kerasrec.recursive
def pick(flag, n, x):
    return kerasrec.cond(flag, lambda: n, lambda: x() if callable(x) else x)


@pytest.mark.slow
def test_what_nobody_reads_is_not_computed():
    """The call of pick, and of the function that calls it; fib(10) alone makes 177."""

    @kerasrec.recursive
    def eager(n, flag):
        return pick(flag, n, fib(n))

    @kerasrec.recursive
    def on_demand(n, flag):
        return pick(flag, n, kerasrec.lazy(lambda: fib(n)))

    assert eager.run_trace(10, True).num_calls == 179
    assert on_demand.run_trace(10, True).num_calls == 2
    assert on_demand.run_trace(10, False).num_calls == 179
    np.testing.assert_array_equal(on_demand([10, 10], [True, False]), [10, 55])


@pytest.mark.slow
def test_what_never_ends_does_no_harm_where_nobody_reads_it():
    @kerasrec.recursive
    def endless(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: 1 + endless(n + 1))

    @kerasrec.recursive
    def safe(n):
        return pick(n > 0, n, kerasrec.lazy(lambda: endless(n)))

    np.testing.assert_array_equal(safe([1, 2]), [1, 2])


@pytest.mark.slow
def test_a_copy_has_computed_nothing():
    later = kerasrec.lazy(lambda: 3)

    @kerasrec.recursive
    def f(n, x):
        return n + x()

    assert f(1, later) == f(1, copy.copy(later)) == f(1, copy.deepcopy(later)) == 4


@pytest.mark.slow
def test_within_a_branch_it_is_computed_once():
    """And once in each of two branches that exclude each other, which do not see each other."""

    @kerasrec.recursive
    def f(n):
        x = kerasrec.lazy(lambda: fib(n))

        def reads_twice():
            return x() + kerasrec.cond(n > 3, lambda: x(), lambda: -x())

        return kerasrec.cond(n < 2, lambda: x() + x(), reads_twice)

    np.testing.assert_array_equal(f([1, 3, 4, 10]), [2, 0, 6, 110])
    assert f.run_trace(10).num_calls == 178
    assert f.run_trace(1).num_calls == 2


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
def test_what_is_refused():
    @kerasrec.recursive
    def f(n):
        return kerasrec.lazy(fib(n))()

    with pytest.raises(kerasrec.SignatureError, match=r"lazy at .*, which is computed already"):
        f(3)

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
        kerasrec.lazy(lambda: 3),
    ):
        with pytest.raises(kerasrec.TraceError, match="outside a recursive function"):
            outside()


@pytest.mark.parametrize("of", [kerasrec.any_of, kerasrec.all_of])
@pytest.mark.parametrize("count", [lambda _: 1.5, lambda n: n > 0, lambda n: tf.stack([n, n], 1)])
def test_counts_that_are_not_ints(of, count):
    f = kerasrec.recursive(lambda n: of(count(n), lambda number: number < n))
    with pytest.raises(kerasrec.SignatureError, match=r"`count` of kerasrec.a.*must be an int, or"):
        f(1)
