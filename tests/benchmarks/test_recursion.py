"""The benchmark of recursion runs, from its options to its files."""

import json

import pytest

from benchmarks import recursion


@pytest.mark.slow
def test_quick_run(tmp_path, monkeypatch, capsys):
    paths = [str(tmp_path / "tables.json"), str(tmp_path / "depth.png")]
    options = ["--quick", "--repeats", "1", "--json", paths[0], "--plot", paths[1]]
    monkeypatch.setattr("sys.argv", ["recursion", *options])
    recursion.main()
    with open(paths[0], encoding="utf-8") as file:
        tables = json.load(file)
    assert all(row["speed-up"] > 0 for row in tables["calls"] + tables["batch"])
    assert len({row["kerasrec ops"] for row in tables["depth"]}) == 1
    sizes = {(row["call"].split("(")[0], row["nodes"], row["ops"]) for row in tables["growth"]}
    assert len(sizes) == 4
    printed = capsys.readouterr().out
    for rows in (tables["calls"], tables["batch"], tables["growth"]):
        assert all(f"| {row['call']} |" in printed for row in rows)
    assert (tmp_path / "depth.png").read_bytes().startswith(b"\x89PNG")
