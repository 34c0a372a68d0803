"""How a program runs, as a value for the user."""

from __future__ import annotations

import html
from dataclasses import dataclass

from kerasrec._src.schedule.schedule import Schedule


@dataclass(frozen=True)
class ExecutionPlan:
    """How a recursive function runs for some signature; it prints.

    Args:
        engine: The engine: "waves", "compiled" or "scalar".
        reason: Why this engine runs the program.
        schedule: What runs when, on which tokens, and what is kept for the gradient; for "scalar",
          how waves would run it.
        advice: What may make it faster on this machine; empty if nothing is known, or if you chose
          the engine.
    """

    engine: str
    reason: str
    schedule: Schedule
    advice: str = ""

    @property
    def summary(self) -> str:
        """Engine, reason and advice, in one line."""
        advice = f"; {self.advice}" if self.advice else ""
        return f"engine: {self.engine}, {self.reason}{advice}"

    def __str__(self) -> str:
        return f"{self.summary}\n\n{self.schedule}"

    def __repr__(self) -> str:
        return f"<ExecutionPlan, {self.summary}; print() shows it>"

    def _repr_html_(self) -> str:
        """The printed plan, for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"
