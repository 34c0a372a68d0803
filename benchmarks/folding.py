"""Recursion compared with folding and iteration; reads the results of `speed`.

Jeong et al. (2018), section 6.4 and table 2: throughput of a TreeLSTM at batch 1, 10 and 25 by
their recursion, TensorFlow's iteration, and TensorFlow Fold, which puts the same operations at one
depth of all trees of a batch together before it runs them; Fold had a GPU. It cannot be installed
with a current TensorFlow. Baselines that fold as it did stand for it, all on the CPU: those that
go level by level, with levels made in NumPy or by DGL, and DyNet, which batches by itself. The time
that they need to fold a batch counts.
"""

from benchmarks import report, speed_rows
from benchmarks.baseline_rows import (
    WHAT,
    by_case,
    over_the_best,
    shares,
    speed_ups,
    throughputs,
    trees_per_second,
)
from benchmarks.baselines import OURS
from benchmarks.figures import against_batch

FOLDING = ("torch levels", "torch by hand", "jax levels", "dgl", "dynet")
SHOWN = ("iterative", *FOLDING, OURS)


def add_options(parser):
    """Adds no options."""


def run(options):
    found = speed_rows.read(options)
    for row in found["rows"]:
        row["baselines"] = {name: of for name, of in row["baselines"].items() if name in SHOWN}
    return found


def markdown(found):
    return by_case(found, tables)


def tables(rows, names):
    ratios = {
        **speed_ups([name for name in names if name == "iterative"]),
        "over the best that folds": over_the_best(FOLDING),
    }
    return [
        "Trees per second, and kerasrec's speed-up:",
        report.table(WHAT | throughputs(names) | ratios, rows),
        "Of their time, folding itself takes:",
        report.table(WHAT | shares([name for name in names if name in FOLDING]), rows),
    ]


def draw(found):
    return against_batch(found["rows"], trees_per_second, ylabel="trees per second")
