"""Throughput of a TreeRNN: Kostopoulou et al., tables 2 and 3."""

from benchmarks import speed
from benchmarks.papers import runs
from benchmarks.papers.kostopoulou import TABLE_2, TABLE_3
from benchmarks.papers.tables import NOT_REPORTED, ours, ratio, reported, speed_up, table

BASELINES = {"unrolled": "unrolled", "iterative": "iterative", "recursive": "kerasrec"}


def run(options):
    batch = [1, 5] if options.quick else list(TABLE_3)
    found = runs.run(speed, options, "TreeRNN", batch=batch, baselines=list(BASELINES.values()))
    rows = {(row["mode"], row["batch"]): row for row in found["rows"]}
    return [
        *runs.described(found),
        "Table 2, trees per second, ours at batch 1:",
        table(
            {
                "way": lambda way: way,
                **{
                    f"{mode}, {who}": column
                    for mode in ("training", "inference")
                    for who, column in _of_way(mode, rows[mode, 1]).items()
                },
            },
            list(BASELINES),
        ),
        "Table 3, which has training by iteration and recursion, trees per second:",
        table(_by_batch(rows), list(rows.values())),
    ]


def _of_way(mode, row):
    """Columns of table 2, functions of a way to compute."""

    def recursion_over(way):
        return 1.0 if way == "recursive" else speed_up(row, BASELINES[way])

    return {
        "theirs": lambda way: reported(TABLE_2[way][mode]),
        "ours": lambda way: ours(row, BASELINES[way]),
        "recursion over it, theirs": lambda way: TABLE_2["recursive"][mode] / TABLE_2[way][mode],
        "recursion over it, ours": recursion_over,
    }


def _by_batch(rows):
    """Columns of table 3, functions of a row."""

    def theirs(row, way):
        if row["mode"] == "training" and way != "unrolled":
            return TABLE_3[row["batch"]][way]
        return TABLE_2[way][row["mode"]] if row["batch"] == 1 else NOT_REPORTED

    def gain_of_theirs(row):
        return ratio(theirs(row, "recursive"), TABLE_2["recursive"][row["mode"]])

    def gain_of_ours(row):
        return ratio(ours(row, "kerasrec"), ours(rows[row["mode"], 1], "kerasrec"))

    columns = {"mode": lambda row: row["mode"], "batch": lambda row: row["batch"]}
    for way, baseline in BASELINES.items():
        columns[f"{way}, theirs"] = lambda row, way=way: reported(theirs(row, way))
        columns[f"{way}, ours"] = lambda row, baseline=baseline: ours(row, baseline)
    return {
        **columns,
        "recursive / iterative, theirs": lambda row: ratio(
            theirs(row, "recursive"), theirs(row, "iterative")
        ),
        "recursive / iterative, ours": lambda row: speed_up(row, "iterative"),
        "recursive / batch 1, theirs": gain_of_theirs,
        "recursive / batch 1, ours": gain_of_ours,
    }
