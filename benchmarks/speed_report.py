"""What the section `speed` found, in Markdown and as figures."""

from benchmarks import report
from benchmarks.peers import PEERS

OURS = "kerasrec"
LIMIT = "dense limit"
# First columns of every table.
WHAT = {"": lambda row: row["mode"], "batch": lambda row: row["batch"]}


def markdown(found):
    """Tables of each model and size."""
    parts = []
    for (model, units), rows in cases(found).items():
        present = [name for name in PEERS if any(name in row["peers"] for row in rows)]
        parts += [
            f"## {model}, {units} units",
            "Trees a second:",
            report.table(_throughputs(present), rows),
        ]
        if any(row["times"] for row in rows):
            parts += [
                f"{OURS}: its time divided by the dense limit's, and its speed-up over others:",
                report.table(_ratios(present), rows),
            ]
        parts += [
            "Of these times went into orders, graphs and inputs of each batch:",
            report.table(_shares(present), rows),
        ]
    return "\n\n".join(parts)


def _throughputs(present):
    return WHAT | {
        name: _cell("peers", name, lambda of: f"{of['trees/s']:,.0f}") for name in present
    }


def _ratios(present):
    return {
        **WHAT,
        f"time / {LIMIT}": _cell("times", LIMIT, lambda time: f"{time:.2f}"),
        "over the best": _over_the_best,
        **{
            f"over {name}": _cell("times", name, lambda time: f"{1 / time:.2f}")
            for name in _others(present)
        },
    }


def _shares(present):
    return WHAT | {
        name: _cell("peers", name, lambda of: f"{100 * of['share']:.0f} %")
        for name in _others(present)
    }


def _others(names):
    return [name for name in names if name not in (OURS, LIMIT)]


def cases(found):
    """Rows by (model, units)."""
    rows = {}
    for row in found["rows"]:
        rows.setdefault((row["model"], row["units"]), []).append(row)
    return rows


def draw(found):
    """Figures by name: trees a second against batch size, for each model and size."""
    # Here, since it is of an extra.
    from matplotlib.figure import Figure

    figures = {}
    for (model, units), rows in cases(found).items():
        modes = list(dict.fromkeys(row["mode"] for row in rows))
        figure = Figure(figsize=(5.5 * len(modes), 4.5), layout="constrained")
        for axes, mode in zip(figure.subplots(1, len(modes), squeeze=False)[0], modes, strict=True):
            for name in PEERS:
                points = [
                    (row["batch"], row["peers"][name]["trees/s"])
                    for row in rows
                    if row["mode"] == mode and name in row["peers"]
                ]
                if points:
                    style = {OURS: "k-", LIMIT: "k:"}.get(name, "-")
                    axes.plot(*zip(*points, strict=True), style, marker="o", ms=4, label=name)
            axes.set(title=mode, xlabel="trees a batch", ylabel="trees a second")
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(*[sorted({row["batch"] for row in rows})] * 2, minor=False)
            axes.minorticks_off()
        entries = axes.get_legend_handles_labels()
        figure.legend(*entries, loc="outside right center", fontsize="small")
        figure.suptitle(f"{model}, {units} units")
        figures[f"{model}-{units}"] = figure
    return figures


def _cell(part, name, text):
    """A column of one peer, empty where it took no part."""
    return lambda row: text(row[part][name]) if name in row[part] else ""


def _over_the_best(row):
    """kerasrec's speed-up over the fastest other."""
    best = max(_others(row["times"]), key=row["times"].get, default=None)
    return f"{1 / row['times'][best]:.2f} ({best})" if best else ""


def in_short(row):
    """A line for those who wait."""
    return ", ".join(f"{name} {of['trees/s']:,.0f}" for name, of in row["peers"].items())
