"""The benchmark of loops runs, and all its computations are right both ways."""

import json

import pytest

from benchmarks import loops


@pytest.mark.slow
def test_quick_run(tmp_path, monkeypatch, capsys):
    path = str(tmp_path / "loops.json")
    monkeypatch.setattr("sys.argv", ["loops", "--quick", "--repeats", "1", "--json", path])
    loops.main()
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    assert len(rows) == 3
    assert all(row["over loop"] > 0 and row["over XLA"] > 0 for row in rows)
    printed = capsys.readouterr().out
    assert all(f"| {row['case']} |" in printed for row in rows)


def test_a_wrong_result_ends_the_run():
    loops.check("ack(2, 3)", "loop", 9, 9)
    with pytest.raises(ValueError, match=r"loop returns 8 for ack\(2, 3\); expected 9"):
        loops.check("ack(2, 3)", "loop", 8, 9)
