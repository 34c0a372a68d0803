"""What the section `speed` found, in Markdown and as figures."""

from benchmarks import report
from benchmarks.figures import against_batch
from benchmarks.peer_rows import (
    WHAT,
    cases,
    others,
    over_limits,
    over_the_best,
    present,
    shares,
    speed_ups,
    throughputs,
    title,
    trees_per_second,
)
from benchmarks.peers import OURS, TUNED


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
        rivals = others(names)
        for name, part in ((OURS, "times"), (TUNED, "tuned")):
            if any(row[part] for row in rows):
                ratios = {"over the best": over_the_best(rivals, part), **speed_ups(rivals, part)}
                parts += [
                    f"{name}: its time divided by the dense limit's, and its speed-up over others:",
                    report.table(WHAT | over_limits(names, part) | ratios, rows),
                ]
        parts += [
            "Of these times went into orders, graphs and inputs of each batch:",
            report.table(WHAT | shares(rivals), rows),
        ]
    return "\n\n".join(parts)


def draw(found):
    """Figures by name: trees a second against batch size, for each model and size."""
    return against_batch(found["rows"], trees_per_second, ylabel="trees a second")
