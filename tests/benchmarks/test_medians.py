"""Medians over turns, ratios of one turn, and exponents fitted to them."""

import numpy as np
import pytest

from benchmarks import fits, medians
from benchmarks.baseline_rows import over_the_best
from benchmarks.batch import Batch


def test_ratios_are_of_the_same_turn():
    times = {
        "kerasrec": [(1.0, 0.0), (2.0, 0.0), (4.0, 0.0)],
        "torch levels": [(3.0, 1.5), (2.0, 1.0), (16.0, 4.0)],
    }
    row = medians.summary(times)
    assert row["baselines"]["kerasrec"]["trees/s"] == 0.5
    assert row["baselines"]["torch levels"] == {
        "trees/s": 1 / 3,
        "share": 0.5,
        "seconds": [3.0, 2.0, 16.0],
    }
    assert row["times"] == {"torch levels": 1 / 3}


def test_steps_are_gathered_into_groups():
    one, two = (Batch(*[np.zeros([size, 1], np.int32)] * 3) for size in (1, 2))
    steps = {
        "kerasrec": [[(1.0, 0.0), (3.0, 0.0), (8.0, 0.0)]] * 2 + [[(9.0, 0.0)] * 3],
        "iterative": [[(2.0, 0.5), (2.0, 1.5), (4.0, 1.0)]] * 3,
    }
    first, last = medians.of_groups(steps, [[one, one], [two]])
    assert first["baselines"]["kerasrec"]["seconds"] == [2.0, 2.0, 9.0]
    assert first["baselines"]["kerasrec"]["each"] == [1.0, 3.0]
    assert first["baselines"]["iterative"]["share"] == 0.5
    assert first["times"] == {"iterative": 1.0}
    assert last["baselines"]["kerasrec"]["trees/s"] == 0.25
    assert last["times"] == {"iterative": 2.0}


def test_the_best_is_the_fastest_of_those_that_ran():
    row = {
        "times": {"iterative": 0.5, "torch levels": 0.8, "dense limit": 2.0},
        "baselines": {
            "iterative": {"trees/s": 5.0},
            "torch levels": {"trees/s": 9.0},
            "dense limit": {"trees/s": 20.0},
        },
    }
    assert over_the_best(["iterative", "torch levels", "dgl"])(row) == "1.25 (torch levels)"
    assert over_the_best(["dgl"])(row) == ""


def test_exponents():
    nodes = [3, 7, 15, 31]
    assert fits.exponent(nodes, [5 * number**0.5 for number in nodes]) == pytest.approx(0.5)
    rows = [
        {
            "nodes": number,
            "batch": 4,
            "baselines": {"kerasrec": {"trees/s": 4 / number}, "dense limit": {"trees/s": 4.0}},
        }
        for number in nodes
    ]
    assert fits.exponents(rows, "nodes") == pytest.approx({"kerasrec": 1.0, "dense limit": 0.0})
    cells = fits.columns(["kerasrec", "iterative"])
    assert [cell({"exponents": {"kerasrec": 0.5}}) for cell in cells.values()] == ["0.50", ""]
