"""The pass `integers_by_level`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.schedule.build import build
from kerasrec._src.schedule.instructions import Fire
from kerasrec._src.schedule.passes import integers_by_level, optimize
from tests.memo.cases import at

_LETTERS = np.int32([[2, 0, 1], [1, 1, 2]])


def _ops(function, *arguments):
    """The ops of the first loop, and those behind it, after the pass."""
    schedule = optimize(build(function.extended_graph(*arguments)), [integers_by_level])
    return [
        [
            one.node.op
            for segment in section.segments
            for one in segment.instructions
            if isinstance(one, Fire)
        ]
        for section in schedule.sections[:2]
    ]


@pytest.mark.slow
def test_integers_of_a_program_with_memo_are_computed_in_its_loop():
    @kerasrec.recursive(memo=True)
    def matches(a, n):
        return kerasrec.cond(n < 1, lambda: n, lambda: matches(a, n - 1) + at(a, n - 1))

    in_loop, behind = _ops(matches, _LETTERS, [3, 3])
    assert "GatherNd" in in_loop
    assert not behind
    np.testing.assert_array_equal(matches(_LETTERS, [3, 2]), [3, 2])


@pytest.mark.many
def test_floats_and_what_they_give_stay_behind_it():
    @kerasrec.recursive(memo=True)
    def rounded(x, n):
        def add():
            return rounded(x, n - 1) + tf.cast(tf.exp(at(x, n - 1)), tf.int32)

        return kerasrec.cond(n < 1, lambda: n, add)

    in_loop, behind = _ops(rounded, np.float32([[0.0, 1.0]]), [2])
    assert "Exp" not in in_loop
    assert {"Exp", "Cast"} <= set(behind)
    np.testing.assert_array_equal(rounded(np.float32([[0.0, 1.0]]), [2]), [3])


@pytest.mark.many
def test_programs_without_memo_are_left_as_they_are():
    @kerasrec.recursive
    def count(n):
        return kerasrec.cond(n < 1, lambda: n * n, lambda: count(n - 1) + n * n)

    schedule = build(count.extended_graph([3]))
    assert integers_by_level(schedule) is schedule
