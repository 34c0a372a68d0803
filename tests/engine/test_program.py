"""A program makes its schedules when they are first needed."""

import pytest
import tensorflow as tf

import kerasrec


def made(program):
    return {name for name in ("schedule", "blocks", "blocks_of_values") if name in vars(program)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, set()),
        ({"engine": "waves"}, {"schedule"}),
        ({"engine": "waves", "parallel_tokens": 2}, set()),
    ],
    ids=str,
)
def test_schedules_that_a_call_needs(options, expected):
    @kerasrec.recursive(**options)
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    assert fib(7) == 13
    plan = fib.execution_plan(7)
    assert made(plan.program) == expected
    assert "receive n" in str(plan)
    assert made(plan.program) == {"schedule"}


def test_a_program_with_memo_says_at_once_what_is_not_possible():
    @kerasrec.recursive(memo=True)
    def drawn(n):
        step = tf.random.uniform(tf.shape(n), 1, 3, tf.int32)
        return kerasrec.cond(n < 1, lambda: n, lambda: drawn(n - step))

    with pytest.raises(kerasrec.TraceError, match="memo"):
        drawn.tagged_graph(tf.constant([3]))
