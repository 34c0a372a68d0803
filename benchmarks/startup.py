"""The time of a program before it trains: imports, building the model, and the first step.

The papers do not report it. Each import follows those before it. The first step traces and
compiles; the second is like all later ones; the first evaluation compiles a separate step. The
layers are those of models/sentiment_tree_lstm.py, with random weights, trained by Keras with one
Adagrad and without L2.
"""

import itertools
import statistics

from benchmarks import report
from benchmarks.comparison import nothing
from benchmarks.process import NO_GPU, Process
from benchmarks.start import BATCH_SIZE


def add_options(parser):
    """Adds no options."""


def run(options):
    """Each repeat is a new process; a first one leaves compiled Python and cached files behind."""
    found = nothing({"batch": BATCH_SIZE})
    for units in options.units:
        turns = []
        for _ in range(1 + options.repeats):
            with Process(
                "importlib:import_module",
                "benchmarks.start",
                environment=NO_GPU,
            ) as start:
                turns.append(start.call("seconds", units))
                found["versions"] |= {"kerasrec": start.call("versions")}
        found["rows"] += rows_of(turns[1:], units)
    return found


def rows_of(turns, units):
    """A row for each part, and one for all parts before the second step.

    Args:
        turns: of each process, seconds by part, in order.
    """
    before = list(itertools.takewhile(lambda part: part != "second step", turns[0]))
    summed = {"all before the second step": [sum(turn[part] for part in before) for turn in turns]}
    of_parts = {part: [turn[part] for turn in turns] for part in turns[0]}
    return [
        {"units": units, "part": part, "seconds": seconds}
        for part, seconds in (of_parts | summed).items()
    ]


def markdown(found):
    columns = {
        "": lambda row: row["part"],
        "median, s": lambda row: report.short(statistics.median(row["seconds"])),
        "minimum, s": lambda row: report.short(min(row["seconds"])),
        "maximum, s": lambda row: report.short(max(row["seconds"])),
    }
    parts = []
    for units, rows in itertools.groupby(found["rows"], lambda row: row["units"]):
        parts += [f"## TreeLSTM, {units} units", report.table(columns, rows)]
    return "\n\n".join(parts)


def draw(found):
    """Draws no figures: the table is enough."""
    return {}
