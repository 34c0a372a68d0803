"""Programs that nobody thought of: drawn from a small grammar, run as plain Python runs them.

program := cond(n <= 0, expr without calls, expr)
expr    := x | NUMBER | expr + expr | expr * expr | sin(expr) | f(expr, n - STEP)
           | cond(expr > NUMBER, expr, expr) | cond(n % 2 == 0, expr, expr)
"""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kerasrec
from tests.engine.helpers import (
    assert_same,
    run_engine,
    run_in_function,
    run_interpreter,
    run_on_stack,
    run_plain,
)
from tests.programs import Program

NUMBERS = st.sampled_from([-0.9, -0.3, 0.2, 0.7])
LEAVES = st.one_of(st.just(("x",)), st.tuples(st.just("number"), NUMBERS))


def grow(parts: st.SearchStrategy, calls: bool) -> st.SearchStrategy:
    choices = [
        st.tuples(st.just("add"), parts, parts),
        st.tuples(st.just("multiply"), parts, parts),
        st.tuples(st.just("sin"), parts),
        st.tuples(st.just("if_above"), parts, NUMBERS, parts, parts),
        st.tuples(st.just("if_even"), parts, parts),
    ]
    if calls:
        call = st.tuples(st.just("call"), parts, st.integers(1, 2))
        choices += [call, st.tuples(st.just("add"), call, call)]
    return st.one_of(choices)


def count_calls(expr) -> int:
    inside = sum(count_calls(part) for part in expr if isinstance(part, tuple))
    return inside + (expr[0] == "call")


BASES = st.recursive(LEAVES, lambda parts: grow(parts, calls=False), max_leaves=3)
STEPS = st.recursive(LEAVES, lambda parts: grow(parts, calls=True), max_leaves=6).filter(
    lambda expr: 1 <= count_calls(expr) <= 3
)


def evaluate(expr, x, n, call, cond):
    """The value of an expression, for many tokens or for one.

    Args:
        expr: from the grammar.
        x: float.
        n: int.
        call: what a call does.
        cond: how to choose between two functions without arguments.
    """

    def value(part):
        return evaluate(part, x, n, call, cond)

    match expr:
        case ("x",):
            return x
        case ("number", number):
            return tf.ones_like(x) * number
        case ("add", one, other):
            return value(one) + value(other)
        case ("multiply", one, other):
            return value(one) * value(other)
        case ("sin", part):
            return tf.sin(value(part))
        case ("call", part, step):
            return call(value(part), n - step)
        case ("if_above", part, number, one, other):
            return cond(value(part) > number, lambda: value(one), lambda: value(other))
        case ("if_even", one, other):
            return cond(n % 2 == 0, lambda: value(one), lambda: value(other))
    raise ValueError(expr)


def program_of(base, step) -> Program:
    @kerasrec.recursive
    def f(x, n):
        return kerasrec.cond(
            n <= 0,
            lambda: evaluate(base, x, n, f, kerasrec.cond),
            lambda: evaluate(step, x, n, f, kerasrec.cond),
        )

    def choose(pred, true_fn, false_fn):
        return true_fn() if pred else false_fn()

    def plain(x, n):
        return evaluate(base if n <= 0 else step, x, n, plain, choose)

    x, n = np.array([0.45, -0.61, 1.13, 0.05]), np.array([3, 0, 2, 4], np.int32)
    return Program("random", f, plain, (x, n), has_gradient=True)


OPTIONS = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much],
}


@settings(max_examples=15, derandomize=True, phases=[Phase.generate, Phase.shrink], **OPTIONS)
@given(base=BASES, step=STEPS)
def test_random_program(base, step):
    program = program_of(base, step)
    assert_same(run_engine(program), run_plain.__wrapped__(program))


@pytest.mark.slow
@settings(max_examples=100, **OPTIONS)
@given(base=BASES, step=STEPS)
def test_random_program_in_every_way(base, step):
    program = program_of(base, step)
    expected = run_plain(program)
    assert_same(run_engine(program), expected)
    assert_same(run_in_function(program, program.num_tokens), expected)
    assert_same(run_on_stack(program), expected)
    run, found = run_interpreter(program)
    assert_same(run, expected)
    assert found.fired_under_tag == 1
