"""The papers' tables next to ours: the command, its results from times, and the page."""

import argparse
import re
import sys
from pathlib import Path
from unittest import mock

import pytest

from benchmarks import __main__ as benchmarks_command
from benchmarks import depth
from benchmarks.papers import __main__ as command
from benchmarks.papers import (
    calls,
    folding,
    jeong_2018,
    kostopoulou,
    kostopoulou_2018,
    runs,
    throughput,
    tree_rnn,
)
from benchmarks.papers.tables import NOT_RUN, table

PAGE = Path(__file__).parents[2] / "benchmarks" / "papers.md"
OPTIONS = argparse.Namespace(quick=False, data=None, repeats=1, units=None, python=[], device="cpu")


def found(model, batch, baselines):
    """Results of `speed` if the n-th baseline takes n times as long as the first; without DGL."""
    rows = []
    for mode in ("training", "inference"):
        for size in batch:
            of = {name: {"trees/s": 60.0 * size / n} for n, name in enumerate(baselines, 1)}
            ours = of["kerasrec"]["trees/s"]
            times = {name: it["trees/s"] / ours for name, it in of.items() if name != "kerasrec"}
            row = {"model": model, "units": 30, "mode": mode, "batch": size}
            rows.append({**row, "baselines": of, "times": times})
    return {"description": {"trees": 2}, "notes": ["dgl: not installed"], "rows": rows}


@pytest.fixture
def fake_runs(monkeypatch):
    def run(section, options, model, batch, baselines, **choices):
        return found(model, batch, baselines)

    monkeypatch.setattr(runs, "run", run)


def cells(markdown):
    """The cells of each row of each table, headings among them."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not all(re.fullmatch("-+:?", cell) for cell in row)]


@pytest.mark.parametrize("section", [tree_rnn, folding, throughput])
def test_sections_have_theirs_and_ours(section, fake_runs):
    parts = section.run(OPTIONS)
    assert "- dgl: not installed" in parts
    rows = cells("\n".join(parts))
    assert all(cell for row in rows for cell in row)
    theirs = {
        tree_rnn: ["84.56", "110.72"],
        folding: ["269.9", "54.7"],
        throughput: ["4.8 (table 2)"],
    }
    for value in theirs[section]:
        assert any(value in row for row in rows)


def test_ratios_are_kerasrecs_speed_up(fake_runs):
    _, _, _, _, by_batch = tree_rnn.run(OPTIONS)[-5:]
    heading, *rows = cells(by_batch)
    row = dict(zip(heading, rows[1], strict=True))
    # iterative is the second baseline, kerasrec the third.
    assert row["batch"] == "5" and row["recursive / iterative, ours"] == "0.667"
    assert row["recursive / batch 1, ours"] == "5.00"
    assert row["recursive / iterative, theirs"] == "0.551"


def test_no_cell_is_empty():
    assert table({"a": lambda row: NOT_RUN}, [1]).endswith("| not run |")
    with pytest.raises(ValueError, match="nothing under"):
        table({"a": lambda row: "x", "b": lambda row: ""}, [1])


def test_paper_and_thesis_report_the_same_runs():
    assert list(kostopoulou.TABLE_1) == list(kostopoulou_2018.TABLES)
    others = {
        (call, column)
        for call, (_, *of_thesis) in kostopoulou_2018.TABLES.items()
        for column, (one, other) in enumerate(
            zip(kostopoulou.TABLE_1[call], of_thesis, strict=True)
        )
        if abs(one - other) > 1e-3
    }
    # As on the page.
    assert others == {("fib(25)", 1), ("fib(27)", 1), ("tak(25, 16, 8)", 0)}


def test_speed_ups_of_the_text_are_those_of_the_tables():
    inference = jeong_2018.TABLE_2["inference"]
    assert max(row["recursive"] / row["folding"] for row in inference.values()) == pytest.approx(
        4.93, abs=0.01
    )
    one = jeong_2018.TABLE_3[1]
    assert one["recursive"] / one["iterative"] == pytest.approx(18.6, abs=0.1)


@pytest.mark.slow
def test_the_command_prints_a_table(monkeypatch, capsys):
    monkeypatch.setattr(depth, "QUICK_DEPTHS", [2])
    monkeypatch.setattr(depth, "NUM_STEPS", 2)
    monkeypatch.setattr(sys, "argv", ["papers", "depth", "--quick", "--repeats", "1"])
    command.main()
    printed = capsys.readouterr().out
    assert "## Vasilakopoulos (2024), figure 6.1: `depth`" in printed
    heading, row = cells(printed)
    assert heading[0] == "depth" and row[0] == "2"
    assert all(heading + row)


@pytest.mark.slow
@pytest.mark.parametrize("name", command.SECTIONS)
def test_each_section_runs_quickly(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["papers", name, "--quick", "--repeats", "1", "--units", "3"])
    command.main()
    assert all(cell for row in cells(capsys.readouterr().out) for cell in row)


def test_the_page_has_all_sections_and_no_empty_cell():
    page = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"^## .*: `([\w-]+)`$", page, re.MULTILINE)
    assert named == list(command.SECTIONS)
    for name in re.findall(r"python -m benchmarks\.papers ([a-z-]+)", page):
        assert name in command.SECTIONS
    rows = cells(page)
    assert len(rows) > 100
    assert [row for row in rows if not all(row)] == []


def test_all_calls_of_the_table_are_run():
    titles = {
        f"{name}({', '.join(map(str, arguments))})"
        for name in calls.FUNCTIONS
        for arguments in calls.calls.CALLS[name]
    }
    assert titles == set(kostopoulou.TABLE_1)


def test_a_section_gets_all_options_of_its_command():
    section = mock.Mock()
    runs.run(section, OPTIONS, "TreeLSTM", batch=[2])
    (chosen,) = section.run.call_args.args
    assert vars(chosen) == {
        **vars(benchmarks_command.parse_options([])),
        "models": ["TreeLSTM"],
        "units": [150],
        "batch": [2],
        "repeats": 1,
    }
