"""A bound on how many tokens run at once changes no result."""

import numpy as np
import pytest

import kerasrec
from tests.engine.helpers import assert_same, run_lowered, run_plain
from tests.parameters import few_of
from tests.programs import each


@each(few=[], many=[])
def test_every_program(program):
    assert_same(run_lowered(program, engine="waves", parallel_tokens=2), run_plain(program))


@pytest.mark.parametrize("parallel_tokens", few_of([1, 3, 4, 5, 1000], 3, many=[]))
def test_any_bound(parallel_tokens):
    @kerasrec.recursive(parallel_tokens=parallel_tokens, engine="waves")
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    np.testing.assert_array_equal(fib([9, 0, 7, 8, 1, 3]), [34, 0, 13, 21, 1, 2])
    np.testing.assert_array_equal(fib(np.zeros([0], np.int32)), np.zeros([0]))


def test_no_token_at_all_is_no_bound():
    with pytest.raises(kerasrec.TraceError, match="parallel_tokens is 0; it must be at least 1"):
        kerasrec.recursive(parallel_tokens=0)(lambda n: n)


@pytest.mark.many
def test_the_plan_says_so():
    @kerasrec.recursive(parallel_tokens=5000, engine="waves")
    def half(x):
        return kerasrec.cond(x < 1.0, lambda: x, lambda: half(x / 2.0))

    assert half.execution_plan(3.0).summary == "engine: waves, at most 5,000 tokens at once"
