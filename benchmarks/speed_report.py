"""What the section `speed` found, in Markdown and as figures."""

from benchmarks import report
from benchmarks.figures import against_batch
from benchmarks.peer_rows import (
    WHAT,
    cases,
    others,
    over_limit,
    over_the_best,
    present,
    shares,
    speed_ups,
    throughputs,
    title,
    trees_per_second,
)
from benchmarks.peers import OURS


def markdown(found):
    """Tables of each model and size."""
    parts = []
    for case, rows in cases(found["rows"]).items():
        names = present(rows)
        parts += [
            f"## {title(case)}",
            "Trees a second:",
            report.table(WHAT | throughputs(names), rows),
        ]
        if any(row["times"] for row in rows):
            rivals = others(names)
            ratios = {"over the best": over_the_best(rivals), **speed_ups(rivals)}
            parts += [
                f"{OURS}: its time divided by the dense limit's, and its speed-up over others:",
                report.table(WHAT | over_limit(names) | ratios, rows),
            ]
        parts += [
            "Of these times went into orders, graphs and inputs of each batch:",
            report.table(WHAT | shares(others(names)), rows),
        ]
    return "\n\n".join(parts)


def draw(found):
    """Figures by name: trees a second against batch size, for each model and size."""
    return against_batch(found["rows"], trees_per_second, ylabel="trees a second")
