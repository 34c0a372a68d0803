"""Recursion compared with folding: Jeong et al. (2018), table 2.

TensorFlow Fold cannot be installed with a current TensorFlow. `tensorflow levels` replaces it: it
groups the tree nodes of one depth of a batch before it runs, as Fold did, by hand.
"""

from benchmarks import speed
from benchmarks.papers import runs
from benchmarks.papers.jeong_2018 import TABLE_2
from benchmarks.papers.tables import ours, reported, speed_up, table

BASELINES = {"iterative": "iterative", "recursive": "kerasrec", "folding": "tensorflow levels"}


def run(options):
    batch = [1] if options.quick else list(TABLE_2["training"])
    found = runs.run(speed, options, "TreeLSTM", batch=batch, baselines=list(BASELINES.values()))
    return [*runs.described(found), table(COLUMNS, found["rows"])]


def _theirs(row, way):
    return TABLE_2[row["mode"]][row["batch"]][way]


COLUMNS = {
    "mode": lambda row: row["mode"],
    "batch": lambda row: row["batch"],
    **{
        heading: column
        for way, baseline in BASELINES.items()
        for heading, column in {
            f"{way}, theirs": lambda row, way=way: reported(_theirs(row, way), ".1f"),
            f"{way}, ours": lambda row, baseline=baseline: ours(row, baseline),
        }.items()
    },
    **{
        heading: column
        for way in ("iterative", "folding")
        for heading, column in {
            f"recursive / {way}, theirs": lambda row, way=way: (
                _theirs(row, "recursive") / _theirs(row, way)
            ),
            f"recursive / {way}, ours": lambda row, way=way: speed_up(row, BASELINES[way]),
        }.items()
    },
}
