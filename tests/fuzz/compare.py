"""Whether two results are the same, and where they are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tests.fuzz.plain import Result, float_places, tables_of
from tests.fuzz.source import weights_of
from tests.fuzz.syntax import Program

TOLERANCE = {"float32": 2e-4, "float64": 1e-9}


@dataclass(frozen=True)
class Difference:
    """Where two results differ.

    Args:
        what: "value of ...", "table ..." or "gradient of ...".
        found: what kerasrec gave.
        expected: what plain recursion gave.
        error: the largest, over what is allowed; infinite where dtypes or shapes differ, or NaN or
          an infinity stands in one place only.
        is_nan_for_number: whether NaN where a number is expected is all there is.
    """

    what: str
    found: np.ndarray
    expected: np.ndarray
    error: float
    is_nan_for_number: bool = False

    def __str__(self) -> str:
        return f"{self.what}:\n  got      {_shown(self.found)}\n  expected {_shown(self.expected)}"


def _shown(value: np.ndarray) -> str:
    flat = np.asarray(value)
    text = np.array2string(flat, max_line_width=10_000, threshold=40, separator=", ")
    return f"{flat.dtype}{list(flat.shape)} {' '.join(text.split())}"


def differences(program: Program, found: Result, expected: Result) -> list[Difference]:
    """All places where results differ by more than rounding."""
    names = [f"value {place}" for place in range(len(expected.outputs))]
    parameters = program.entry.parameters
    sources = [parameters[place][0] for place in float_places(program)] + weights_of(program)
    pairs = list(zip(names, found.outputs, expected.outputs, strict=True))
    if list(found.tables) != list(expected.tables):
        return [
            Difference(
                "names of tables", np.array([*found.tables]), np.array([*expected.tables]), np.inf
            )
        ]
    tables = tables_of(program)
    for name, table in expected.tables.items():
        one, two = found.tables[name], table
        pairs.append((f"table {name}", one, two) if tables[name][1] else (name, *_sorted(one, two)))
    pairs += [
        (f"gradient of {name}", one, two)
        for name, one, two in zip(sources, found.gradients, expected.gradients, strict=True)
    ]
    return [item for what, one, two in pairs if (item := difference(what, one, two)) is not None]


def _sorted(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in no order, in one; of each number as many of its digits as can be relied on."""

    def in_order(rows: np.ndarray) -> np.ndarray:
        if not rows.size:
            return rows
        flat = rows.reshape(len(rows), -1)
        keys = flat if flat.dtype.kind != "f" else np.round(flat.astype("float64"), 3)
        keys = np.concatenate([np.nan_to_num(keys), np.isnan(keys)], 1)  # NaN is not 0.
        return rows[np.lexsort(keys.T[::-1], axis=0)]

    return in_order(one), in_order(two)


def difference(what: str, one: np.ndarray, two: np.ndarray) -> Difference | None:
    """Where `one` differs from `two` by more than rounding; NaN is NaN."""
    if one.dtype != two.dtype or one.shape != two.shape:
        return Difference(what, one, two, np.inf)
    error = gap(one, two) / TOLERANCE.get(two.dtype.name, 1.0)
    bad = error > 1.0
    if not bad.any():
        return None
    is_poison = np.isnan(one) & ~np.isnan(two)
    worst = float(np.max(error[bad]))
    return Difference(what, one, two, worst, is_nan_for_number=bool(np.all(is_poison[bad])))


def gap(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """For each element |one - two| / (1 + |two|), zero where both are NaN.

    It is infinite where NaN or an infinity stands in one place only, and where integers or bools
    differ.
    """
    if not tf.as_dtype(two.dtype).is_floating:
        return np.where(one == two, 0.0, np.inf)
    one, two = one.astype("float64"), two.astype("float64")
    with np.errstate(all="ignore"):
        is_same = (one == two) | (np.isnan(one) & np.isnan(two))
        found = np.where(is_same, 0.0, np.abs(one - two) / (1.0 + np.abs(two)))
    return np.where(np.isnan(found), np.inf, found)
