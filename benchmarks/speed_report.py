"""What the section `speed` found, in Markdown and as figures."""

from benchmarks import report
from benchmarks.figures import against_batch
from benchmarks.peer_rows import (
    WHAT,
    by_case,
    others,
    over_limits,
    over_the_best,
    shares,
    speed_ups,
    throughputs,
    trees_per_second,
)
from benchmarks.peers import OURS, TUNED


def markdown(found):
    """Tables of each model and size."""
    return by_case(found, tables)


def tables(rows, names):
    parts = ["Trees a second:", report.table(WHAT | throughputs(names), rows)]
    rivals = others(names)
    for name, part in ((OURS, "times"), (TUNED, "tuned")):
        if any(row[part] for row in rows):
            ratios = {"over the best": over_the_best(rivals, part), **speed_ups(rivals, part)}
            parts += [
                f"{name}: its time divided by the dense limit's, and its speed-up over others:",
                report.table(WHAT | over_limits(names, part) | ratios, rows),
            ]
    return [
        *parts,
        "Of these times went into orders, graphs and inputs of each batch:",
        report.table(WHAT | shares(rivals), rows),
    ]


def draw(found):
    """Figures by name: trees a second against batch size, for each model and size."""
    return against_batch(found["rows"], trees_per_second, ylabel="trees a second")
