"""A block of frames whose values are in live rows of tensors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.arrays import one_tensor, without_rows
from kerasrec._src.emit.results import Tensors
from kerasrec._src.errors import GraphError
from kerasrec._src.frames.block import Block
from kerasrec._src.frames.layout import Column
from kerasrec._src.frames.rows_tf.buffers import Buffers, LiveStore, empty
from kerasrec._src.graph.carried import key_of_row, row_of_key
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.nodes import New
from kerasrec._src.graph.values import Branch, Each, Region, Value
from kerasrec._src.schedule.instructions import Fetch, InTable, Return, Save, Select, Send

Arrays = dict[Value, tf.TensorArray]


@dataclass(eq=False)
class LiveBlock(Block):
    """The registers of a segment on some frames of its body.

    Args:
        graph: The program.
        body: The body's name.
        shared: The tensors of SHARED values.
        layout: The layout of the program.
        store: The store of the run.
        frames: The numbers of the frames, int32 `[tokens]`.
        buffers: The buffers that the loop fills; an object without buffers if no loop runs.
        arrays: The arrays that blocks keep for themselves, by value.
        at: The number of the block, an int32 scalar; None if no loop runs.
    """

    store: LiveStore
    frames: tf.Tensor
    buffers: Buffers
    arrays: Arrays
    at: tf.Tensor | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._numbers: dict[Region | None, tf.Tensor] = {None: self.frames}
        self._places: dict[Region | None, tf.Tensor] = {}
        self._columns: dict[Region | None, dict[Column, tf.Tensor]] = {}

    @property
    def count(self) -> tf.Tensor:
        """The number of frames, an int32 scalar."""
        return tf.size(self.frames)

    def _run_fetch(self, fetch: Fetch) -> None:
        key = self.layout.output(fetch.sites[0].callee, fetch.sweep, fetch.number)
        self._set(fetch, [self.read(key, self.called(fetch.sites, not fetch.sweep % 2))])

    def load(self, value: Value, by_frame: bool) -> tf.Tensor:
        """Reads a value that another segment keeps, in the rows of frames or for the same block."""
        if by_frame:
            return self.read_own(("value", value), value.region)
        return self.arrays[value].read(self.at)

    def _run_save(self, save: Save) -> None:
        """Keeps a value."""
        value = save.item
        if isinstance(value, Value) and save.by_frame:
            self.write_own(("value", value), self.get(value), value.region)
        elif isinstance(value, Value):
            self.arrays[value] = self.arrays[value].write(self.at, self.get(value))

    def numbers(self, region: Region | None = None) -> tf.Tensor:
        """For each token of a region, the number of its frame, or of its entry, int32."""
        if region is not None and region not in self._numbers:
            rows = self.get(region)
            if isinstance(region, Branch):
                found = tf.gather(self.numbers(region.parent), rows)
            else:
                first = self.read_own(("entries", region), region.parent)
                starts = tf.cumsum(self.get(region.selector), exclusive=True)
                found = tf.gather(first - starts, rows) + tf.range(tf.size(rows))
            self._numbers[region] = found
        return self._numbers[region]

    def _run_intable(self, row: InTable) -> None:
        """Makes, writes or reads rows of tables; later sweeps add cotangents up in them."""
        if isinstance(row.node, New):
            assert self.counts is not None
            space, width = ("rows", row.node.rows), row.node.width
            rows = self.counts[space] + width * tf.range(self.get(row.tokens))
            self.counts[space] += width * self.get(row.tokens)
            self.buffers.reserve(space, self.counts[space])
            self._set(row, [key_of_row(row.node.number, rows)])
            return
        *value, key = self.all(row.node.inputs)
        table, rows = ("table", row.node.name), row_of_key(key)
        if not value:
            self._set(row, [tf.cast(self.read(table, rows), row.node.types[0].dtype)])
        elif self.counts is None:
            self.buffers.add(table, rows, *value)
        else:
            self.buffers.write(table, rows, *value)

    def _run_select(self, select: Select) -> None:
        super()._run_select(select)
        self.number_entries(select)

    def _number(self, each: Each) -> None:
        """Numbers the entries of ragged rows."""
        assert self.counts is not None
        lengths = self.get(each.selector)
        first = self.counts[each] + tf.cumsum(lengths, exclusive=True)
        self.write_own(("entries", each), first, each.parent)
        self.counts[each] += tf.reduce_sum(lengths)
        self.buffers.reserve(each, self.counts[each])

    def places(self, region: Region | None) -> tf.Tensor:
        """For each token of a region, the place of its frame in the block, int32."""
        if region not in self._places:
            if region is None:
                found = tf.range(self.count)
            else:
                found = tf.gather(self.places(region.parent), self.get(region))
            self._places[region] = found
        return self._places[region]

    def spread(self, tensor: tf.Tensor, region: Region | None) -> tf.Tensor:
        """Spreads the values of frames, `[frames, ...]`, to the tokens of a region."""
        return tf.gather(tensor, self.places(region)) if region else tensor

    def num_called(self, region: Region | None) -> tf.Tensor:
        """For each frame, the number of its tokens in a region, int32 `[frames]`."""
        places = self.places(region)
        return tf.math.unsorted_segment_sum(tf.ones_like(places), places, self.count)

    def columns(self, region: Region | None = None) -> dict[Column, tf.Tensor]:
        """The integers kept for each frame, for the tokens of a region that is not of entries."""
        if region not in self._columns:
            self._columns[region] = self.columns_of(self.numbers(region))
        return self._columns[region]

    def columns_of(self, frames: tf.Tensor) -> dict[Column, tf.Tensor]:
        """The integers kept for some frames of the body: `frames` int32 `[n]`."""
        found = tf.unstack(self.read(("frame", self.body), frames), axis=1)
        return dict(zip(self.layout.columns(self.body), found, strict=True))

    def called(self, sites: Sequence[CallSite], to_results: bool) -> tf.Tensor:
        """The frames that call sites have called, or rows; those of a token are neighbors."""
        found = self.read_own(self.layout.link(sites, to_results), sites[0].region)
        return tf.reshape(found, [-1]) if self.graph.memo else each_call(found, len(sites))

    def arguments(self, sends: Sequence[Send]) -> Tensors:
        """The values that are passed to the same parameters, of all instructions."""
        columns = zip(*(self.sent[send] for send in sends), strict=True)
        return [one_tensor(tensors) for tensors in columns]

    def pass_on(self, sweep: int) -> None:
        """Passes values to the frames that were called, or gradients to those that returned.

        With `memo`, a frame that returned may have several callers, whose gradients are added up.
        """
        pass_on = self.buffers.add if self.graph.memo else self.buffers.write
        for callee, sends in self.calls().items():
            rows = one_tensor([self.called(send.sites, bool(sweep % 2)) for send in sends])
            for number, tensor in enumerate(self.arguments(sends)):
                pass_on(self.layout.input(callee, sweep, number), rows, tensor)

    def give_back(self, returns: Sequence[Return], sweep: int) -> None:
        """Keeps the results of the frames in a sweep, from one or several branches."""
        for returned in returns:
            region = returned.region
            rows = self.numbers(region) if sweep % 2 else self.rows_of_results(region)
            for number, value in enumerate(returned.values):
                key = self.layout.output(self.body, sweep, number)
                self.buffers.write(key, rows, self.get(value))

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows of a buffer."""
        if key in self.store.done:
            found = tf.gather(self.store.done[key], rows)
            return found if found.shape[1:].is_fully_defined() else without_rows(found)
        return self.buffers.read(key, rows)

    def read_own(self, key: Hashable, region: Region | None = None) -> tf.Tensor:
        """Reads the rows of the frames, or of the entries that are a region's tokens."""
        return self.read(key, self.numbers(region))

    def write_own(self, key: Hashable, values: tf.Tensor, region: Region | None = None) -> None:
        """Replaces the rows of the tokens of a region."""
        self.buffers.write(key, self.numbers(region), values)


