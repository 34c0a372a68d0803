"""How times grow: exponents by least squares."""

import numpy as np

from benchmarks.baseline_rows import present, step_milliseconds


def exponent(sizes, times):
    """The slope of a straight line through the points on logarithmic axes.

    1 is linear growth, 0 none.
    """
    slope, _ = np.polyfit(np.log(sizes), np.log(times), 1)
    return float(slope)


def exponents(rows, against):
    """By baseline, the exponent of a size that rows have in the time of a step."""
    sizes = [row[against] for row in rows]
    return {
        name: exponent(sizes, [step_milliseconds(row, name) for row in rows])
        for name in present(rows)
    }


def columns(names):
    """Of rows that have `exponents`; empty where a baseline took no part."""
    return {
        name: lambda row, name=name: (
            f"{row['exponents'][name]:.2f}" if name in row["exponents"] else ""
        )
        for name in names
    }
