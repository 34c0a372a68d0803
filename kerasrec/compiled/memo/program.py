"""What all parts of a run with equal calls know of its program."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.compiled.program import Circle, Program
from kerasrec.compiled.rows import Sizes
from kerasrec.errors import GraphError
from kerasrec.graph.graph import CallSite
from kerasrec.queues.buffers import Room
from kerasrec.queues.layout import Layout
from kerasrec.schedule.instructions import Wait

ROOTS = ("roots",)
COPIES = ("copies",)


def circles_of(layout: Layout) -> list[Circle]:
    """The places of all bodies in two circles: what runs in any order, and level by level.

    Raises:
        GraphError: there are others than those before and after calls.
    """
    order = layout.queues[0].order
    others = [key for key in order if key[1] > 1]
    if others:
        raise GraphError(f"With memo a body has places 0 and 1, and there are {others}.")
    names = list(layout.graph.bodies)
    places = [[(name, place) for name in names if (name, place) in order] for place in (0, 1)]
    return [circle for circle in places if circle]


def called_key(sites: Sequence[CallSite]) -> Hashable:
    """Under which are kept the calls that call sites make."""
    return ("called", sites[0].label)


@dataclass
class MemoProgram(Program):
    """A program in one run; arguments as for `Program`. `done` has what `Order` says of calls."""

    @functools.cached_property
    def circles(self) -> list[Circle]:  # type: ignore[override]
        """All places: what runs in any order, and level by level."""
        return circles_of(self.layout)

    def sizes_for(self, circle: Circle) -> Sizes:
        """How large the blocks of a circle are: narrow where levels wait for each other."""
        return self.sizes if circle[0][1] else self.sizes.wide

    def of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """The rows of root tokens."""
        return tf.gather_nd(tensor, self.roots)

    def rooms(self, sweep: int) -> dict[Hashable, Room]:
        """The buffers that a sweep fills."""
        layout = self.layout
        kinds = ("input", "output", "value")
        found: dict[Hashable, Room] = {
            key: room for key, room in layout.rooms(sweep).items() if key[0] in kinds
        }
        for value in layout.kept_by_block(sweep):
            found["value", value] = Room(None, value.type.dtype, value.type.shape or ())
        if not sweep:
            found |= {("waits", name): Room(name, tf.bool, ()) for name in self.waiting}
        return found

    @property
    def roots(self) -> tf.Tensor:
        """The calls and copies of root tokens, int32 `[tokens, 2]`."""
        return self.done[ROOTS]

    @functools.cached_property
    def waiting(self) -> list[str]:
        """Bodies of which some calls wait for others."""
        return [
            segment.body
            for segment in self.layout.queues[0].segments
            if any(isinstance(one, Wait) for one in segment.instructions)
        ]
