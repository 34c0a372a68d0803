"""Balanced, moderate and linear trees: Jeong et al. (2018), table 1."""

from benchmarks import shapes
from benchmarks.papers import runs
from benchmarks.papers.jeong_2018 import TABLE_1
from benchmarks.papers.tables import NOT_REPORTED, ours, ratio, reported, speed_up, table

SHAPES = ("balanced", "moderate", "linear")


def run(options):
    batch, words = ([1], 8) if options.quick else (list(TABLE_1), 32)
    baselines = ["iterative", "kerasrec"]
    found = runs.run(
        shapes,
        options,
        "TreeRNN",
        batch=batch,
        baselines=baselines,
        words=words,
        modes=("training",),
    )
    rows = {(row["batch"], row["shape"]): row for row in found["rows"]}

    def of_shape(size, shape):
        return ours(rows[size, shape], "kerasrec")

    columns = {"batch": lambda size: size}
    for shape in SHAPES:
        columns |= {
            f"{shape}, theirs": lambda size, shape=shape: reported(TABLE_1[size][shape], ".1f"),
            f"{shape}, ours": lambda size, shape=shape: of_shape(size, shape),
        }
    columns |= {
        "balanced / linear, theirs": lambda size: (
            TABLE_1[size]["balanced"] / TABLE_1[size]["linear"]
        ),
        "balanced / linear, ours": lambda size: ratio(
            of_shape(size, "balanced"), of_shape(size, "linear")
        ),
        "recursive / iterative, theirs": lambda size: NOT_REPORTED,
        **{
            f"recursive / iterative, ours, {shape}": lambda size, shape=shape: speed_up(
                rows[size, shape], "iterative"
            )
            for shape in SHAPES
        },
    }
    return [*runs.described(found), "Training, trees per second:", table(columns, batch)]
