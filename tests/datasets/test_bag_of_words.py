import json
import os
import re
import subprocess
import sys

import pytest

from tests.datasets.helpers import TREEBANK


@pytest.mark.slow
def test_a_bag_of_words_fails_on_the_built_in_treebank(tmp_path):
    repository = TREEBANK.parents[1]
    script = repository / "models" / "sentiment_bag_of_words.py"
    run = subprocess.run(
        [sys.executable, script, "--epochs", "3", "--seeds", "1", "2", "--output", tmp_path],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    accuracies = re.search(r"test +([0-9.]+)% +([0-9.]+)%", run.stdout)
    assert 20 < float(accuracies[1]) < 50
    assert 40 < float(accuracies[2]) < 65
    results = json.loads((tmp_path / "results.json").read_text())
    first, second = (run["test"]["root_accuracy"] for run in results["runs"])
    assert f"{first:.1%}" == f"{accuracies[1]}%"
    assert results["mean"]["test"]["root_accuracy"] == pytest.approx((first + second) / 2)
