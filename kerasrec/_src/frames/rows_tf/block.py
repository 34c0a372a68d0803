"""A block: frames of one body that run one of its places together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.arrays import one_tensor, without_rows
from kerasrec._src.emit.registers import Registers
from kerasrec._src.emit.results import Tensors
from kerasrec._src.errors import GraphError
from kerasrec._src.frames.layout import TAIL_FRAME
from kerasrec._src.frames.rows_tf.buffers import Buffers, Key, empty
from kerasrec._src.frames.rows_tf.store import FrameStore
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.values import Branch, Node, Region, Value
from kerasrec._src.schedule.instructions import (
    Fetch,
    Frames,
    Instruction,
    Load,
    Receive,
    Save,
    Send,
)

Arrays = dict[Value, tf.TensorArray]


@dataclass(eq=False)
class Block(Registers):
    """The registers of a segment on some frames of its body.

    Args:
        graph: The program.
        body: The body's name.
        shared: The tensors of SHARED values.
        store: The store of the run.
        frames: The numbers of the frames, int32 `[tokens]`.
        buffers: The buffers that the loop fills; an object without buffers if no loop runs.
        arrays: The arrays that blocks keep for themselves, by value.
        at: The number of the block, an int32 scalar; None if no loop runs.
    """

    store: FrameStore
    frames: tf.Tensor
    buffers: Buffers
    arrays: Arrays
    at: tf.Tensor | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layout = self.store.layout
        self._saves: list[Save] = []
        self._numbers: dict[Region | None, tf.Tensor] = {None: self.frames}
        self._places: dict[Region | None, tf.Tensor] = {}

    @property
    def count(self) -> tf.Tensor:
        """The number of frames, an int32 scalar."""
        return tf.size(self.frames)

    def bring(self, one: Instruction) -> Tensors:
        """Returns a value that was passed to the frames, returned to them, or kept for them."""
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
            return [self.arrays[one.item].read(self.at)]
        return super().bring(one)

    def keep(self, save: Save) -> None:
        """Records a value for `saved`, since the numbers of entries of rows are not known yet."""
        self._saves.append(save)

    def saved(self) -> Arrays:
        """Keeps all recorded values; returns the arrays, with the block's own values added."""
        found = dict(self.arrays)
        for one in self._saves:
            if isinstance(one.item, Value):
                tensor = self.get(one.item)
                if one.by_frame:
                    numbers = self.numbers(one.item.region)
                    self.buffers.write(("value", one.item), numbers, tensor)
                else:
                    found[one.item] = found[one.item].write(self.at, tensor)
        return found

    def numbers(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, the number of its frame, or of its entry, int32."""
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
        """For each token of a region, the place of its frame in the block, int32."""
        if region not in self._places:
            if region is None:
                found = tf.range(self.count)
            else:
                found = tf.gather(self.places(region.parent), self.get(region))
            self._places[region] = found
        return self._places[region]

    def calls(self) -> Iterator[tuple[str, list[Send], Tensors]]:
        """Yields each body that the block calls, its Sends, and the values of all of them."""
        found: dict[str, list[Send]] = defaultdict(list)
        for one in self.sent:
            found[one.sites[0].callee].append(one)
        for callee, sends in found.items():
            columns = zip(*(self.sent[one] for one in sends), strict=True)
            yield callee, sends, [one_tensor(tensors) for tensors in columns]

    def rows_of_results(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, the row of its frame's result, int32."""
        if not self.layout.has_tail_calls(self.body):
            return self.numbers(region)
        frames = self.read(("frame", self.body), self.numbers(region))
        return frames[:, TAIL_FRAME.index("result")]

    def _passed(self, node: Node) -> tf.Tensor:
        """The value that a later sweep passes to the frames for a parameter."""
        sweep, key = self.layout.inputs[node]
        return self.read(key, self.rows_of_results(None) if sweep % 2 else self.numbers(None))

    def called(self, sites: Sequence[CallSite], to_results: bool = False) -> tf.Tensor:
        """Returns the frames that call sites called, int32; those of a token are neighbours.

        Args:
            sites: Call sites that call for the same tokens.
            to_results: Whether to return the rows of the frames' results instead.
        """
        link = self.layout.link(sites, to_results)
        found = self.read(link, self.numbers(sites[0].region))
        if len(sites) > 1:
            found = tf.reshape(found[:, tf.newaxis] + tf.range(len(sites)), [-1])
        return found

    def read(self, key: Key, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows of a buffer."""
        if key in self.store.done:
            found = tf.gather(self.store.done[key], rows)
            return found if found.shape[1:].is_fully_defined() else without_rows(found)
        return self.buffers.read(key, rows)


class AllFrames(Block):
    """The registers for all frames of a body, after the loop.

    Args:
        store: The store of the run; it takes the values that are kept.
        body: The body's name.
        shared: The tensors of SHARED values.
    """

    def __init__(self, store: FrameStore, body: str, shared: dict[Value, tf.Tensor]):
        graph, frames = store.layout.graph, tf.range(store.counts[body])
        super().__init__(graph, body, shared, store, frames, Buffers({}, []), store.arrays, None)

    def keep(self, save: Save) -> None:
        """Keeps a value in the rows of its frames or entries."""
        value, key = save.item, ("value", save.item)
        if not isinstance(value, Value):
            raise GraphError(f"{self.body} keeps {value} by frame.")
        spec = self.layout.buffer_spec(value, self.body)
        buffers = Buffers({key: spec}, [empty(spec, self.store.counts[spec.space])])
        buffers.write(key, self.numbers(value.region), self.get(value))
        (self.store.done[key],) = buffers.tensors
