"""Results of the section `convergence` from epochs."""

import math

import numpy as np
import pytest

from benchmarks import convergence
from benchmarks.baselines import OURS, baseline_class
from benchmarks.epochs import Epochs
from benchmarks.model import initial_values
from benchmarks.process import ROOT


def epoch(seconds, losses):
    return {"seconds": seconds, "losses": losses, "accuracy": {"nodes": 0.5, "roots": 0.25}}


def measured(theirs):
    return [
        {"iterative": epoch(0.0, []), "kerasrec": epoch(0.0, [])},
        {"iterative": epoch(3.0, [4.0, 2.0]), "kerasrec": epoch(1.0, [4.0, 2.0])},
        {"iterative": epoch(4.0, theirs), "kerasrec": epoch(2.0, [2.0, 1.0])},
    ]


def test_seconds_add_up_and_ratios_are_of_one_epoch():
    rows, problems = convergence.rows_of(measured([2.0, 1.001]))
    assert problems == []
    assert [row["baselines"]["iterative"]["seconds"] for row in rows] == [0.0, 3.0, 7.0]
    assert [row["baselines"]["kerasrec"]["seconds"] for row in rows] == [0.0, 1.0, 3.0]
    assert [row["times"].get("iterative") for row in rows] == [None, 1 / 3, 0.5]
    assert [row.get("difference") for row in rows] == [None, 0.0, pytest.approx(1e-3)]
    text = convergence.markdown(
        {"rows": [{"model": "RNTN", "units": 3, "batch": 2, **row} for row in rows]}
    )
    assert "| 2 | 1.500 | 1e-03 | 50.0 % | 25.0 % | 7.00 | 3.00 | 2.00 |" in text


@pytest.mark.parametrize("wrong", [1.2, math.nan])
def test_other_losses_do_not_count(wrong):
    rows, (problem,) = convergence.rows_of(measured([2.0, wrong]))
    assert "iterative: its losses differ from those of kerasrec" in problem
    assert all({*row["baselines"]} == {"kerasrec"} for row in rows)


def test_of_some_models_the_first_steps_are_compared():
    rows, problems = convergence.rows_of(measured([2.0, 1.2]), 3)
    assert problems == [] and rows[2]["difference"] == pytest.approx(0.2)
    assert convergence.rows_of(measured([2.0, math.nan]), 3)[1]
    assert convergence.rows_of(measured([2.4, 1.0]), 3)[1]


@pytest.mark.slow
def test_rounding_errors_of_an_rntn_grow_as_it_trains():
    trees = Epochs(str(ROOT / "data" / "treebank"))
    values, rng = initial_values("RNTN", trees.num_words(), 30), np.random.default_rng(1)
    near = {
        name: value * (1 + 1e-7 * rng.standard_normal(value.shape)).astype(np.float32)
        for name, value in values.items()
        if name != "table"
    }
    batches, losses = trees.train(25, 0)[:60], []
    for start in (values, values | near):
        baseline = baseline_class(OURS)("RNTN", start)
        losses.append(
            np.array([float(baseline.train(*baseline.inputs(batch))) for batch in batches])
        )
    apart = np.abs(losses[1] / losses[0] - 1)
    assert np.max(apart[: convergence.COMPARED["RNTN"]]) < convergence.TOLERANCE < np.max(apart)
