"""Segments: the nodes of a body between two rounds of calls, which a machine runs in one step."""

from __future__ import annotations

from dataclasses import dataclass

from kerasrec.engine.plan import Plan
from kerasrec.graph.graph import CallSite


@dataclass(frozen=True)
class Segment:
    """Nodes of a body between two rounds of calls.

    Args:
        body: its name.
        place: its place among the body's segments.
        stages: for each sweep, the stages it covers.
        before: call sites whose returns it begins with; empty for the first.
        after: call sites that call when it ends; empty for the last, which returns.
    """

    body: str
    place: int
    stages: tuple[range, ...]
    before: tuple[CallSite, ...]
    after: tuple[CallSite, ...]

    def before_in(self, sweep: int) -> tuple[CallSite, ...]:
        """Call sites whose returns it begins with in a sweep; odd ones go the other way."""
        return self.after if sweep % 2 else self.before

    def after_in(self, sweep: int) -> tuple[CallSite, ...]:
        """Call sites that call when it ends in a sweep."""
        return self.before if sweep % 2 else self.after


def segments_of(plan: Plan) -> list[Segment]:
    """All segments of a program, body by body."""
    found = []
    for name in plan.graph.bodies:
        groups = plan.groups[name]
        for place in range(len(groups) + 1):
            end = plan.rounds + 1 if place == len(groups) else place + 1
            stages = tuple(
                _stages_of(plan, sweep, place, end) for sweep in range(plan.graph.num_sweeps)
            )
            before, after = groups.get(place, ()), groups.get(place + 1, ())
            found.append(Segment(name, place, stages, tuple(before), tuple(after)))
    return found


def _stages_of(plan: Plan, sweep: int, start: int, end: int) -> range:
    """The stages of a sweep for those from `start` to `end` of sweep 0."""
    if sweep % 2:
        last = plan.last_stage(sweep)
        return range(last - end + 1, last - start + 1)
    first = plan.first_stage(sweep)
    return range(first + start, first + end)
