"""Columns of tables, for rows that `benchmarks.medians` made."""

from benchmarks import report
from benchmarks.baselines import BASELINES, LIMITS, OWN

# First columns of tables by mode and batch size.
WHAT = {"": lambda row: row["mode"], "batch": lambda row: row["batch"]}


def cases(rows):
    """Rows by (model, units)."""
    found = {}
    for row in rows:
        found.setdefault((row["model"], row["units"]), []).append(row)
    return found


def by_case(found, tables):
    """Markdown of a section, with a heading for each model and size.

    Args:
        found: the result of the section's `run`.
        tables: returns the paragraphs of a case, given its rows and the names of implementations.
    """
    return "\n\n".join(
        part
        for case, rows in cases(found["rows"]).items()
        for part in (f"## {title(case)}", *tables(rows, present(rows)))
    )


def title(case):
    model, units = case
    return f"{model}, {units} units"


def present(rows):
    """Names of the implementations that any row has."""
    return [name for name in BASELINES if any(name in row["baselines"] for row in rows)]


def others(names):
    """The baselines: all but kerasrec and the limits."""
    return [name for name in names if name not in (*OWN, *LIMITS)]


def throughputs(names):
    return {name: _cell("baselines", name, lambda of: f"{of['trees/s']:,.0f}") for name in names}


def milliseconds(names):
    """Of a step, which has `batch` trees."""
    return {f"{name}, ms": lambda row, name=name: _step(row, name) for name in names}


def _step(row, name):
    return report.short(step_milliseconds(row, name)) if name in row["baselines"] else ""


def trees_per_second(row, name):
    return row["baselines"][name]["trees/s"]


def step_milliseconds(row, name):
    return 1e3 * row["batch"] / row["baselines"][name]["trees/s"]


def over_limits(names, part="times"):
    """kerasrec's time divided by the dense limit's, if that was measured.

    `part` of a row is "times" or, of the tuned kerasrec, "tuned".
    """
    limits = [name for name in names if name in LIMITS]
    return {f"time / {name}": _cell(part, name, lambda time: f"{time:.2f}") for name in limits}


def speed_ups(names, part="times"):
    """kerasrec's over each of these."""
    return {f"over {name}": _cell(part, name, lambda time: f"{1 / time:.2f}") for name in names}


def over_the_best(names, part="times"):
    """kerasrec's speed-up over the fastest of these."""

    def cell(row):
        there = [name for name in names if name in row[part]]
        best = max(there, key=lambda name: trees_per_second(row, name), default=None)
        return f"{1 / row[part][best]:.2f} ({best})" if best else ""

    return cell


def shares(names):
    """The share of its time that each needs before it computes."""
    return {
        name: _cell("baselines", name, lambda of: f"{100 * of['share']:.0f} %") for name in names
    }


def _cell(part, name, text):
    """A column of one implementation, empty where it did not run."""
    return lambda row: text(row[part][name]) if name in row[part] else ""


def in_a_line(row):
    """A line that shows progress."""
    return ", ".join(f"{name} {of['trees/s']:,.0f}" for name, of in row["baselines"].items())
