"""Accuracy against the seconds of training, for three models: Jeong et al. (2018), figure 9.

The Large Movie Review data set has no trees, and the parses and labels of Jeong et al. were not
published. Our treebank, of data/, replaces it: its tree nodes have five classes, and most of them
can be learned.
"""

from benchmarks import convergence
from benchmarks.papers import runs
from benchmarks.papers.jeong_2018 import ACCURACY
from benchmarks.papers.tables import CURVE, table

MODELS = ("TreeRNN", "RNTN", "TreeLSTM")
BASELINES = ("iterative", "kerasrec")
BATCH = 25
# A baseline has no time to an accuracy if the losses of its first steps differ from kerasrec's.
LEFT_OUT = "left out: other losses"
# In these an RNTN and a TreeLSTM reach their accuracy; a TreeRNN of this size was not seen to.
NUM_EPOCHS = {"TreeRNN": 8, "RNTN": 2, "TreeLSTM": 6}


def run(options):
    models = MODELS[:1] if options.quick else MODELS
    found = [
        runs.run(
            convergence,
            options,
            model,
            batch=[BATCH],
            baselines=list(BASELINES),
            epochs=1 if options.quick else NUM_EPOCHS[model],
        )
        for model in models
    ]
    rows = [row for one in found for row in one["rows"]]
    reached = [_reached(model, one["rows"]) for model, one in zip(models, found, strict=True)]
    return [
        *runs.described(*found),
        f"Validation accuracy of all tree nodes after each epoch, batch {BATCH}, and seconds of "
        "training until then:",
        table(COLUMNS, rows),
        f"Seconds until {ACCURACY:.0%} are reached, or the best epoch where they are not:",
        table(REACHED, reached),
    ]


def _reached(model, rows):
    """By baseline, the first epoch with their accuracy, or that with the best."""
    return {"model": model, **{baseline: _first_good(rows, baseline) for baseline in BASELINES}}


def _first_good(rows, baseline):
    rows = [row for row in rows if baseline in row["baselines"]]
    good = [row for row in rows if _accuracy(row, baseline) >= ACCURACY]
    return good[0] if good else max(rows, key=lambda row: _accuracy(row, baseline), default=None)


def _accuracy(row, baseline):
    return row["baselines"][baseline]["accuracy"]["nodes"]


def _percent(row, baseline):
    return (
        f"{100 * _accuracy(row, baseline):.1f} %"
        if row and baseline in row["baselines"]
        else LEFT_OUT
    )


def _seconds(row, baseline):
    return (
        row["baselines"][baseline]["seconds"] if row and baseline in row["baselines"] else LEFT_OUT
    )


def _speed_up(of):
    """Of the seconds until then."""
    if None in of.values():
        return LEFT_OUT
    return _seconds(of["iterative"], "iterative") / _seconds(of["kerasrec"], "kerasrec")


COLUMNS = {
    "model": lambda row: row["model"],
    "units": lambda row: row["units"],
    "epoch": lambda row: row["epoch"],
    "accuracy, theirs": lambda row: CURVE,
    "accuracy, iterative": lambda row: _percent(row, "iterative"),
    "accuracy, kerasrec": lambda row: _percent(row, "kerasrec"),
    "iterative, s": lambda row: _seconds(row, "iterative"),
    "kerasrec, s": lambda row: _seconds(row, "kerasrec"),
}
REACHED = {
    "model": lambda of: of["model"],
    "accuracy, theirs": lambda of: f"{ACCURACY:.0%}",
    "accuracy, iterative": lambda of: _percent(of["iterative"], "iterative"),
    "accuracy, kerasrec": lambda of: _percent(of["kerasrec"], "kerasrec"),
    "epoch, kerasrec": lambda of: of["kerasrec"]["epoch"],
    "iterative, theirs, s": lambda of: CURVE,
    "iterative, ours, s": lambda of: _seconds(of["iterative"], "iterative"),
    "recursive, theirs, s": lambda of: CURVE,
    "recursive, ours, s": lambda of: _seconds(of["kerasrec"], "kerasrec"),
    "iterative / recursive, theirs": lambda of: "above 1 for all models",
    "iterative / recursive, ours": _speed_up,
}
