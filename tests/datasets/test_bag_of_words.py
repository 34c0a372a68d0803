import os
import re
import subprocess
import sys

import pytest

from tests.datasets.helpers import TREEBANK


@pytest.mark.slow
def test_a_bag_of_words_fails_on_the_embedded_treebank():
    repository = TREEBANK.parents[1]
    script = repository / "models" / "sentiment_bag_of_words.py"
    run = subprocess.run(
        [sys.executable, script, "--epochs", "3"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    accuracies = re.search(r"test +([0-9.]+)% +([0-9.]+)%", run.stdout)
    assert 20 < float(accuracies[1]) < 50
    assert 40 < float(accuracies[2]) < 65
