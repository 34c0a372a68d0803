"""Running programs in clusters of real processes on this machine."""

import fcntl
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kerasrec.training import local_cluster

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 300


@dataclass
class Ended:
    """How a program ended: its status, the lines of JSON it printed, its errors."""

    returncode: int
    results: list
    errors: str


def run_on_cluster(options, command):
    """Runs a Python command on a local cluster; without options, in a separate process."""
    # As a file, not with -m, which also imports TensorFlow for the launcher.
    launcher = [sys.executable, local_cluster.__file__, *options, "--"]
    ended = subprocess.run(
        [*(launcher if options else []), sys.executable, *command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(ended.returncode, _objects(ended.stdout), ended.stderr)


def print_object(value):
    """Prints an object as JSON in one piece, though several processes print into one pipe."""
    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(json.dumps(value), flush=True)


def _objects(text):
    """The objects that processes have printed."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
