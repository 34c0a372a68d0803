"""The times of single calls: each way returns the same, and is timed."""

import numpy as np
import pytest

from benchmarks import latency, xla_calls
from benchmarks.trees import tree_of_splits


@pytest.mark.slow
def test_each_way_predicts_the_same(tmp_path):
    tree = tree_of_splits(3, lambda words: words // 2, np.random.default_rng(0))
    ways = latency.make_ways(latency.make_model("own cell, 64 units"), tmp_path)
    first, *others = [
        np.asarray(way(tree.tokens[None], tree.children[None])) for way in ways.values()
    ]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-4, atol=1e-6)
    assert latency.milliseconds(ways["`tf.function`"], tree) > 0
    by_hand = latency.loop_by_hand()
    found, again = [np.asarray(by_hand(tree.tokens[None], tree.children[None])) for _ in range(2)]
    assert np.isfinite(found).all() and found.shape[1] == first.shape[1]
    np.testing.assert_array_equal(again, found)


@pytest.mark.slow
def test_loops_agree_and_are_timed(monkeypatch):
    monkeypatch.setattr(xla_calls, "CALLS", 2)
    found = xla_calls.rows()
    assert {"`tf.function(jit_compile=True)`", "its concrete function"} <= {
        row["program"] for row in found
    }
    assert all(row[150, "level"] > 0 for row in found)
