"""Trees of equal size, balanced, moderate and linear.

Jeong et al. (2018), section 6.3 and table 1: training throughput of their recursive TreeRNN at
batch 1, 10 and 25, on the sentences of a data set, with complete, moderately balanced or linear
trees. Here all trees have the same number of words, whole steps are timed, also in inference, and
other implementations run as well: where a wave is one node wide, recursion gains nothing. They do
not define *moderate*; here 25% of the words below a node are on its left. The model is the
TreeLSTM as elsewhere; `--models TreeRNN` is theirs.
"""

from benchmarks import report
from benchmarks.baseline_rows import (
    by_case,
    others,
    over_limits,
    speed_ups,
    throughputs,
    trees_per_second,
)
from benchmarks.comparison import run_forests
from benchmarks.figures import by_mode

BASELINES = ("iterative", "torch levels", "dense limit", "kerasrec")
BATCH = (1, 10, 25, 64)
# Of each shape, or one batch, if that has more.
NUM_TREES = 8


def add_options(parser):
    parser.add_argument("--words", type=int, default=32, help="of each tree, for shapes")


def run(options):
    arguments = [options.words, options.batch or BATCH, NUM_TREES]
    return run_forests("shapes", "of_shapes", arguments, BASELINES, options)


def markdown(found):
    return by_case(found, tables)


def tables(rows, names):
    columns = {
        "": lambda row: row["mode"],
        "shape": lambda row: row["shape"],
        "levels": lambda row: row["levels"],
        "batch": lambda row: row["batch"],
        **throughputs(names),
        **over_limits(names),
        **speed_ups(others(names)),
    }
    return [
        "Trees per second, kerasrec's time divided by the dense limit's, and its speed-up:",
        report.table(columns, rows),
    ]


def draw(found):
    """A figure for each mode: trees per second against batch size, a panel for each shape."""
    figures = {}
    figures_by_mode = by_mode(
        found["rows"],
        panel=lambda row: row["shape"],
        point=lambda row, name: (row["batch"], trees_per_second(row, name)),
        sharey=True,
        xlabel="trees per batch",
        ylabel="trees per second",
        xscale="log",
        yscale="log",
    )
    for name, rows, panels in figures_by_mode:
        panels.ticks(sorted({row["batch"] for row in rows}))
        figures[name] = panels.finished()
    return figures
