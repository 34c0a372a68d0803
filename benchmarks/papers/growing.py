"""Trees that a top-down Tree-LSTM grows: Jeong et al. (2018), table 3.

Their task is sentence completion from a given root. Here whole trees grow from the start symbol,
with weights that grow trees as large as sentences: see `benchmarks.generation`.
"""

import argparse

from benchmarks import generation, report
from benchmarks.papers.jeong_2018 import TABLE_3
from benchmarks.papers.tables import reported, table


def run(options):
    units, words = (8, 50) if options.quick else (options.units or 200, 10_000)
    arguments = argparse.Namespace(
        units=units, embedding=100, words=words, batch=list(TABLE_3), repeats=options.repeats
    )
    description, rows = generation.measure(arguments)
    return [
        report.line({name: description[name] for name in DESCRIBED}),
        "Trees per second:",
        table(COLUMNS, [row for row in rows if row["mode"] == "generation"]),
    ]


DESCRIBED = ("units", "words", "mean tree nodes", "max tree nodes")
COLUMNS = {
    "batch": lambda row: row["batch"],
    "nodes per tree, ours": lambda row: row["nodes"],
    "iterative, theirs": lambda row: reported(TABLE_3[row["batch"]]["iterative"], ".2f"),
    "iterative, ours": lambda row: row["iterative trees/s"],
    "recursive, theirs": lambda row: reported(TABLE_3[row["batch"]]["recursive"], ".2f"),
    "recursive, ours": lambda row: row["kerasrec trees/s"],
    "folding, theirs": lambda row: "not supported",
    "folding, ours": lambda row: "no structure to fold beforehand",
    "eager recursion, ours": lambda row: row["eager trees/s"],
    "recursive / iterative, theirs": lambda row: (
        TABLE_3[row["batch"]]["recursive"] / TABLE_3[row["batch"]]["iterative"]
    ),
    "recursive / iterative, ours": lambda row: row["kerasrec trees/s"] / row["iterative trees/s"],
}
