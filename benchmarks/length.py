"""Time of a step against the length of sentences.

Jeong et al. (2018), section 6.3 and figure 11: time of a TreeLSTM for one sentence of the Large
Movie Review data set, training and inference, by its number of words; recursive and iterative, in
TensorFlow on 36 cores. Here sentences are those nearest to a few lengths, of SST or random, each
step is timed by itself, and batches of sentences of one length are timed as well.
"""

from benchmarks import fits, report
from benchmarks.baseline_rows import (
    WHAT,
    by_case,
    milliseconds,
    others,
    speed_ups,
    step_milliseconds,
)
from benchmarks.comparison import run_forests
from benchmarks.figures import by_mode

BASELINES = ("iterative", "torch levels", "kerasrec")
BATCH = (1, 25)
# Of each length, or one batch, if that has more.
NUM_TREES = 8


def add_options(parser):
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=range(5, 51, 5), help="words, for length"
    )


def run(options):
    arguments = [options.data, options.lengths, options.batch or BATCH, NUM_TREES]
    return run_forests("length", "of_lengths", arguments, BASELINES, options)


def markdown(found):
    return by_case(found, tables)


def tables(rows, names):
    what = {**WHAT, "words": lambda row: report.short(row["words"])}
    fitted = {**what, "words": lambda row: row["lengths"], **fits.columns(names)}
    return [
        "A step, and kerasrec's speed-up:",
        report.table({**what, **milliseconds(names), **speed_ups(others(names))}, rows),
        "Exponent of the number of words in these times, fitted by least squares:",
        report.table(fitted, growths(rows)),
    ]


def growths(rows):
    """Rows of fitted exponents, by baseline, for each mode and batch size."""
    fitted = []
    for mode, size in dict.fromkeys((row["mode"], row["batch"]) for row in rows):
        alike = [row for row in rows if (row["mode"], row["batch"]) == (mode, size)]
        words = [row["words"] for row in alike]
        lengths = f"{min(words):.0f} to {max(words):.0f}"
        what = {"mode": mode, "batch": size, "lengths": lengths}
        fitted.append({**what, "exponents": fits.exponents(alike, "words")})
    return fitted


def draw(found):
    """A figure for each mode: lines of lengths, and points of their steps, if there are several."""
    figures = {}
    figures_by_mode = by_mode(
        found["rows"],
        panel=panel,
        point=lambda row, name: (row["words"], step_milliseconds(row, name)),
        xlabel="words of a tree",
        ylabel="milliseconds per step",
    )
    for figure_name, rows, panels in figures_by_mode:
        for row in rows:
            for name, of in row["baselines"].items():
                steps = [1e3 * row["batch"] * seconds for seconds in of["each"]]
                points = list(zip(row["words of each"], steps, strict=True))
                if len(points) > 1:
                    panels.scatter(panel(row), name, points)
        figures[figure_name] = panels.finished()
    return figures


def panel(row):
    return f"batch {row['batch']}"
