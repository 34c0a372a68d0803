"""Walked places: places whose frames are all there before the first of them runs.

The frames of such a place are in a list. The list is walked from its end, since the calls of a
frame come after it. So nothing has to record which frames are ready. A block must not contain both
a frame and a frame that it has called. So it begins no earlier than with the first frame that was
listed after all frames that may have called one of the block. This is asked of each frame of the
block, since frames that were called earlier may be listed later.
"""

from __future__ import annotations

from kerasrec._src.frames.layout import Layout
from kerasrec._src.schedule.sections import Place
from kerasrec._src.schedule.turns import fed_by


class Walks:
    """The walked places of a program.

    Args:
        layout: The layout of the program.
    """

    def __init__(self, layout: Layout):
        self._layout = layout
        components = layout.queues[0].components
        self._places = frozenset(one[0] for one in components if len(one) == 1 and one[0][1])
        fed = fed_by(layout.queues[0].segments)
        # All other frames that a frame waits for are done, since other places that feed this one
        # run before it.
        self._own = {key[0]: key for key in self._places if key in fed[key]}

    def has(self, key: Place) -> bool:
        """Whether a place is walked."""
        return key in self._places

    def own(self, body: str) -> Place | None:
        """The walked place of a body at which frames may wait for each other."""
        return self._own.get(body)

    def resumed(self, body: str) -> dict[Place, list[int]]:
        """The other places to which a body returns, with the labels of calls that wait there."""
        callers = self._layout.callers(body)
        return {place: labels for place, labels in callers.items() if not self.has(place)}
