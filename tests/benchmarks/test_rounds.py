"""Programs of several rounds compute the same, whoever runs them, and what is asked of them."""

import json

import numpy as np
import pytest

from benchmarks import rounds
from benchmarks.baselines.rounds_by_hand import RoundsByHand
from benchmarks.process import Failed, Process
from benchmarks.rounds_cases import make_case, make_weights
from benchmarks.rounds_programs import Compiled, Kerasrec

WEIGHTS = make_weights(4)
CASES = [make_case(program, max(of), size) for (program, size), of in rounds.QUICK.items()]
QUICK = ("walk",)
BY_HAND = [case for case in CASES if case.program in ("walk", "branches")]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case.program in QUICK else pytest.mark.slow, id=case.title)
        for case in CASES
    ],
)
def test_kerasrec(case):
    rounds.check(case, "kerasrec", Kerasrec(WEIGHTS).computed(case), WEIGHTS)


@pytest.mark.slow
@each_case
def test_compiled(case):
    rounds.check(case, "compiled", Compiled(WEIGHTS).computed(case), WEIGHTS)


@pytest.mark.many
@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.title)
def test_by_hand(case):
    rounds.check(case, "by hand", RoundsByHand(WEIGHTS).computed(case), WEIGHTS)


def test_dynet():
    try:
        process = Process(rounds.RUNNERS["dynet"], WEIGHTS)
    except Failed as failed:
        pytest.skip(str(failed))
    with process:
        for case in BY_HAND:
            rounds.check(case, "dynet", process.call("computed", case), WEIGHTS)


def test_what_is_not_there_is_not_run():
    assert RoundsByHand(WEIGHTS).computed(make_case("parser", 1)) is None


@pytest.mark.parametrize("wrong", ["output", "gradient of bias"])
def test_a_wrong_result_ends_the_run(wrong):
    case = make_case("branches", 4, 2)
    computed = RoundsByHand(WEIGHTS).computed(case)
    computed[wrong] = computed[wrong] * 1.01
    with pytest.raises(ValueError, match=r"by hand computes a wrong .*branches, depth 2"):
        rounds.check(case, "by hand", computed, WEIGHTS)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 3])
def test_waves_of_one_root(depth):
    traced = Kerasrec(WEIGHTS).traced(make_case("branches", 1, depth))
    assert traced["waves"] == traced["calls"] == 2 * depth + 1


@pytest.mark.slow
def test_a_walk_calls_each_tree_node_once():
    traced = Kerasrec(WEIGHTS).traced(make_case("walk", 3))
    assert traced["calls"] == 3 * 39
    assert 39 <= traced["waves"] < 3 * 39


def test_bounds():
    walk = {"program": "walk", "size": None, "batch": 16, "waves": 46}
    times = {"forward / smallest": 3.9, "gradient / smallest": 4.1}
    branches = {"program": "branches, depth 4", "size": 4, "batch": 1, "waves": 9}
    other = {"program": "fib", "size": None, "batch": 256, "waves": 1000}
    asked = rounds.bounds([walk | times, branches, other])
    assert [row["value"] <= row["at most"] for row in asked] == [False, True, False, True]


def test_cases_are_alike_in_all_batches():
    one, many = make_case("walk", 1), make_case("walk", 3)
    np.testing.assert_array_equal(one.inputs["children"], many.inputs["children"][:39])
    assert make_case("branches", 1, 3).inputs["kinds"].tolist() == [0]
    assert sorted(make_case("branches", 8, 3).inputs["kinds"]) == list(range(8))


@pytest.mark.slow
def test_quick_run(tmp_path, monkeypatch, capsys):
    path = str(tmp_path / "rounds.json")
    options = ["--quick", "--programs", "walk", "fib", "--units", "4", "--repeats", "1"]
    options += ["--json", path]
    monkeypatch.setattr("sys.argv", ["rounds", *options])
    rounds.main()
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    assert [row["program"] for row in found["rows"]] == ["walk", "walk", "fib", "fib"]
    assert all(row["forward"] > 0 and row["waves"] > 0 for row in found["rows"])
    assert any("gradient over by hand" in row for row in found["rows"])
    printed = capsys.readouterr().out
    assert all(f"| {row['what']} |" in printed for row in found["bounds"])
