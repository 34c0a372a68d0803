"""The benchmark of `memo=True` runs, and does not time what computes something else."""

import functools
import json

import numpy as np
import pytest

from benchmarks import sharing, sharing_calls
from benchmarks.sharing_cases import Edits, Inside


@pytest.mark.slow
def test_quick_run(tmp_path, monkeypatch, capsys):
    path = str(tmp_path / "sharing.json")
    monkeypatch.setattr("sys.argv", ["sharing", "--quick", "--repeats", "1", "--json", path])
    sharing.main()
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    assert all(row["memo"] == row["cache"] < row["every"] for row in found["calls"])
    printed = capsys.readouterr().out
    for section in ("inside", "chain", "edits"):
        assert all(f"| {row['name']} |" in printed for row in found[section])
        assert all(row["forward"]["of"] > 0 for row in found[section] if "first" in row)


def test_distances_are_those_of_plain_recursion():
    case = Edits(3, 5)
    for first, second, distance in zip(*case.strings, case.expected({}), strict=True):
        plain = functools.partial(sharing_calls.plain_distance, first, second)
        find, _ = sharing_calls.counted(plain)
        assert find(5, 5) == distance


def test_wrong_values_end_the_run():
    case = Inside(2, 3, 2)
    values = case.expected(case.weights(None))
    with pytest.raises(ValueError, match="torch computes wrong values"):
        sharing.check(case, "torch", {"output": 1.01 * values})


@pytest.mark.many
def test_a_wrong_gradient_ends_the_run():
    case = Inside(2, 3, 2)
    weights = case.weights(None)
    computed = {f"gradient of {name}": np.ones_like(value) for name, value in weights.items()}
    with pytest.raises(ValueError, match="jax computes a wrong gradient"):
        sharing.check(case, "jax", computed | {"output": case.expected(weights)})
