"""The results of the section `speed`, in Markdown and as figures."""

from benchmarks import report
from benchmarks.baseline_rows import (
    WHAT,
    by_case,
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
from benchmarks.baselines import LIMITS, OURS, TUNED, VECTORS
from benchmarks.figures import against_batch

# Of kerasrec, with the part of a row that has its times.
FORMS = ((OURS, "times"), (TUNED, "tuned"))


def markdown(found):
    """All cases in short, and tables of each model and size."""
    return f"{in_short(found['rows'])}\n\n{by_case(found, tables)}"


def in_short(rows):
    """Forms of kerasrec compared with the dense limit, and two with the fastest baseline."""
    names = present(rows)
    columns = {"model": lambda row: title((row["model"], row["units"])), **WHAT}
    for name, part in FORMS:
        columns |= {
            f"{name}, trees/s": throughputs([name])[name],
            f"{name}: time / dense limit": over_limits(LIMITS[:1], part)["time / dense limit"],
            f"{name}: over the best": over_the_best(others(names), part),
        }
    of_vectors = over_limits(LIMITS[:1], "vectors")["time / dense limit"]
    columns[f"{VECTORS}: time / dense limit"] = of_vectors
    columns["dense limit: over the best"] = over_the_best(others(names), "limit")
    return report.table(columns, rows)


def tables(rows, names):
    parts = ["Trees per second:", report.table(WHAT | throughputs(names), rows)]
    rivals = others(names)
    for name, part in FORMS:
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
    """Figures by name: trees per second against batch size, for each model and size."""
    return against_batch(found["rows"], trees_per_second, ylabel="trees per second")
