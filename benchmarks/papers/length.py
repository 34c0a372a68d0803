"""Time against the length of a sentence: Jeong et al. (2018), figure 11."""

from benchmarks import length
from benchmarks.baseline_rows import step_milliseconds
from benchmarks.papers import runs
from benchmarks.papers.tables import CURVE, NOT_RUN, speed_up, table

BASELINES = ("iterative", "kerasrec")
LENGTHS = range(5, 51, 5)
# Section 6.3: the expected and the observed growth of time with the number of words.
GROWTHS = {
    ("training", "iterative"): "linear in theory; steeper than recursion",
    ("training", "kerasrec"): "logarithmic in theory; nearer to linear",
    ("inference", "iterative"): "linear in theory",
    ("inference", "kerasrec"): "logarithmic",
}


def run(options):
    lengths = [5, 10] if options.quick else LENGTHS
    found = runs.run(
        length, options, "TreeLSTM", batch=[1], baselines=list(BASELINES), lengths=lengths
    )
    fitted = [
        {
            "mode": row["mode"],
            "words": row["lengths"],
            "baseline": baseline,
            "exponents": row["exponents"],
        }
        for row in length.growths(found["rows"])
        for baseline in BASELINES
    ]
    return [
        *runs.described(found),
        "Milliseconds for one sentence:",
        table(COLUMNS, found["rows"]),
        "How time grows with the number of words; ours is an exponent, 1 is linear:",
        table(FITTED, fitted),
    ]


def _ours(row, baseline):
    return step_milliseconds(row, baseline) if baseline in row["baselines"] else NOT_RUN


COLUMNS = {
    "mode": lambda row: row["mode"],
    "words": lambda row: row["words"],
    "iterative, theirs": lambda row: CURVE,
    "iterative, ours": lambda row: _ours(row, "iterative"),
    "recursive, theirs": lambda row: CURVE,
    "recursive, ours": lambda row: _ours(row, "kerasrec"),
    "iterative / recursive, ours": lambda row: speed_up(row, "iterative"),
}
FITTED = {
    "mode": lambda row: row["mode"],
    "words": lambda row: row["words"],
    "who": lambda row: "recursive" if row["baseline"] == "kerasrec" else row["baseline"],
    "theirs": lambda row: GROWTHS[row["mode"], row["baseline"]],
    "ours": lambda row: f"{row['exponents'][row['baseline']]:.2f}",
}
