"""Throughput of three models: Jeong et al. (2018), figures 7 and 8.

Their unrolled baseline is PyTorch, which makes a graph for each sentence as its Python code runs:
here `torch recursion`.
"""

from benchmarks import speed
from benchmarks.papers import runs
from benchmarks.papers.jeong_2018 import LARGEST_SPEED_UPS, TABLE_2
from benchmarks.papers.tables import CURVE, NOT_RUN, ours, reported, speed_up, table

MODELS = ("TreeRNN", "RNTN", "TreeLSTM")
BASELINES = {"recursive": "kerasrec", "iterative": "iterative", "unrolled": "torch recursion"}


def run(options):
    models, batch = (MODELS[:1], [1]) if options.quick else (MODELS, list(TABLE_2["training"]))
    found = [
        runs.run(speed, options, model, batch=batch, baselines=list(BASELINES.values()))
        for model in models
    ]
    rows = [row for one in found for row in one["rows"]]
    parts = runs.described(*found)
    for mode, figure in (("training", 7), ("inference", 8)):
        of_mode = [row for row in rows if row["mode"] == mode]
        parts += [f"Figure {figure}, {mode}, trees per second:", table(COLUMNS, of_mode)]
    largest = [
        {"mode": mode, "way": way, "theirs": value, "ours": _largest(rows, mode, BASELINES[way])}
        for mode, of_mode in LARGEST_SPEED_UPS.items()
        for way, value in of_mode.items()
    ]
    return [*parts, "The largest speed-ups of recursion, section 6.2:", table(LARGEST, largest)]


def _largest(rows, mode, baseline):
    values = [speed_up(row, baseline) for row in rows if row["mode"] == mode]
    return max((value for value in values if value != NOT_RUN), default=NOT_RUN)


def _theirs(row, way):
    """Table 2 has the numbers that the figures draw for the TreeLSTM."""
    if row["model"] == "TreeLSTM" and way != "unrolled":
        return f"{TABLE_2[row['mode']][row['batch']][way]} (table 2)"
    return CURVE


COLUMNS = {
    "model": lambda row: row["model"],
    "units": lambda row: row["units"],
    "batch": lambda row: row["batch"],
    **{
        heading: column
        for way, baseline in BASELINES.items()
        for heading, column in {
            f"{way}, theirs": lambda row, way=way: _theirs(row, way),
            f"{way}, ours": lambda row, baseline=baseline: ours(row, baseline),
        }.items()
    },
    "recursive / iterative, ours": lambda row: speed_up(row, "iterative"),
    "recursive / unrolled, ours": lambda row: speed_up(row, "torch recursion"),
}
LARGEST = {
    "mode": lambda row: row["mode"],
    "over": lambda row: row["way"],
    "theirs": lambda row: reported(row["theirs"]),
    "ours": lambda row: row["ours"],
}
