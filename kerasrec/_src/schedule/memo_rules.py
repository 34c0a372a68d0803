"""Refuses programs with `memo` if it is not known beforehand which calls a run makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.nodes import operations
from kerasrec._src.schedule.instructions import Fire
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Direction, Loop
from kerasrec._src.trace.functions import random_op
from kerasrec._src.trace.source import at

_Rounds = Mapping[str, Mapping[int, Sequence[CallSite]]]


def check_no_call_waits(rounds: _Rounds) -> None:
    """Raises TraceError if a call waits for what another one returns.

    Args:
        rounds: The call sites of each body, by round.
    """
    for name, groups in rounds.items():
        if len(groups) > 1:
            raise TraceError(
                f"{name} makes a call{at(groups[2][0].source)} that waits for what another call, "
                "or a loop, returns. With memo=True it must be known which calls "
                "there are before any of them returns. Call with integers that are computed from "
                "the arguments alone, not in a branch that a result decides; or leave out "
                "memo=True."
            )


def check_nothing_is_drawn(schedule: Schedule) -> None:
    """Raises TraceError if a random draw decides which calls there are, since it would run twice.

    Args:
        schedule: A schedule before any pass, so that the first loop has only what decides.
    """
    for section, _, fire in schedule.of(Fire):
        is_first = isinstance(section, Loop) and section.direction is Direction.CALLS
        name = random_op(operations([fire.node])) if is_first else None
        if name:
            raise TraceError(
                f"{name} at {fire.node.source} decides which calls there are, or with which "
                "integers. With memo=True that is computed twice, and it may differ the second "
                "time. Draw before the call, and pass what was drawn as an argument; or leave out "
                "memo=True."
            )
