"""A block: frames of one body that run a place of it together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from kerasrec.emit.registers import Registers
from kerasrec.emit.results import Tensors
from kerasrec.graph.graph import CallSite
from kerasrec.graph.values import Branch, Node, Region, Value
from kerasrec.queues.buffers import Buffers, Key, without_rows
from kerasrec.queues.layout import TAIL_FRAME, Layout
from kerasrec.schedule.instructions import Fetch, Frames, Instruction, Load, Receive, Save

Arrays = dict[Value, tf.TensorArray]


class Block(Registers):
    """Registers of a segment on some frames of its body.

    Args:
        layout: of the program.
        body: its name.
        numbers: int32 `[tokens]`, of the frames.
        shared: tensors of SHARED values.
        buffers: those that the loop fills; one without buffers when no loop runs.
        done: by key, buffers that are complete.
        kept: gives a value that this block has kept at another time.
    """

    def __init__(
        self,
        layout: Layout,
        body: str,
        numbers: tf.Tensor,
        shared: dict[Value, tf.Tensor],
        buffers: Buffers,
        done: Mapping[Key, tf.Tensor],
        kept: Callable[[Value], tf.Tensor],
    ):
        super().__init__(body, shared, layout.graph.meaning_of_labels)
        self.layout = layout
        self.buffers = buffers
        self.done = done
        self._saves: list[Save] = []
        self._kept = kept
        self._numbers: dict[Region | None, tf.Tensor] = {None: numbers}
        self._places: dict[Region | None, tf.Tensor] = {}

    @property
    def count(self) -> tf.Tensor:
        """int32 scalar, how many frames there are."""
        return tf.size(self._numbers[None])

    def bring(self, one: Instruction) -> Tensors:
        """What was passed to the frames, or returned to them, or kept of them."""
        if isinstance(one, Frames):
            return [self.count]
        if isinstance(one, Receive) and one.tokens:
            return [self.count, *self.given]
        if isinstance(one, Receive):
            return [self._passed(value.node) for value in one.values]
        if isinstance(one, Fetch):
            key = self.layout.output(one.sites[0].callee, one.sweep, one.number)
            return [self.read(key, self.called(one.sites, not one.sweep % 2))]
        if isinstance(one, Load) and isinstance(one.item, Value):
            if one.by_frame:
                return [self.read(("value", one.item), self.numbers(one.item.region))]
            return [self._kept(one.item)]
        return super().bring(one)

    def keep(self, save: Save) -> None:
        """Notes what is to be kept, until it is known which numbers entries of rows have."""
        self._saves.append(save)

    def saved(self, arrays: Arrays, at: tf.Tensor) -> Arrays:
        """Keeps all that; returns the arrays with what the block keeps for itself.

        Args:
            arrays: by value, what blocks keep.
            at: int32 scalar, the number of the block.
        """
        found = dict(arrays)
        for one in self._saves:
            if isinstance(one.item, Value):
                tensor = self.get(one.item)
                if one.by_frame:
                    numbers = self.numbers(one.item.region)
                    self.buffers.write(("value", one.item), numbers, tensor)
                else:
                    found[one.item] = found[one.item].write(at, tensor)
        return found

    def numbers(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, int32, the number of its frame, or of its entry."""
        if region is not None and region not in self._numbers:
            rows = self.get(region)
            if isinstance(region, Branch):
                found = tf.gather(self.numbers(region.parent), rows)
            else:
                first = self.read(("entries", region), self.numbers(region.parent))
                starts = tf.cumsum(self.get(region.selector), exclusive=True)
                found = tf.gather(first - starts, rows) + tf.range(tf.size(rows))
            self._numbers[region] = found
        return self._numbers[region]

    def places(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, int32, the place of its frame in the block."""
        if region not in self._places:
            if region is None:
                found = tf.range(self.count)
            else:
                found = tf.gather(self.places(region.parent), self.get(region))
            self._places[region] = found
        return self._places[region]

    def rows_of_results(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, int32, the row of what its frame returns."""
        if not self.layout.has_tail_calls(self.body):
            return self.numbers(region)
        frames = self.read(("frame", self.body), self.numbers(region))
        return frames[:, TAIL_FRAME.index("result")]

    def _passed(self, node: Node) -> tf.Tensor:
        """What is passed to the frames for a parameter of a later sweep."""
        sweep, key = self.layout.inputs[node]
        return self.read(key, self.rows_of_results(None) if sweep % 2 else self.numbers(None))

    def called(self, sites: Sequence[CallSite], to_results: bool = False) -> tf.Tensor:
        """The frames that call sites called, int32, all of a token side by side.

        Args:
            sites: that call for the same tokens.
            to_results: for the rows of what they return instead.
        """
        link = self.layout.link(sites, to_results)
        found = self.read(link, self.numbers(sites[0].calls[0].region))
        if len(sites) > 1:
            found = tf.reshape(found[:, tf.newaxis] + tf.range(len(sites)), [-1])
        return found

    def read(self, key: Key, rows: tf.Tensor) -> tf.Tensor:
        """Rows of a buffer."""
        if key in self.done:
            found = tf.gather(self.done[key], rows)
            return found if found.shape[1:].is_fully_defined() else without_rows(found)
        return self.buffers.read(key, rows)


def joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """The rows of all tensors."""
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, 0)
