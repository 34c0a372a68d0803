"""A recursive function on two workers: Kostopoulou (2018), annex A and section 5.4.7.

The annex places the factorial of 5 on two workers of one machine, and no time is reported.
"""

import json
import subprocess
import sys

from benchmarks.papers.tables import NOT_REPORTED, table
from benchmarks.process import ROOT

CLUSTER = ("kerasrec.training.local_cluster", "--workers", "2", "--ps", "1", "--", sys.executable)
# Which modules run the program, one in the other, by where its graph is.
MODULES = {"one device": (), "two devices": (), "two workers": (*CLUSTER, "-m")}


def run(options):
    places = ["one device"] if options.quick else list(MODULES)
    found = {where: _seconds(where, options.repeats) for where in places}
    rows = [
        {"call": call, "results": {of[call][0] for of in found.values()}, "found": found}
        for call in found["one device"]
    ]
    return ["Milliseconds per call, and messages between devices:", table(_columns(places), rows)]


def _seconds(where, repeats):
    """By call, the result, the seconds and the number of messages."""
    program = ["benchmarks.papers.placed_program", where, str(repeats)]
    command = [sys.executable, "-m", *MODULES[where], *program]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _result(row):
    (result,) = row["results"]
    return result


def _columns(places):
    return {
        "call": lambda row: row["call"],
        "result": _result,
        "theirs": lambda row: NOT_REPORTED,
        **{
            f"{where}, ours": lambda row, where=where: 1e3 * row["found"][where][row["call"]][1]
            for where in places
        },
        **{
            f"messages, {where}": lambda row, where=where: row["found"][where][row["call"]][2]
            for where in places[1:]
        },
    }
