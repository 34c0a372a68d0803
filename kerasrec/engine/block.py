"""A block: frames of one body that run a place of it together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from kerasrec.engine.buffers import Buffers
from kerasrec.engine.frame import Frame
from kerasrec.engine.layout import Group, Key, Layout, Link
from kerasrec.graph.graph import present
from kerasrec.graph.values import Branch, Node, Region, Value


class Block:
    """Values of a block, computed here or read from where the run keeps them.

    Args:
        layout: of the program.
        body: its name.
        numbers: int32 `[tokens]`, of the frames.
        shared: tensors of SHARED values.
        prepared: what rewrites have prepared.
        buffers: those that the loop fills; one without buffers when no loop runs.
        done: by key, buffers that are complete.
        kept: gives a value that this block has kept at another time.
        place: of the body; None for all frames.
    """

    def __init__(
        self,
        layout: Layout,
        body: str,
        numbers: tf.Tensor,
        shared: dict[Value, tf.Tensor],
        prepared: Mapping[Node, Sequence[tf.Tensor]],
        buffers: Buffers,
        done: Mapping[Key, tf.Tensor],
        kept: Callable[[Value], tf.Tensor],
        place: int | None,
    ):
        self.layout = layout
        self.body = body
        self.buffers = buffers
        self.done = done
        self.kept = kept
        self.place = place
        self.frame = Frame(
            layout.plan, tf.size(numbers), shared, self._fetch, self._choices, prepared
        )
        self._numbers: dict[Region | None, tf.Tensor] = {None: numbers}
        self._places: dict[Region | None, tf.Tensor] = {}

    def numbers(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, int32, the number of its frame, or of its entry."""
        if region is not None and region not in self._numbers:
            rows = self.frame.rows(region)
            if isinstance(region, Branch):
                found = tf.gather(self.numbers(region.parent), rows)
            else:
                first = self.read(("entries", region), self.numbers(region.parent))
                starts = tf.cumsum(self.frame.get(region.selector), exclusive=True)
                found = tf.gather(first - starts, rows) + tf.range(tf.size(rows))
            self._numbers[region] = found
        return self._numbers[region]

    def places(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, int32, the place of its frame in the block."""
        if region not in self._places:
            if region is None:
                found = tf.range(self.frame.count(None))
            else:
                found = tf.gather(self.places(region.parent), self.frame.rows(region))
            self._places[region] = found
        return self._places[region]

    def called(self, link: Link, is_result: bool) -> tf.Tensor:
        """The numbers of the frames that a link called, int32, all of a token side by side.

        Args:
            link: of the body.
            is_result: gives the frames that returned the results, after tail calls: what they
              returned stands in the rows of those that were called.
        """
        found = self.read(link.key, self.numbers(link.region))
        if len(link.sites) > 1:
            found = tf.reshape(found[:, tf.newaxis] + tf.range(len(link.sites)), [-1])
        callee = link.sites[0].callee
        if is_result and self.layout.has_tail_calls(callee):
            return self.read(("result", callee), found)
        return found

    def called_by(self, group: Group, is_result: bool) -> tf.Tensor:
        """The same for all links of a group, in order."""
        found = [self.called(link, is_result) for link in group.links]
        return found[0] if len(found) == 1 else tf.concat(found, 0)

    def read(self, key: Key, rows: tf.Tensor) -> tf.Tensor:
        """Rows of a buffer."""
        if key in self.done:
            return tf.gather(self.done[key], rows)
        return self.buffers.read(key, rows)

    def _choices(self, region: Region) -> list[tf.Tensor] | None:
        """Where the tokens of regions come from, if all of the block are in one of them."""
        tail = self.layout.plan.tails[self.body]
        if self.place is None or all(tail.is_open(item, self.place) for item in region.siblings):
            return None
        return [
            tf.zeros([0], tf.int32)
            if tail.is_open(item, self.place)
            else tf.range(self.frame.count(item.parent))
            for item in region.siblings
        ]

    def _fetch(self, value: Value) -> tf.Tensor:
        node = value.node
        if node in self.layout.entrances:
            return self.read(self.layout.entrances[node], self.numbers(None))
        if node in self.layout.returned:
            return self._returned(value)
        if value in self.layout.rows:
            return self.read(("value", value), self.numbers(value.region))
        return self.kept(value)

    def _returned(self, value: Value) -> tf.Tensor:
        """What a call returned; what the calls of its link returned is read together."""
        found = self.layout.returned[value.node]
        callee = found.link.sites[0].callee
        key = ("output", callee, found.sweep, found.number)
        tensor = self.read(key, self.called(found.link, is_result=False))
        trips = [present(site.trips[found.sweep].returns) for site in found.link.sites]
        nodes = [returns[found.number] if returns else None for returns in trips]
        self.frame.set_alternating(nodes, tensor)
        return self.frame.get(value)
