"""A picture of a run: how many tokens ran at once, and how deep they were."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kerasrec._src.inspect.run_step import RunStep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_SHOWN = 1500
_CHOSEN = "of neighboring steps the one with the most tokens"


def plot(
    summary: str, calls: dict[str, int], steps: Sequence[RunStep], path: str | os.PathLike[str]
) -> None:
    """Draws tokens, by function, and depth over the steps of a run.

    Args:
        summary: The summary of the run; its first two lines are printed above the picture.
        calls: The number of calls of each function.
        steps: The steps of the run, in order.
        path: The path of the picture; its suffix chooses the format.

    Raises:
        ImportError: If Matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError(
            "Drawing a run needs the Python package matplotlib: pip install matplotlib. Without "
            "it, print the trace, or read its steps."
        ) from error
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    figure.suptitle("\n".join(summary.splitlines()[:2]), fontsize=11)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    num_steps = steps[-1].step + 1 if steps else 1
    tokens = _tokens(calls, steps, num_steps)
    shown, edges = _shown(np.sum(list(tokens.values()), axis=0))
    _draw_tokens(above, calls, {name: counts[shown] for name, counts in tokens.items()}, edges)
    _draw_hoisted(above, steps, num_steps)
    _draw_depth(below, _depths(steps, num_steps)[shown], edges)
    below.set_xlim(edges[0], edges[-1])
    is_whole = len(shown) == num_steps
    below.set_xlabel("step of the run" if is_whole else f"step of the run, {_CHOSEN}")
    for axis in (above.yaxis, below.yaxis, below.xaxis):
        axis.set_major_locator(MaxNLocator(nbins=4 if axis is below.yaxis else 9, integer=True))
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


def _tokens(
    calls: dict[str, int], steps: Sequence[RunStep], num_steps: int
) -> dict[str, np.ndarray]:
    """The number of tokens in the wave of each step, by function; 0 for hoisted steps."""
    tokens = {name: np.zeros(num_steps, int) for name in calls}
    for step in steps:
        if step.wave is not None:
            tokens[step.function][step.step] = step.tokens
    return tokens


def _depths(steps: Sequence[RunStep], num_steps: int) -> np.ndarray:
    """The depth of each step; NaN for hoisted steps."""
    depths = np.full(num_steps, np.nan)
    for step in steps:
        if step.depth is not None:
            depths[step.step] = step.depth
    return depths


def _shown(totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps to draw, and the edges between them.

    If there are more than can be told apart, only the one with the most tokens among its neighbors
    is drawn: Matplotlib took 50 s for an area of 127,000 steps.
    """
    starts = np.unique(np.linspace(0, len(totals), _MAX_SHOWN + 1).astype(int))
    parts = np.split(totals, starts[1:-1])
    return starts[:-1] + [np.argmax(part) for part in parts], starts - 0.5


def _draw_tokens(
    axes: Axes, calls: dict[str, int], tokens: dict[str, np.ndarray], edges: np.ndarray
) -> None:
    """Draws an area for each function, stacked."""
    base = np.zeros(len(edges) - 1)
    for name, counts in tokens.items():
        label = f"{name}: {calls[name]:,} calls"
        axes.stairs(base + counts, edges, baseline=base, fill=True, alpha=0.8, label=label)
        base = base + counts
    axes.set_ylim(0, 1.25 * max(1, base.max()))
    axes.set_ylabel("tokens in the wave")


def _draw_hoisted(axes: Axes, steps: Sequence[RunStep], num_steps: int) -> None:
    """Draws a line and a label for hoisted steps; their area would dwarf that of the waves."""
    hoisted = (step for step in steps if step.wave is None)
    for number, group in itertools.groupby(hoisted, lambda step: step.step):
        found = list(group)
        lines = [found[0].stage, *(f"{item.function} {item.tokens:,}" for item in found)]
        is_left = number < num_steps / 2
        axes.axvline(number, color="grey", linestyle="--", linewidth=1)
        axes.annotate(
            "\n".join(lines),
            xy=(number, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(4 if is_left else -4, -4),
            textcoords="offset points",
            horizontalalignment="left" if is_left else "right",
            verticalalignment="top",
            fontsize=8,
            color="dimgrey",
        )


def _draw_depth(axes: Axes, depths: np.ndarray, edges: np.ndarray) -> None:
    axes.stairs(depths, edges, baseline=None, color="black")
    highest = np.nanmax([1, *depths])
    axes.set_ylim(-0.08 * highest, 1.08 * highest)
    axes.set_ylabel("nested calls")
