"""The gain from larger batches: the section `batch`, which reads the results of `speed`.

Kostopoulou et al., section 6.2 and table 3: training throughput of a TreeRNN on sentences of SST at
batch 1, 5, 10 and 25. Theirs grows 2.8 times with iteration and falls with recursion, since their
operators fire for one tag at a time; they leave firing for many tags to future work. This section
has the models and modes of `speed`, and every implementation that ran there.
"""

from benchmarks import report, speed_rows
from benchmarks.baseline_rows import WHAT, by_case, throughputs, trees_per_second
from benchmarks.baselines import OURS
from benchmarks.figures import against_batch

THEIRS = ("iterative", OURS)


def add_options(parser):
    """Adds no options."""


def run(options):
    found = speed_rows.read(options)
    return {**found, "rows": with_gains(found["rows"])}


def with_gains(rows):
    """Adds `gains` to each row: throughput divided by that at the smallest batch, by name."""
    first = {}
    for row in sorted(rows, key=lambda row: row["batch"]):
        for name in row["baselines"]:
            first.setdefault(key(row, name), trees_per_second(row, name))
    return [
        {
            **row,
            "gains": {
                name: trees_per_second(row, name) / first[key(row, name)]
                for name in row["baselines"]
            },
        }
        for row in rows
    ]


def key(row, name):
    return row["model"], row["units"], row["mode"], name


def markdown(found):
    return by_case(found, tables)


def tables(rows, names):
    gains = {
        name: lambda row, name=name: f"{row['gains'][name]:.1f}" if name in row["gains"] else ""
        for name in names
    }
    return [
        "Trees per second:",
        report.table(WHAT | throughputs([name for name in THEIRS if name in names]), rows),
        "Divided by those at the smallest batch:",
        report.table(WHAT | gains, rows),
    ]


def draw(found):
    return against_batch(
        found["rows"],
        lambda row, name: row["gains"][name],
        sharey=True,
        ylabel="trees per second, over those at the smallest batch",
    )
