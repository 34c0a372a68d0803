"""Tables with the papers' numbers next to ours; no cell of them is empty."""

from benchmarks import report
from benchmarks.baselines import OURS

CURVE = "curve, no number in the text"
NOT_REPORTED = "not reported"
NOT_RUN = "not run"


def table(columns, rows):
    """A Markdown table.

    Args:
        columns: by heading, a function of a row that returns its cell, text or a number.
        rows: a list of arguments of these functions.

    Raises:
        ValueError: for an empty cell.
    """
    cells = [{heading: text(cell(row)) for heading, cell in columns.items()} for row in rows]
    for row in cells:
        empty = [heading for heading, cell in row.items() if not cell]
        if empty:
            raise ValueError(f"The row {row} has nothing under {empty}; write the reason there.")
    return report.table(
        {heading: lambda row, heading=heading: row[heading] for heading in columns}, cells
    )


def text(value):
    """The text of a cell: text as it is, whole counts, other numbers with three digits."""
    if isinstance(value, str | int):
        return f"{value:,}" if isinstance(value, int) else value
    return report.short(value)


def reported(value, spec="g"):
    """A number with all the digits that a paper prints; text as it is."""
    return value if isinstance(value, str) else format(value, spec)


def ours(row, name):
    """Trees per second of a baseline in a row of `benchmarks.medians`."""
    return row["baselines"][name]["trees/s"] if name in row["baselines"] else NOT_RUN


def speed_up(row, name):
    """Of kerasrec over a baseline: their trees per second, which are medians, divided."""
    return ratio(ours(row, OURS), ours(row, name))


def ratio(value, by):
    """One throughput divided by another, if both are numbers."""
    if isinstance(value, float) and isinstance(by, float):
        return value / by
    return next(str(item) for item in (value, by) if not isinstance(item, float))
