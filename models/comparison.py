"""Figures of several models over several seeds: a table, and a file."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

Run = dict[str, dict[str, float]]  # of one seed: by model, by column


def table(runs: Sequence[Run]) -> str:
    """A line for each model, with means over seeds, and their deviation if seeds differ."""
    columns = list(dict.fromkeys(column for row in runs[0].values() for column in row))
    lines = ["| model | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for model in runs[0]:
        cells = [_cell([run[model].get(column) for run in runs]) for column in columns]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(values: Sequence[float | None]) -> str:
    if None in values:
        return ""
    if all(isinstance(value, int) for value in values) and len(set(values)) == 1:
        return f"{values[0]:,}"
    mean = np.mean(values)
    decimals = 0 if mean >= 100 else 1 if mean >= 10 else 2 if mean >= 1 else 3
    spread = f" ± {np.std(values, ddof=1):.{decimals}f}" if len(values) > 1 else ""
    return f"{mean:,.{decimals}f}{spread}"


def report(runs: Sequence[Run], output: Path) -> None:
    """Prints the table, and writes `results.json`."""
    print(table(runs))
    text = json.dumps(runs, indent=2) + "\n"
    (output / "results.json").write_text(text, encoding="utf-8")
