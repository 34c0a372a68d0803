"""Calls of fib, ack, tak and primes, as in table 1 of the paper and tables 1 to 4 of the thesis.

The *primes* of Kostopoulou (2018) is another function, here `listed`: see `benchmarks.functions`.
"""

from benchmarks import calls
from benchmarks.papers import kostopoulou, kostopoulou_2018
from benchmarks.papers.tables import table

# By the papers' name of a function, ours.
FUNCTIONS = {"fib": "fib", "ack": "ack", "tak": "tak", "primes": "listed"}
# Of --quick, in each table of the thesis the first.
QUICK = ("fib(24)", "ack(3, 3)")


def run(options):
    chosen = QUICK if options.quick else kostopoulou.TABLE_1
    wanted = [
        (FUNCTIONS[name], title, arguments)
        for name in FUNCTIONS
        for arguments in calls.CALLS[name]
        if (title := f"{name}({', '.join(map(str, arguments))})") in chosen
    ]
    rows = list(calls.compare(wanted, options.repeats))
    return [table(COLUMNS, rows)]


def _paper(row):
    return kostopoulou.TABLE_1[row["call"]]


def _thesis(row):
    return kostopoulou_2018.TABLES[row["call"]]


COLUMNS = {
    "call": lambda row: row["call"],
    "result, thesis": lambda row: _thesis(row)[0],
    "result, ours": lambda row: row["result"],
    "static, paper, s": lambda row: f"{_paper(row)[0]:.3f}",
    "static, thesis, s": lambda row: f"{_thesis(row)[1]:.6g}",
    "dynamic, paper, s": lambda row: f"{_paper(row)[1]:.3f}",
    "dynamic, thesis, s": lambda row: f"{_thesis(row)[2]:.6g}",
    "dynamic, here, s": lambda row: row["expanding"] or "died",
    "kerasrec, s": lambda row: row["kerasrec"],
    "dynamic / static, paper": lambda row: _paper(row)[1] / _paper(row)[0],
    "dynamic / kerasrec, here": lambda row: row["speed-up"] or "died",
    "static, paper / kerasrec": lambda row: _paper(row)[0] / row["kerasrec"],
}
