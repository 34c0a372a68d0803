"""A TreeRNN trained for four epochs: Vasilakopoulos (2024), table 6.1."""

import statistics

from benchmarks.baseline_rows import title
from benchmarks.comparison import baselines_of, nothing
from benchmarks.model import initial_values
from benchmarks.papers import runs
from benchmarks.papers.tables import NOT_RUN, reported, table
from benchmarks.papers.vasilakopoulos_2024 import (
    NUM_EPOCHS,
    NUM_INFERRED,
    NUM_TRAINED,
    TABLE_6_1,
)
from benchmarks.process import ROOT, Process

MODEL = "TreeRNN"
BASELINES = {"iterative": "iterative", "recursive": "kerasrec"}
# Not stated in the thesis; its programs have one tree at a time.
BATCH = 1


def run(options):
    num_trained, num_inferred = (8, 4) if options.quick else (NUM_TRAINED, NUM_INFERRED)
    directory = options.data or str(ROOT / "data" / "treebank")
    with Process("benchmarks.epochs:Epochs", directory) as source:
        found = nothing(source.call("description"))
        num_words = source.call("num_words")
        batches = source.call("train", BATCH, 0)
    trained, others = batches[:num_trained], batches[num_trained:]
    units = options.units or runs.UNITS[MODEL]
    values = initial_values(MODEL, num_words, units)
    case = MODEL, units
    baselines = list(BASELINES.values())
    with baselines_of(baselines, case, values, batches[0], options, found) as turns:
        # Tracing and compiling come before.
        turns.ask("epoch", batches[:1])
        epochs = [turns.ask("epoch", trained) for _ in range(NUM_EPOCHS)]
        steps = turns.steps("inference", others[:num_inferred], options.repeats)
    seconds = {
        "training": {
            baseline: sum(epoch[baseline][0] for epoch in epochs)
            for baseline in baselines
            if baseline in epochs[-1]
        },
        "inference": {
            baseline: statistics.median(sum(total for total, _ in turn) for turn in of_turns)
            for baseline, of_turns in steps.items()
        },
    }
    sizes = (
        f"{NUM_EPOCHS} epochs of {num_trained} trees, inference of {num_inferred}, batch {BATCH}"
    )
    return [
        *runs.described(found),
        f"{title(case)}, {sizes}, in seconds:",
        table(COLUMNS, [{"mode": mode, "seconds": of} for mode, of in seconds.items()]),
    ]


def _ours(row, way):
    return row["seconds"].get(BASELINES[way], NOT_RUN)


def _speed_up(row):
    if len(row["seconds"]) < len(BASELINES):
        return NOT_RUN
    return _ours(row, "iterative") / _ours(row, "recursive")


COLUMNS = {
    "mode": lambda row: row["mode"],
    **{
        heading: column
        for way in BASELINES
        for heading, column in {
            f"{way}, theirs": lambda row, way=way: reported(TABLE_6_1[row["mode"]][way]),
            f"{way}, ours": lambda row, way=way: _ours(row, way),
        }.items()
    },
    "iterative / recursive, theirs": lambda row: (
        TABLE_6_1[row["mode"]]["iterative"] / TABLE_6_1[row["mode"]]["recursive"]
    ),
    "iterative / recursive, ours": _speed_up,
}
