"""How figures look: panels side by side, a line for each baseline, one legend."""

from benchmarks.baseline_rows import cases, present, title
from benchmarks.baselines import BASELINES, LIMITS, OWN


class Panels:
    """A figure with a panel for each kind of row, and in it a line for each baseline.

    Args:
        title: of the figure.
        rows: as `benchmarks.medians` makes them.
        panel: of a row, the name of its panel.
        point: of a row and a baseline's name, `(x, y)`.
        sharey: whether all panels have one vertical axis.
        **settings: of all axes, as Matplotlib's `Axes.set` takes them.
    """

    def __init__(self, title, rows, panel, point, sharey=False, **settings):
        # Here, since it is of an extra.
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogFormatter

        names = list(dict.fromkeys(map(panel, rows)))
        self.figure = Figure(figsize=(5.5 * len(names), 4.5), layout="constrained")
        self.figure.suptitle(title)
        (axes,) = self.figure.subplots(1, len(names), squeeze=False, sharey=sharey)
        self.axes = dict(zip(names, axes, strict=True))
        for name in names:
            self.axes[name].set(title=name, **settings)
            for axis in (self.axes[name].xaxis, self.axes[name].yaxis):
                if axis.get_scale() == "log":
                    # Plain numbers, between powers of ten too where there are few of these.
                    axis.set_major_formatter(LogFormatter())
                    axis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
            for baseline in present(rows):
                of_baseline = [
                    row for row in rows if panel(row) == name and baseline in row["baselines"]
                ]
                points = [point(row, baseline) for row in of_baseline]
                if points:
                    self.axes[name].plot(
                        *zip(*points, strict=True),
                        **style(baseline),
                        marker="o",
                        ms=4,
                        label=baseline,
                    )

    def scatter(self, panel, baseline, points):
        """Adds `(x, y)` of single steps."""
        color = style(baseline)["color"]
        self.axes[panel].scatter(*zip(*points, strict=True), s=6, alpha=0.4, color=color)

    def ticks(self, values):
        """Puts these, and no others, on all horizontal axes."""
        for axes in self.axes.values():
            axes.set_xticks(values, values, minor=False)
            axes.xaxis.minorticks_off()

    def finished(self):
        """The figure, with one legend for all panels."""
        entries = {}
        for axes in self.axes.values():
            lines, labels = axes.get_legend_handles_labels()
            entries |= zip(labels, lines, strict=True)
        self.figure.legend(
            entries.values(), entries.keys(), loc="outside right center", fontsize="small"
        )
        return self.figure


def against_batch(rows, value, **options):
    """Figures by name, one per model and size: a value of a row and a baseline, by batch size."""
    figures = {}
    for case, of_case in cases(rows).items():
        panels = Panels(
            title(case),
            of_case,
            panel=lambda row: row["mode"],
            point=lambda row, name: (row["batch"], value(row, name)),
            xlabel="trees per batch",
            xscale="log",
            yscale="log",
            **options,
        )
        panels.ticks(sorted({row["batch"] for row in of_case}))
        figures["-".join(map(str, case))] = panels.finished()
    return figures


def by_mode(rows, **options):
    """For each model, size and mode: a name, its rows, and `Panels` of them."""
    for case, of_case in cases(rows).items():
        for mode in dict.fromkeys(row["mode"] for row in of_case):
            of_mode = [row for row in of_case if row["mode"] == mode]
            name = "-".join(map(str, [*case, mode]))
            yield name, of_mode, Panels(f"{title(case)}, {mode}", of_mode, **options)


# Of the lines of the forms of kerasrec after the first three.
DASHES = ((5, 1, 1, 1, 1, 1), (5, 1, 5, 1, 1, 1), (1, 1), (5, 5))


def style(baseline):
    """An implementation looks the same in all figures; kerasrec and the limit are black."""
    for names, lines in (
        (OWN, ("-", "--", "-.", *((0, dashes) for dashes in DASHES))),
        (LIMITS, (":", (0, (1, 4)), (0, (1, 8)))),
    ):
        if baseline in names:
            return {"color": "k", "linestyle": lines[names.index(baseline)]}
    return {"color": f"C{list(BASELINES).index(baseline) % 10}", "linestyle": "-"}
