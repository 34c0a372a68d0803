"""Results of the section `speed` from times, and the baselines that it lets in."""

import contextlib
import json
import sys

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import figures, speed, turns
from benchmarks.agreement import disagreement
from benchmarks.baselines import BASELINES, LIMITS, OWN
from benchmarks.batch import Batch
from benchmarks.process import Failed
from tests.benchmarks.fake_baselines import RIGHT, FakeBaseline


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"loss": np.array(2.001)}, "loss differs .* 5.0e-04 of the largest value"),
        ({"gradient of kernel": np.array([[1.001, -4.0]])}, "gradient of kernel differs"),
        ({"loss": np.array(np.nan)}, "loss differs"),
        ({"gradient of kernel": np.array([1.0, -4.0])}, r"has shape \(2,\) instead of \(1, 2\)"),
    ],
)
def test_disagreement_is_found(wrong, words):
    assert disagreement(RIGHT, RIGHT) is None
    close = {**RIGHT, "gradient of kernel": np.array([[1.0003, -4.0]])}
    assert disagreement(close, RIGHT) is None
    with pytest.raises(Failed, match=words):
        raise Failed(disagreement({**RIGHT, **wrong}, RIGHT))


@pytest.fixture
def found(monkeypatch):
    """Results of the section if baselines are as above."""
    monkeypatch.setattr(turns, "start_baseline", lambda name, *_: FakeBaseline(name))
    command_line = ["benchmarks", "--batch", "2", "64", "--repeats", "3", "--baselines", "kerasrec"]
    command_line += ["kerasrec tuned", "dense limit", "iterative", "torch levels", "jax levels"]
    monkeypatch.setattr(sys, "argv", command_line)
    monkeypatch.setattr(speed, "Process", FakeSource)
    return speed.run(command.parse_options())


class FakeSource(contextlib.AbstractContextManager):
    """Answers what a process with a `TreeSource` would."""

    def __init__(self, *_):
        pass

    def __exit__(self, *_):
        pass

    def call(self, method, *arguments):
        if method == "batches":
            (size,) = arguments
            ones = np.ones([size, 3], np.int32)
            return [Batch(ones, np.full([size, 3, 2], -1, np.int32), ones)] * 2
        return {"num_words": 10, "description": {"trees": 128}}[method]


def test_wrong_and_missing_baselines_are_named_and_have_no_times(found):
    notes = "\n".join(found["notes"])
    assert "150 units, torch levels: loss differs from eager recursion" in notes
    assert "150 units, jax levels: not installed: jax." in notes
    assert "150 units, iterative: its process ended with code -9." in notes
    assert [{*row["baselines"]} for row in found["rows"]] == [
        {"kerasrec", "kerasrec tuned", "dense limit", "iterative"},
        {"kerasrec", "kerasrec tuned", "dense limit", "iterative"},
        {"kerasrec", "kerasrec tuned", "dense limit"},
        {"kerasrec", "kerasrec tuned", "dense limit"},
    ]


def test_a_baseline_of_training_alone_has_no_inference(monkeypatch, found):
    command_line = ["benchmarks", "--batch", "2", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", [*command_line, "--baselines", "kerasrec", "torch by hand"])
    training, inference = speed.run(command.parse_options())["rows"]
    assert training["mode"] == "training" and "torch by hand" in training["baselines"]
    assert [*inference["baselines"]] == ["kerasrec"]


def test_first_turn_does_not_count(found):
    trees = 4
    seconds = found["rows"][0]["baselines"]["kerasrec"]["seconds"]
    assert seconds == [2 / trees, 3 / trees, 4 / trees]


def test_tables_have_what_was_found(found):
    text = command.page(
        "speed", {"machine": {"CPUs": 2}, "repeats": 3, **found}, speed.markdown(found)
    )
    of_form = "1 | 1.00 | 1.00 (iterative) |"
    assert f"| TreeLSTM, 150 units | training | 2 | {of_form} {of_form}" in text
    assert "| training | 2 | 1 | 1 | 1 | 1 |" in text
    for of_form in text.split("speed-up over others")[1:]:
        assert "| training | 2 | 1.00 | 1.00 (iterative) | 1.00 |" in of_form
    assert "kerasrec tuned: its time divided" in text
    assert "| inference | 64 | 1.00 |  |  |" in text
    assert "trees 128, order by size, repeats 3, CPUs 2" in text
    assert all(f"- {note}" in text for note in found["notes"])
    assert json.loads(json.dumps(found)) == found


def test_figures_are_drawn(found):
    pytest.importorskip("matplotlib")
    (figure,) = speed.draw(found).values()
    assert [axes.get_title() for axes in figure.axes] == ["training", "inference"]
    assert len(figure.axes[0].lines) == 4


def test_each_form_has_a_line_of_its_own():
    pytest.importorskip("matplotlib")
    own = [str(figures.style(name)) for name in (*OWN, *LIMITS)]
    assert len({*own}) == len(own)
    assert all(map(figures.style, BASELINES))


def test_what_does_not_fit_into_memory_is_said(monkeypatch, found):
    line = "benchmarks --models RNTN --units 1000 --batch 1"
    monkeypatch.setattr(sys, "argv", line.split())
    found = speed.run(command.parse_options())
    assert found["rows"] == []
    assert "RNTN, 1000 units, batch 1: not run." in found["notes"][0]


@pytest.mark.slow
def test_whole_command(monkeypatch, tmp_path, capsys):
    line = "benchmarks speed --models TreeRNN --units 3 --batch 128 --repeats 1 --out"
    monkeypatch.setattr(
        sys, "argv", [*line.split(), str(tmp_path), "--baselines", "kerasrec", "eager"]
    )
    command.main()
    rows = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))["rows"]
    assert [row["mode"] for row in rows] == ["training", "inference"]
    assert all(row["times"]["eager"] > 0 for row in rows)
    assert (tmp_path / "speed.md").read_text(encoding="utf-8") in capsys.readouterr().out
    assert (tmp_path / "speed-TreeRNN-3.png").read_bytes().startswith(b"\x89PNG")


def test_on_a_gpu_all_baselines_compile_before_any_is_timed(monkeypatch):
    started = []

    def start_baseline(name, *given):
        started.append((name, given[-1]))
        return FakeBaseline(name)

    monkeypatch.setattr(turns, "start_baseline", start_baseline)
    monkeypatch.setattr(speed, "Process", FakeSource)
    command_line = ["benchmarks", "--batch", "2", "64", "--repeats", "1", "--device", "gpu"]
    command_line += ["--baselines", "kerasrec", "iterative", "torch by hand"]
    monkeypatch.setattr(sys, "argv", command_line)
    found = speed.run(command.parse_options())
    assert started == [
        ("kerasrec", "gpu"),
        ("iterative", "gpu"),
        ("torch by hand", "gpu"),
        (turns.REFERENCE, "cpu"),
    ]
    # The baseline that fails does so in inference, which is compiled at first.
    assert found["notes"] == ["TreeLSTM, 150 units, iterative: its process ended with code -9."]
    first, *_ = found["rows"]
    # After a turn of each mode and size, and one more of this mode and size: the sixth.
    assert first["baselines"]["kerasrec"]["seconds"] == [6 / 4]


def test_few_batches_are_those_in_the_middle():
    assert speed.middle([1, 2, 3, 4], 1) == [2]
    assert speed.middle([1, 2, 3, 4], 2) == [2, 3]
    assert speed.middle([1, 2], 3) == [1, 2]
