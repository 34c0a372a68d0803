"""When compiling breaks even, and that models are fitted for it."""

import argparse

import pytest

from benchmarks import engines
from benchmarks.engines import paid_after


def test_compiling_has_paid_once_all_epochs_were_faster():
    waves = [5.0, 2.0, 3.0]  # 5, 7, 9, 11, 13
    assert paid_after([8.0, 1.0, 1.5], waves) == "5"  # 8, 9, 10, 11, 12
    assert paid_after([8.5, 1.0], waves) == "5"
    assert paid_after([4.0, 1.0], waves) == "1"
    assert paid_after([8.0, 2.0], waves) == "never"
    assert paid_after(waves, waves) == ""


@pytest.mark.slow
def test_rows(monkeypatch):
    class Here:
        """Instead of a new process."""

        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def call(self, _, *given):
            return engines.measure(*given)

    monkeypatch.setattr(engines, "Process", Here)
    monkeypatch.setattr(engines, "NUM_TREES", 32)
    given = {"models": ["TreeRNN"], "units": [2], "batch": [8], "epochs": 2, "data": None}
    rows = list(engines.rows(argparse.Namespace(**given, device="cpu")))
    assert [row["engine"] for row in rows] == list(engines.ENGINES)
    waves, compiled, within = (row["sizes"] for row in rows)
    assert waves == 0
    assert 1 <= compiled <= within + 1
    assert all(len(row["seconds"]) == 2 for row in rows)
