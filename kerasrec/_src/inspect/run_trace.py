"""The record of a run, wave by wave, and how parallel the recursion was."""

from __future__ import annotations

import dataclasses
import html
import os
from dataclasses import dataclass
from typing import Any

from kerasrec._src.inspect.run_plot import plot
from kerasrec._src.inspect.run_step import RunStep

_MAX_ROWS = 40
_MAX_NODES = 4
_HEAD = ["step", "function", "stage", "depth", "tokens", "fired"]
_NUMBERS = {"step", "depth", "tokens"}


@dataclass(frozen=True)
class RunTrace:
    """A run of a recursive function, forward; prints as a table.

    Args:
        name: The function that was called from outside.
        steps: The steps in the order in which they happened.
        calls: For each function, the number of its calls: the tokens that entered it in the run.
        fired: For each forward node, the number of tokens that it fired in the whole run.
        usual_way: How ordinary calls of the function run, if not in waves as in this trace.
        num_shared: With `memo`, the number of calls that were not made because an equal call of the
          same root token had the same result.
    """

    name: str
    steps: list[RunStep]
    calls: dict[str, int]
    fired: dict[str, int]
    usual_way: str = ""
    num_shared: int = 0

    @property
    def waves(self) -> list[RunStep]:
        """The steps in which functions were called: together the calls of the run."""
        return [step for step in self.steps if step.begins]

    @property
    def num_calls(self) -> int:
        """The number of calls of all functions, including those from outside.

        Turns of a `while_loop` are also calls.
        """
        return sum(self.calls.values())

    @property
    def num_steps(self) -> int:
        """The number of steps that the engine took; the time of a run grows with it."""
        return self.steps[-1].step + 1 if self.steps else 0

    @property
    def max_depth(self) -> int:
        """The largest number of nested calls, including the one from outside.

        It is the smallest `max_depth` of the decorator with which waves complete this run.
        """
        return max((step.depth + 1 for step in self.waves if step.depth is not None), default=0)

    @property
    def parallelism(self) -> float:
        """The average number of tokens in a wave: how many calls ran as one."""
        return self.num_calls / len(self.waves) if self.waves else 0.0

    @property
    def max_parallelism(self) -> int:
        """The number of tokens in the largest wave."""
        return max((step.tokens for step in self.waves), default=0)

    def to_dict(self) -> dict[str, Any]:
        """The trace as plain dicts, lists, numbers and text, which JSON can hold."""
        return dataclasses.asdict(self)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws tokens and depth over the steps of the run into a PNG, SVG or PDF file."""
        plot(self.summary(), self.calls, self.steps, path)

    def summary(self) -> str:
        """The run in a few lines."""
        counts = [_counted(self.num_calls, "call"), _counted(len(self.waves), "wave")]
        lines = [
            f"{self.name}: {' in '.join(counts)} and {_counted(self.num_steps, 'step')}, "
            f"{self.max_depth:,} deep",
            f"parallelism: {self.parallelism:,.1f} tokens per wave on average, "
            f"{self.max_parallelism:,} in the largest",
        ]
        if len(self.calls) > 1:
            each = ", ".join(f"{name} {count:,}" for name, count in self.calls.items())
            lines.append(f"calls by function: {each}")
        if self.num_shared:
            more = f"{self.num_shared:,} more {'call' if self.num_shared == 1 else 'calls'}"
            lines.append(f"{more} reused the result of an equal one")
        if self.usual_way:
            lines.append(f"this run went in waves; ordinary ones do not ({self.usual_way})")
        return "\n".join(lines)

    def __str__(self) -> str:
        rows = [_HEAD, *(_row(step) for step in self.steps)]
        left_out = len(rows) - 1 - _MAX_ROWS
        if left_out > 0:
            half = _MAX_ROWS // 2
            rows = [*rows[: half + 1], *rows[-half:]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [_line(row, widths) for row in rows]
        if left_out > 0:
            lines.insert(half + 1, f"... {left_out:,} lines are left out ...")
        return "\n".join([*lines, "", self.summary()])

    def __repr__(self) -> str:
        return f"<RunTrace of {self.summary().splitlines()[0]}; print() shows them>"

    def _repr_html_(self) -> str:
        """The printed trace, for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _row(step: RunStep) -> list[str]:
    depth = "all" if step.depth is None else f"{step.depth:,}"
    numbers = [f"{step.step:,}", step.function, step.stage, depth, f"{step.tokens:,}"]
    return [*numbers, _fired(step)]


def _line(row: list[str], widths: list[int]) -> str:
    """Aligns numbers to the right of their columns, and words to the left."""
    cells = [
        f"{cell:>{width}}" if name in _NUMBERS else f"{cell:<{width}}"
        for name, cell, width in zip(_HEAD, row, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _fired(step: RunStep) -> str:
    """`8: MERGE_n, Less; 5 false: Sub, CALL_0`: the tokens and nodes of each branch."""
    groups: dict[str, list[str]] = {}
    for name in step.fired:
        groups.setdefault(_branch(name), []).append(name)
    texts = []
    for branch, names in groups.items():
        nodes = [name.rsplit("/", 1)[-1] for name in names]
        if len(nodes) > _MAX_NODES:
            nodes = [*nodes[: _MAX_NODES - 1], f"{len(nodes) - _MAX_NODES + 1} more"]
        head = f"{step.fired[names[0]]:,} {branch}".rstrip()
        texts.append(f"{head}: {', '.join(nodes)}")
    return "; ".join(texts) or "nothing"


def _branch(name: str) -> str:
    """`false` for `fib/cond/false/Sub`; empty for `fib/cond/MERGE`, which is in no branch."""
    scopes = name.split("/")[1:-1]
    branch = "/".join(scopes[: len(scopes) // 2 * 2])
    return branch.replace("cond/", "")
