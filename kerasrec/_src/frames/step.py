"""One step of the first sweep: a place of a body runs on a block of frames that wait for it.

The order of a step is here, and its bookkeeping of calls: where their frames and
results are, who called them, and for how many calls a frame waits. How the frames are taken from
queues and appended to queues depends on how their rows are stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.results import State
from kerasrec._src.frames.layout import CALLS, RETURNS, Column, Layout
from kerasrec._src.graph.values import Region
from kerasrec._src.schedule.instructions import Return, Send, Wait
from kerasrec._src.schedule.sections import Place


class Step:
    """One step.

    Args:
        layout: The layout of the program.
        key: The place.
        state: The state of the sweep before the step.
    """

    block: Any

    def __init__(self, layout: Layout, key: Place, state: State):
        self.layout = layout
        # Dicts and lists are changed in place.
        self._state: State = {
            name: part.copy() if isinstance(part, dict | list) else part
            for name, part in state.items()
        }
        self.name, self.place = self.key = key
        self.segment = layout.segment(self.name, 0, self.place)

    def run(self) -> None:
        """Runs the place on the frames of the block.

        This computes and keeps values, makes calls, returns results, and queues frames that are
        ready.
        """
        self.take()
        self.block.run(self.segment.instructions)
        self.note()
        self.wait(self.segment.of(Wait))
        for callee, sends in self.block.calls().items():
            self.call(callee, sends, [self._frames(callee, send) for send in sends])
        self.end_calls()
        returns = self.segment.of(Return)
        if returns:
            self.block.give_back(returns, 0)
            self.resume(returns)

    def take(self) -> None:
        """Takes frames from the queue of the place, and makes a block of them."""
        raise NotImplementedError

    def note(self) -> None:
        """Notes the values that the block has computed, before it makes calls."""

    def appended(self, space: Hashable, region: Region | None, width: int) -> tf.Tensor:
        """Appends `width` rows to a space for each token of a region; returns the first ones."""
        raise NotImplementedError

    def columns_of_callers(self, send: Send) -> dict[Column, tf.Tensor]:
        """The integers kept for the frames that call, and their numbers and labels, for each call.

        `caller` and `label` are those of the calls.
        """
        raise NotImplementedError

    def each_call(self, first: tf.Tensor, width: int) -> tf.Tensor:
        """The numbers of `width` calls for each token, given the first ones."""
        raise NotImplementedError

    def call(
        self, callee: str, sends: Sequence[Send], frames: Sequence[dict[Column, tf.Tensor]]
    ) -> None:
        """Appends frames for the calls of a body, given the integers that are kept for them."""
        raise NotImplementedError

    def end_calls(self) -> None:
        """Is called when all calls are made."""

    def queue(self, key: Place, region: Region | None, where: tf.Tensor | None = None) -> None:
        """Queues frames of the block: the tokens of a region, or those of them that are ready.

        Args:
            key: The place at which they go on.
            region: The region, which is not of entries.
            where: For each token of the region, whether it is ready, bool; None for all.
        """
        raise NotImplementedError

    def resume(self, returns: Sequence[Return]) -> None:
        """Queues the frames whose calls have all returned, now that the block returns."""
        raise NotImplementedError

    def is_counted(self, key: Place) -> bool:
        """Whether frames count the calls for which they wait before a place."""
        return bool(self.layout.counts_calls(*key))

    def wait(self, waits: Sequence[Wait]) -> None:
        """Makes frames wait for their calls; they are queued if they made none."""
        block = self.block
        for wait in waits:
            key, region = (self.name, wait.then), wait.region
            if self.layout.is_walked(key) or not (wait.sites or wait.others):
                self.queue(key, region)
            elif self.is_counted(key):
                count = tf.fill(tf.shape(block.numbers(region)), len(wait.sites))
                if wait.others:
                    called = [
                        len(sites) * block.num_called(sites[0].region) for sites in wait.others
                    ]
                    count += block.spread(tf.add_n(called), region)
                block.write_own(("pending", self.name), count, region)
                if not wait.sites:
                    self.queue(key, region, tf.equal(count, 0))

    def _frames(self, callee: str, send: Send) -> dict[Column, tf.Tensor]:
        """The integers kept for the frames that call sites call, and the `first` of each token."""
        block, region, width = self.block, send.region, len(send.sites)
        first = self.appended(callee, region, width)
        block.write_own(self.layout.link(send.sites), first, region)
        own = self.columns_of_callers(send)
        columns: dict[Column, tf.Tensor] = {"first": first, "depth": own["depth"] + 1}
        columns |= {name: own[name] for name in CALLS}
        if not self.layout.has_tail_calls(callee):
            return columns
        if send.sites[0] in self.layout.handed_on:
            return columns | {name: own[name] for name in RETURNS if name in own}
        space = self.layout.results(callee)
        if space != callee:
            first = self.appended(space, region, width)
            block.write_own(self.layout.link(send.sites, True), first, region)
        results = self.each_call(first, width)
        return columns | dict(zip(RETURNS, (own["caller"], own["label"], results), strict=True))