def each_call(first: tf.Tensor, width: int) -> tf.Tensor:
    """The numbers of `width` calls for each token, given the first ones: int32 `[calls]`."""
    if width == 1:
        return first
    return tf.reshape(first[:, tf.newaxis] + tf.range(width), [-1])


class AllFrames(LiveBlock):
    """The registers for all frames of a body, after the loop.

    Args:
        store: The store of the run; it takes the values that are kept.
        body: The body's name.
        shared: The tensors of SHARED values.
    """

    def __init__(self, store: LiveStore, body: str, shared: dict[Value, tf.Tensor]):
        layout, frames = store.layout, tf.range(store.counts[body])
        given = store, frames, Buffers({}, {}), store.arrays, None
        super().__init__(layout.graph, body, shared, layout, *given)

    def _run_save(self, save: Save) -> None:
        """Keeps a value in the rows of its frames or entries."""
        value, key = save.item, ("value", save.item)
        if not isinstance(value, Value):
            raise GraphError(f"{self.body} keeps {value} by frame.")
        spec = self.layout.buffer_spec(value, self.body)
        buffers = Buffers({key: spec}, {key: empty(spec, self.store.counts[spec.space])})
        buffers.write(key, self.numbers(value.region), self.get(value))
        self.store.done[key] = buffers.tensors[key]
