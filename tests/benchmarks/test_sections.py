"""Sections that time single steps: what they make of them, and each as a command."""

import json
import math
import sys

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import comparison, length, scaling, shapes, turns
from benchmarks.batch import Batch
from tests.benchmarks.fake_baselines import FakeBaseline


def run(monkeypatch, *groups):
    """Results with baselines that take a second more for each step, some of them in vain."""
    monkeypatch.setattr(turns, "start_baseline", lambda name, *_: FakeBaseline(name))
    line = ["benchmarks", "--repeats", "3", "--modes", "inference"]
    monkeypatch.setattr(sys, "argv", line)
    baselines = ["kerasrec", "dense limit", "iterative", "torch levels"]
    found = comparison.nothing({})
    ones = np.ones([1, 3], np.int32)
    batch = Batch(ones, np.full([1, 3, 2], -1, np.int32), ones)
    pairs = [({"batch": 1, **what}, [batch] * number) for what, number in groups]
    comparison.run_groups("here", pairs, batch, 10, baselines, command.parse_options(), found)
    return found


def figures_of(section, found):
    pytest.importorskip("matplotlib")
    return section.draw(found)


def test_wrong_baselines_and_warming_up_do_not_count(monkeypatch):
    found = run(monkeypatch, ({}, 2), ({}, 1))
    notes = "\n".join(found["notes"])
    assert "TreeLSTM, 150 units, torch levels: loss differs" in notes
    assert "TreeLSTM, 150 units, iterative: its process ended with code -9." in notes
    first, last = found["rows"]
    assert {*first["baselines"]} == {"kerasrec", "dense limit"}
    # Three steps a turn, the first turn has 1, 2 and 3 seconds.
    assert first["baselines"]["kerasrec"]["seconds"] == [4.5, 7.5, 10.5]
    assert last["baselines"]["kerasrec"]["seconds"] == [6.0, 9.0, 12.0]
    assert last["times"] == {"dense limit": 1.0}
    assert json.loads(json.dumps(found)) == found


def test_length(monkeypatch):
    found = run(
        monkeypatch,
        ({"words": 5.0, "words of each": [4.0, 6.0]}, 2),
        ({"words": 10.0, "words of each": [10.0]}, 1),
    )
    (row,) = length.growths(found["rows"])
    assert row["lengths"] == "5 to 10"
    assert row["exponents"]["kerasrec"] == pytest.approx(math.log(9 / 7.5) / math.log(2))
    text = length.markdown(found)
    assert "| inference | 1 | 5.00 | 7,500 | 7,500 |" in text
    assert "| inference | 1 | 5 to 10 | 0.26 | 0.26 |" in text
    (figure,) = figures_of(length, found).values()
    (axes,) = figure.axes
    # Points of the steps of the first length.
    assert [len(points.get_offsets()) for points in axes.collections] == [2, 2]


def test_shapes(monkeypatch):
    found = run(
        monkeypatch, ({"shape": "balanced", "levels": 2}, 1), ({"shape": "linear", "levels": 3}, 1)
    )
    assert "| inference | linear | 3 | 1 | 0 | 0 | 1.00 |" in shapes.markdown(found)
    (figure,) = figures_of(shapes, found).values()
    assert [axes.get_title() for axes in figure.axes] == ["balanced", "linear"]


def test_scaling(monkeypatch):
    sizes = [(2, 3), (3, 7)]
    found = run(
        monkeypatch,
        *[({"growth": "one tree", "levels": levels, "nodes": nodes}, 1) for levels, nodes in sizes],
    )
    by_levels, by_nodes = scaling.slopes(found["rows"])
    assert by_levels["exponents"]["kerasrec"] == pytest.approx(math.log(6 / 5) / math.log(3 / 2))
    assert by_nodes["exponents"]["kerasrec"] == pytest.approx(math.log(6 / 5) / math.log(7 / 3))
    text = scaling.markdown(found)
    assert "| inference | one tree | 1 | 3 | 7 | 6,000 | 6,000 | 1.00 |" in text
    assert "| inference | one tree | levels | 0.45 | 0.45 |" in text
    (figure,) = figures_of(scaling, found).values()
    assert [axes.get_title() for axes in figure.axes] == ["one tree, by levels"]


@pytest.mark.slow
def test_whole_command(monkeypatch, tmp_path):
    sections = ["length", "shapes", "scaling", "convergence", "startup"]
    line = "--models TreeRNN --units 3 --batch 64 --baselines kerasrec iterative --repeats 1"
    line += " --lengths 5 10 --words 4 --sizes 2 --epochs 1 --out"
    monkeypatch.setattr(sys, "argv", ["benchmarks", *sections, *line.split(), str(tmp_path)])
    command.main()
    found = {
        name: json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        for name in sections
    }
    assert all(of["notes"] == [] and of["versions"] for of in found.values())
    assert {name: len(of["rows"]) for name, of in found.items()} == {
        "length": 4,
        "shapes": 6,
        "scaling": 12,
        "convergence": 2,
        "startup": 12,
    }
    for name in sections[:-1]:
        assert {*found[name]["rows"][-1]["baselines"]} == {"kerasrec", "iterative"}
        assert f"# {name}\n" in (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        figures = list(tmp_path.glob(f"{name}-*.png"))
        assert figures
        assert all(figure.read_bytes().startswith(b"\x89PNG") for figure in figures)
