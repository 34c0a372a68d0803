"""Training on more machines: Jeong et al. (2018), figure 10.

Two workers of this machine, with a core each, replace theirs. Figures of more workers come from the
model of `benchmarks.workers`.
"""

import argparse

from benchmarks import workers
from benchmarks.papers import runs
from benchmarks.papers.tables import CURVE, table

BATCH = 25


def run(options):
    units = options.units or runs.UNITS["TreeLSTM"]
    arguments = argparse.Namespace(
        units=units, batch=[BATCH], repeats=options.repeats, data=options.data
    )
    (measured,), _, modeled = workers.run(arguments)
    one, two, eight, _ = modeled
    rows = [
        {"how": "measured", "workers": 1, "trees": measured["alone"]},
        {"how": "measured", "workers": 2, "trees": measured["workers"]},
    ]
    for network in NETWORKS:
        rows += [
            {
                "how": f"modeled, {NETWORKS[network]}",
                "workers": row["workers"],
                "trees": row[network],
            }
            for row in (one, two, eight)
        ]
    for row in rows:
        row["alone"] = measured["alone"]
    return [
        f"TreeLSTM, {units} units, training with {BATCH} trees per step of each worker, trees per "
        "second:",
        table(COLUMNS, rows),
    ]


# Of the model, in words.
NETWORKS = {"loopback": "these messages", "ethernet": "a network of 10 Gbit/s"}
COLUMNS = {
    "how": lambda row: row["how"],
    "workers": lambda row: row["workers"],
    "theirs": lambda row: CURVE,
    "ours": lambda row: row["trees"],
    "over one worker, theirs": lambda row: (
        1.0 if row["workers"] == 1 else "almost linear (section 6.2)"
    ),
    "over one worker, ours": lambda row: row["trees"] / row["alone"],
}
