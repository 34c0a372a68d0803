"""Results that need not be written: buffers of results begin with them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kerasrec._src.frames.layout import Layout
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.instructions import Broadcast, Return


def shared_results(layout: Layout) -> dict[Return, dict[Hashable, Value]]:
    """Finds branches that return SHARED values alone, such as the zeros of a missing child.

    A frame returns once. So if a buffer of results begins with these values, only frames of other
    branches write to it.

    Returns:
        The instructions, at most one for each space of results, with the value of each buffer.
    """
    found: dict[Return, dict[Hashable, Value]] = {}
    spaces: set[Hashable] = set()
    for segment in layout.queues[0].segments:
        ones, space = segment.instructions, layout.results(segment.body)
        shared: dict[Value, Any] = {
            one.output: one.inputs[0] for one in ones if isinstance(one, Broadcast)
        }
        for one in ones:
            if not isinstance(one, Return) or space in spaces:
                continue
            if all(value in shared for value in one.values):
                found[one] = {
                    layout.output(segment.body, 0, number): shared[value]
                    for number, value in enumerate(one.values)
                }
                spaces.add(space)
    return found
