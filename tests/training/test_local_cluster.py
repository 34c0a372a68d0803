"""Clusters of real processes on this machine, against training in this process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from kerasrec.training import local_cluster
from tests.training.strategies import assert_same, trained

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 300


def run_on_cluster(options, command):
    """Runs a command on a local cluster and returns what it printed."""
    launcher = [sys.executable, "-m", "kerasrec.training.local_cluster", *options, "--"]
    found = subprocess.run(
        [*launcher, sys.executable, *command],
        cwd=REPOSITORY,
        env=None,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]


@pytest.mark.many
@pytest.mark.parametrize(
    "options, strategy, num_results",
    [
        (["--workers", "2"], "multi_worker", 2),
        (["--workers", "2", "--ps", "1"], "parameter_server", 1),
    ],
)
def test_trains_as_one_process_does(options, strategy, num_results):
    results = run_on_cluster(options, ["-m", "tests.training.strategies", strategy])
    assert len(results) == num_results
    expected = trained(tf.distribute.get_strategy())
    for result in results:
        assert_same(result, expected)


def test_every_process_knows_its_place():
    program = "import os; print(os.environ['TF_CONFIG'])"
    places = run_on_cluster(["--workers", "3"], ["-c", program])
    assert sorted(place["task"]["index"] for place in places) == [0, 1, 2]
    assert {place["task"]["type"] for place in places} == {"worker"}
    addresses = [place["cluster"]["worker"] for place in places]
    assert addresses[0] == addresses[1] == addresses[2]
    assert len(set(addresses[0])) == 3


def test_a_failure_ends_the_cluster():
    program = "import json, os, sys, time\n"
    program += "place = json.loads(os.environ['TF_CONFIG'])['task']\n"
    program += "sys.exit(7) if place['index'] else time.sleep(1000)"
    assert local_cluster.main(["--workers", "2", "--", sys.executable, "-c", program]) == 7


@pytest.mark.parametrize("arguments", [[], ["--workers", "0", "--", "true"], ["--workers", "2"]])
def test_says_what_is_missing(arguments, capsys):
    with pytest.raises(SystemExit):
        local_cluster.main(arguments)
    assert "at least one worker" in (error := capsys.readouterr().err) or "no command" in error
