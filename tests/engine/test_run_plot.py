"""A run's picture can be drawn, however short or long the run was."""

import sys

import numpy as np
import pytest

from tests import programs

RUNS = {
    "one function": lambda: programs.fib.run_trace(9),
    "several functions and a bulk": lambda: programs.both_users.run_trace([0.3, 5.1]),
    "more steps than are drawn": lambda: programs.chain.run_trace(0.5, 3_000),
    "no token": lambda: programs.fib.run_trace(np.zeros([0], np.int32)),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_writes_a_picture(run, tmp_path):
    image = pytest.importorskip("matplotlib.image", reason="Matplotlib is not there")
    run().plot(tmp_path / "run.png")
    pixels = image.imread(tmp_path / "run.png")
    assert pixels.shape[0] > 500
    assert pixels.min() < 0.5 < pixels.max()


def test_text_of_the_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is not there")
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        programs.both_users.run_trace([0.3, 5.1]).plot(tmp_path / "run.svg")
    text = (tmp_path / "run.svg").read_text()
    for words in ("both_users: 23 calls", "halve: 17 calls", "stage 0 bulk", "step of the run"):
        assert words in text


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        programs.fib.run_trace(3).plot(tmp_path / "run.png")
