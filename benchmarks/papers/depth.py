"""Gradient descent through deeper and deeper recursion: Vasilakopoulos (2024), figure 6.1."""

from benchmarks import depth
from benchmarks.papers.tables import CURVE, table


def run(options):
    rows = list(depth.measure(options.quick, options.repeats))
    return [f"{depth.NUM_STEPS} steps, in seconds:", table(COLUMNS, rows)]


def _with_tracing(row, name):
    return row[name] + row[f"{name} tracing"]


COLUMNS = {
    "depth": lambda row: row["depth"],
    "recursion, theirs": lambda row: CURVE,
    "kerasrec": lambda row: row["kerasrec"],
    "unrolled, theirs": lambda row: CURVE,
    "unrolled, ours": lambda row: row["unrolled"],
    "unrolled, ours, with tracing": lambda row: _with_tracing(row, "unrolled"),
    "imperative, theirs": lambda row: CURVE,
    "eager, ours": lambda row: row["eager"],
    "unrolled with tracing / kerasrec": lambda row: (
        _with_tracing(row, "unrolled") / row["kerasrec"]
    ),
    "eager / kerasrec": lambda row: row["eager"] / row["kerasrec"],
}
