"""The state of a compiled run: its buffers, and the facts that all its parts share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.emit.schedule_run import tensor_of
from kerasrec._src.frames.layout import BufferSpec
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.rows import Buffers, MaskedRows
from kerasrec._src.frames.rows_xla.sizes import Sizes
from kerasrec._src.graph.graph import present
from kerasrec._src.graph.values import Value
from kerasrec._src.half_precision import wide
from kerasrec._src.schedule.sections import Component, Place, Segment


@dataclass
class MaskedStore:
    """The values that one run of a program keeps.

    Args:
        layout: The layout of its frames.
        sizes: The sizes of the buffers.
        num_roots: The number of root tokens, an int32 scalar.
        shared: The tensors of SHARED values.
        sizes_of_tables: The number of rows of each SHARED value that has been padded, int32
            scalars.
        rows_of_tables: The number of rows, padded, of each table with an index, by name, int32
            scalars.
        max_depth: The largest depth of nested calls.
        done: The complete buffers, by key.
        counts: For each space, the number of frames, or of rows of results, int32 scalars.
        tails: For each place except place 0, the number of frames that have been queued there,
            int32 scalars.
        steps: For each component, the number of blocks, int32 scalars.
        is_full: Whether there was no room for all frames, a bool scalar.
        faults: Whether an op has failed or a limit was met, bool scalars.
    """

    layout: MaskedLayout
    sizes: Sizes
    num_roots: tf.Tensor
    shared: dict[Value, tf.Tensor]
    sizes_of_tables: Mapping[Value, tf.Tensor]
    rows_of_tables: Mapping[str, tf.Tensor] = field(default_factory=dict)
    max_depth: int = 0
    done: Buffers = field(default_factory=dict)
    counts: dict[Hashable, tf.Tensor] = field(default_factory=dict)
    tails: dict[Place, tf.Tensor] = field(default_factory=dict)
    steps: list[tf.Tensor] = field(default_factory=list)
    is_full: tf.Tensor | None = None
    faults: Tensors = field(default_factory=list)

    @cached_property
    def roots(self) -> tf.Tensor:
        """The frames of root tokens, which are the first ones, padded, int32 `[tokens]`."""
        return tf.range(self.sizes.roots)

    @cached_property
    def is_root(self) -> tf.Tensor:
        """Which of them are real, bool `[tokens]`."""
        return tf.range(self.sizes.roots) < self.num_roots

    def rows(self, sizes: Sizes, written: Buffers) -> MaskedRows:
        """The buffers, of which some may be written."""
        return MaskedRows(sizes, written, self.done, self.layout.joined)

    def block(
        self,
        segment: Segment,
        start: tf.Tensor,
        count: tf.Tensor,
        written: Buffers,
        sizes: Sizes,
    ) -> MaskedBlock:
        """Makes a block of the frames of a place, or of all frames of a body.

        Args:
            segment: The segment to run.
            start: The number of frames before the block, an int32 scalar.
            count: The number of frames to take, or a larger number, an int32 scalar.
            written: The buffers that the block may write.
            sizes: The sizes of the block.
        """
        rows = self.rows(sizes, written)
        numbers, live = start + tf.range(sizes.width), tf.range(sizes.width) < count
        if segment.place:
            numbers = self.listed(rows, (segment.body, segment.place), start)
        numbers = tf.where(live, numbers, sizes.dead)
        given = self.layout.graph, segment.body, self.shared, self.layout, self.sizes_of_tables
        frames = numbers, live, start, segment.settled, not segment.place
        return MaskedBlock(*given, rows, *frames)

    def sizes_for(self, component: Component) -> Sizes:
        """The sizes of a component's blocks.

        They are widest if all frames are there beforehand, or if dead rows cost little.
        """
        return self.sizes.wide if self.layout.has_wide_blocks(component) else self.sizes

    def has_no_room(
        self, counts: Iterable[tf.Tensor], tails: Mapping[Place, tf.Tensor]
    ) -> tf.Tensor:
        """Whether there is no room for the frames of a space, or of a place; a bool scalar."""
        frames = [count > self.sizes.capacity for count in counts]
        shares = {key: share for key, share in self.layout.shares.items() if share > 1}
        lists = [tails[key] > self.sizes.room(share) for key, share in shares.items()]
        return tf.reduce_any(tf.stack([*frames, *lists]))

    def listed(self, rows: MaskedRows, key: Place, start: tf.Tensor) -> tf.Tensor:
        """A block of frames in the list of a place, int32 `[width]`."""
        body, place = key
        return rows.read_block(("lists", body), start)[:, self.layout.places(body).index(place)]

    def empty(self, specs: Mapping[Hashable, BufferSpec]) -> Buffers:
        """Buffers of zeros, or of results that are given beforehand."""
        shares, joined = self.layout.share_of, self.layout.joined
        found = {
            key: self.sizes.empty(spec.dtype, spec.shape, shares.get(key, 1))
            for key, spec in specs.items()
        }
        for values in self.layout.shared_results.values():
            rows = {
                key: tf.expand_dims(tensor_of(value, self.shared), 0)
                for key, value in values.items()
                if joined.whole(key) in found
            }
            for key, row in joined.joined(rows).items():
                found[key] = tf.broadcast_to(row, tf.shape(found[key]))
        return found

    def empty_tables(self) -> Buffers:
        """Tables of zeros, of at least one row, since TensorFlow adds to no empty table.

        Rows are summed in float32 if they are half-precision.
        """
        types = self.layout.graph.table_types
        return {
            ("table", name): tf.zeros(
                [tf.maximum(rows, 1), *(types[name].shape or ())], wide(types[name].dtype)
            )
            for name, rows in self.rows_of_tables.items()
        }

    def taken_tables(self) -> Tensors:
        """Takes the tables with an index out of the buffers that are kept."""
        return [self.done.pop(("table", name)) for name in self.rows_of_tables]

    def outputs(self, sweep: int) -> list[tf.Tensor]:
        """The results of a sweep for root tokens."""
        entry = self.layout.graph.entry
        nodes = present(self.layout.graph.bodies[entry].sweeps[sweep].outputs)
        keys = [self.layout.output(entry, sweep, number) for number in range(len(nodes))]
        rows = self.rows(self.sizes, {})
        return [self.of_roots(rows.all(key)) for key in keys]

    def of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """The rows of root tokens."""
        return tensor[: self.sizes.roots]

    def give(self, rows: MaskedRows, key: Hashable, tensor: tf.Tensor) -> None:
        """Writes values that the outside passes to root tokens, `[tokens, ...]`, padded."""
        rows.write(key, self.roots, tensor, self.is_root)
