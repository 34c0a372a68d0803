"""Numbers of calls by key, against a dict of Python."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.memo import call_table
from kerasrec._src.memo.call_table import NumberTable


@pytest.mark.parametrize("is_mixed", [True, pytest.param(False, marks=pytest.mark.many)])
def test_numbers(is_mixed, monkeypatch):
    """Also where the column that stands for a key tells none apart."""
    if not is_mixed:
        monkeypatch.setattr(call_table, "_mixed", lambda keys: tf.zeros_like(keys[:, 0]))
    rng = np.random.default_rng(0)
    calls, expected, count = NumberTable(3), {}, 0
    for size in (1, 40, 0, 300, 2):
        columns = rng.integers(-3, 4, [2, size])
        bodies = [0, 1] if size else [0]
        keys = tf.concat([calls.key(body, list(columns)) for body in bodies], 0)
        numbers, is_new = calls.number(keys, tf.constant(count))
        rows = [(body, *map(int, row)) for body in bodies for row in columns.T]
        before = len(expected)
        wanted = [expected.setdefault(row, len(expected)) for row in rows]
        assert numbers.numpy().tolist() == wanted
        firsts = [wanted.index(number) for number in range(before, len(expected))]
        assert np.flatnonzero(is_new).tolist() == firsts
        count = len(expected)
