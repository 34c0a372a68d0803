"""The growth of the time of a step: with nodes, with depth, and with one tree.

A forest of complete trees of equal depth grows by more trees; chains of equal width grow deeper; a
complete tree at batch 1 grows by levels, and twice as fast in nodes. Jeong et al. (2018), section
6.3, expect time O(log N) of a tree of N nodes if all that can run at once does so. Here a level is
one product, so this holds while a product of that many rows takes no longer than one of a few.
"""

from benchmarks import fits, report
from benchmarks.baseline_rows import (
    by_case,
    milliseconds,
    over_limits,
    step_milliseconds,
)
from benchmarks.comparison import run_forests
from benchmarks.figures import by_mode

BASELINES = ("dense limit", "kerasrec")
# The kinds of growth, and the sizes that times are shown against.
AGAINST = {"more trees": ["nodes"], "deeper trees": ["levels"], "one tree": ["levels", "nodes"]}


def add_options(parser):
    parser.add_argument(
        "--sizes", type=int, default=7, help="sizes of each growth, two or more, for scaling"
    )


def run(options):
    arguments = [options.sizes]
    return run_forests("scaling", "growing", arguments, BASELINES, options)


def markdown(found):
    return by_case(found, tables)


def tables(rows, names):
    columns = {
        "": lambda row: row["mode"],
        "what grows": lambda row: row["growth"],
        "trees": lambda row: row["batch"],
        "levels": lambda row: row["levels"],
        "nodes": lambda row: f"{row['nodes']:,}",
        **milliseconds(names),
        **over_limits(names),
    }
    fitted = {
        "": lambda row: row["mode"],
        "what grows": lambda row: row["growth"],
        "against": lambda row: row["against"],
        **fits.columns(names),
    }
    return [
        "A step:",
        report.table(columns, rows),
        "Slopes of these times on logarithmic axes, by least squares: 1 is linear, 0 is none.",
        report.table(fitted, slopes(rows)),
    ]


def slopes(rows):
    """Rows of fitted exponents, by baseline, for each mode and growth."""
    fitted = []
    for mode, growth in dict.fromkeys((row["mode"], row["growth"]) for row in rows):
        alike = [row for row in rows if (row["mode"], row["growth"]) == (mode, growth)]
        for against in AGAINST[growth]:
            what = {"mode": mode, "growth": growth, "against": against}
            fitted.append({**what, "exponents": fits.exponents(alike, against)})
    return fitted


def draw(found):
    """A figure for each mode: milliseconds per step, a panel for each growth."""
    figures_by_mode = by_mode(
        found["rows"],
        panel=lambda row: f"{row['growth']}, by {AGAINST[row['growth']][0]}",
        point=lambda row, name: (row[AGAINST[row["growth"]][0]], step_milliseconds(row, name)),
        ylabel="milliseconds per step",
        xscale="log",
        yscale="log",
    )
    return {name: panels.finished() for name, _, panels in figures_by_mode}
