"""Sections that show in another way what `speed` has measured."""

import argparse
import json

import pytest

from benchmarks import batch_sizes, folding

THROUGHPUTS = {
    1: {"iterative": 10.0, "torch levels": 20.0, "dense limit": 80.0, "kerasrec": 40.0},
    25: {"iterative": 30.0, "jax levels": 50.0, "kerasrec": 100.0},
}


@pytest.fixture
def options(tmp_path):
    rows = [
        {
            "model": "TreeRNN",
            "units": 3,
            "mode": "training",
            "batch": size,
            "baselines": {name: {"trees/s": of, "share": 0.5} for name, of in throughputs.items()},
            "times": {
                name: of / throughputs["kerasrec"]
                for name, of in throughputs.items()
                if name != "kerasrec"
            },
        }
        for size, throughputs in THROUGHPUTS.items()
    ]
    found = {"description": {}, "versions": {}, "notes": [], "rows": rows}
    (tmp_path / "speed.json").write_text(json.dumps(found), encoding="utf-8")
    return argparse.Namespace(out=str(tmp_path))


def test_gains_are_over_the_smallest_batch(options):
    found = batch_sizes.run(options)
    assert found["rows"][1]["gains"] == {"iterative": 3.0, "jax levels": 1.0, "kerasrec": 2.5}
    text = batch_sizes.markdown(found)
    assert "| training | 25 | 30 | 100 |" in text
    assert "| training | 25 | 3.0 |  | 1.0 |  | 2.5 |" in text


def test_folding_has_the_best_that_folds(options):
    text = folding.markdown(folding.run(options))
    assert "dense limit" not in text
    assert "| training | 1 | 10 | 20 |  | 40 | 4.00 | 2.00 (torch levels) |" in text
    assert "| training | 25 |  | 50 % |" in text


@pytest.mark.parametrize("section", [batch_sizes, folding])
def test_figures_are_drawn(section, options):
    pytest.importorskip("matplotlib")
    (figure,) = section.draw(section.run(options)).values()
    assert [axes.get_title() for axes in figure.axes] == ["training"]


@pytest.mark.parametrize("section", [batch_sizes, folding])
def test_speed_must_have_run(section, tmp_path):
    with pytest.raises(SystemExit, match="python -m benchmarks speed"):
        section.run(argparse.Namespace(out=str(tmp_path)))
