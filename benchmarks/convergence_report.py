"""The results of the section `convergence`, in Markdown and as figures."""

import statistics

from benchmarks import report
from benchmarks.baseline_rows import others, present, speed_ups, title
from benchmarks.baselines import OURS
from benchmarks.figures import Panels

# Names of panels, and the values of an epoch that they show.
SHOWN = {"training loss": "loss", "accuracy, all tree nodes of dev": "nodes"}


def markdown(found):
    """A table of each model, size and batch size."""
    parts = []
    for (model, units, size), rows in runs(found["rows"]).items():
        names = present(rows)
        shown = OURS if OURS in names else names[0]
        columns = {
            "epoch": lambda row: row["epoch"],
            "loss": lambda row, name=shown: f"{loss(row, name):.3f}" if row["epoch"] else "",
            "difference": lambda row: f"{row['difference']:.0e}" if row["epoch"] else "",
            "tree nodes": lambda row, name=shown: _percent(row, name, "nodes"),
            "roots": lambda row, name=shown: _percent(row, name, "roots"),
            **{
                f"{name}, s": lambda row, name=name: report.short(row["baselines"][name]["seconds"])
                for name in names
            },
            **speed_ups(others(names)),
        }
        parts += [
            f"## {title((model, units))}, batch {size}",
            f"Mean loss of an epoch and accuracies on dev, of {shown}; the largest difference of a "
            "step's loss between baselines; seconds of training so far; kerasrec's speed-up in "
            "this epoch:",
            report.table(columns, rows),
        ]
    return "\n\n".join(parts)


def runs(rows):
    """Rows by (model, units, batch)."""
    found = {}
    for row in rows:
        found.setdefault((row["model"], row["units"], row["batch"]), []).append(row)
    return found


def loss(row, name):
    """Mean of an epoch."""
    return statistics.mean(row["baselines"][name]["losses"])


def _percent(row, name, part):
    return f"{100 * row['baselines'][name]['accuracy'][part]:.1f} %"


def draw(found):
    """Figures by name: loss and accuracy after each epoch against seconds of training."""
    figures = {}
    for (model, units, size), rows in runs(found["rows"]).items():
        shown = [
            {**row, "panel": panel}
            for panel in SHOWN
            for row in rows
            if row["epoch"] or SHOWN[panel] != "loss"
        ]
        figures[f"{model}-{units}-{size}"] = Panels(
            f"{title((model, units))}, batch {size}",
            shown,
            panel=lambda row: row["panel"],
            point=_point,
            xlabel="seconds of training",
        ).finished()
    return figures


def _point(row, name):
    of = row["baselines"][name]
    value = loss(row, name) if SHOWN[row["panel"]] == "loss" else of["accuracy"]["nodes"]
    return of["seconds"], value
