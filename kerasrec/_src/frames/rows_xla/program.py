"""A program in a compiled run: what all parts of the run know of it, and its buffers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.emit.prepared import tensor_of
from kerasrec._src.frames.layout import Layout
from kerasrec._src.frames.rows_tf.buffers import BufferSpec
from kerasrec._src.frames.rows_xla.frame_columns import Frames
from kerasrec._src.frames.rows_xla.joined_buffers import PackedRows, Packs, written_together
from kerasrec._src.frames.rows_xla.rows import Buffers, Rows, Sizes
from kerasrec._src.frames.rows_xla.shared_results import shared_results
from kerasrec._src.frames.rows_xla.walked_places import Walks
from kerasrec._src.graph.graph import present
from kerasrec._src.graph.values import Value
from kerasrec._src.half_precision import wide
from kerasrec._src.schedule.instructions import Fire, Return, Save
from kerasrec._src.schedule.passes.move_again import MOVES
from kerasrec._src.schedule.sections import Component, Place, Section
from kerasrec._src.schedule.turns import fed_by


@dataclass
class Program:
    """A program in one run.

    Args:
        layout: The layout of its frames.
        sizes: The sizes of the buffers.
        block_of: Makes a block; see `block.block_of`.
        num_roots: The number of root tokens, padded, an int32 scalar.
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
        tables: The tables with an index, by name.
    """

    layout: Layout
    sizes: Sizes
    block_of: Callable[..., Any]
    num_roots: tf.Tensor
    shared: dict[Value, tf.Tensor]
    sizes_of_tables: Mapping[Value, tf.Tensor]
    rows_of_tables: Mapping[str, tf.Tensor] = field(default_factory=dict)
    max_depth: int = 0
    done: Buffers = field(default_factory=dict)
    counts: dict[Hashable, tf.Tensor] = field(default_factory=dict)
    tails: dict[Place, tf.Tensor] = field(default_factory=dict)
    steps: list[tf.Tensor] = field(default_factory=list)
    tables: dict[str, tf.Tensor] = field(default_factory=dict)

    @functools.cached_property
    def walks(self) -> Walks:
        """The walked places."""
        return Walks(self.layout)

    @functools.cached_property
    def frames(self) -> Frames:
        """The values kept for each call."""
        return Frames(self.layout, self.walks)

    @functools.cached_property
    def arguments(self) -> dict[Value, int]:
        """The arguments of calls, by number, which need not be kept once more for other places."""
        return {
            Value(node, 0): number
            for body in self.layout.graph.bodies.values()
            for number, node in enumerate(body.parameters)
        }

    def kept_by_block(self, sweep: int) -> dict[Value, tuple[Place, ...]]:
        """The values that the blocks of a sweep keep for themselves, with their places."""
        found = self.layout.kept_by_block(sweep).items()
        return {value: places for value, places in found if value not in self.arguments}

    @functools.cached_property
    def packs(self) -> Packs:
        """The buffers that are columns of others."""
        groups = self.frames.specs_of_arguments()
        if host.has_gpu():
            groups |= written_together(self.layout, self.kept_by_block)
        return Packs(groups)

    def rows(self, sizes: Sizes, written: Buffers) -> Rows:
        """The program's buffers, of which some may be written."""
        return PackedRows(sizes, written, self.done, self.packs)

    @functools.cached_property
    def shared_results(self) -> dict[Return, dict[Hashable, Value]]:
        """The branches whose results the buffers begin with."""
        return shared_results(self.layout)

    @property
    def components(self) -> tuple[Component, ...]:
        """All places, by component, as they run; see `turns.py`."""
        return self.layout.queues[0].components

    def sizes_for(self, component: Component) -> Sizes:
        """The sizes of a component's blocks.

        They are widest if all frames are there beforehand, or if dead rows cost little.
        """
        fed = fed_by(self.layout.queues[0].segments)
        is_fed = any(not fed[key].isdisjoint(component) for key in component)
        is_light = all(self._is_light(*key) for key in component)
        return self.sizes if is_fed and not is_light else self.sizes.wide

    def _is_light(self, body: str, place: int) -> bool:
        """Whether a place, in all sweeps, only computes integers and moves numbers.

        Places with ragged rows also compare each of their entries with each frame of the block.
        """
        if self.layout.entries[body]:
            return False
        segments = (self.layout.segment(body, sweep, place) for sweep in self.layout.queues)
        ops = [one for item in segments for one in item.instructions if isinstance(one, Fire)]
        return all(
            one.node.op in MOVES or not any(value.type.dtype.is_floating for value in one.outputs)
            for one in ops
        )

    @functools.cached_property
    def shares(self) -> dict[Place, int]:
        """For each place, how many frames of some body there are for each that gets there."""
        return {key: self.layout.calls_before(*key) for key in self.layout.order}

    @functools.cached_property
    def _share_of(self) -> dict[Hashable, int]:
        """For buffers that blocks of a place write one after another, the share of the place."""
        found: dict[Hashable, int] = {}
        for sweep in self.layout.queues:
            for value, places in self.kept_by_block(sweep).items():
                key: Hashable = ("value", value)
                found[self.packs.of(key) or key] = min(self.shares[place] for place in places)
        return found

    def is_full(self, counts: Iterable[tf.Tensor], tails: Mapping[Place, tf.Tensor]) -> tf.Tensor:
        """Whether there is no room for the frames of a space, or of a place; a bool scalar."""
        frames = [count > self.sizes.capacity for count in counts]
        shares = {key: share for key, share in self.shares.items() if share > 1}
        lists = [tails[key] > self.sizes.room(share) for key, share in shares.items()]
        return tf.reduce_any(tf.stack([*frames, *lists]))

    def buffer_specs(self, sweep: int) -> dict[Hashable, BufferSpec]:
        """Returns the specs of the buffers that the queues of a sweep fill."""
        layout = self.layout
        found: dict[Hashable, BufferSpec] = {}
        arguments = {("value", value) for value in self.arguments}
        found.update(
            (k, spec) for k, spec in layout.buffer_specs(sweep).items() if k not in arguments
        )
        for value in self.kept_by_block(sweep):
            found["value", value] = layout.block_spec(value)
        if not sweep:
            self._add_specs_of_calls(found)
        return self.packs.packed(found)

    def _add_specs_of_calls(self, found: dict[Hashable, BufferSpec]) -> None:
        """Adds the specs of what is kept for each call, and of the lists of waiting calls."""
        layout = self.layout
        for name in layout.graph.bodies:
            found |= self.frames.buffer_specs(name)
            found.pop(("pending", name), None)
            waiting = [key for key in layout.order if key[0] == name and not self.walks.has(key)]
            if any(layout.counts_calls(*key) for key in waiting):
                found["pending", name] = found["owner", name] = BufferSpec(name, tf.int32, ())
            if self.places(name):
                shape = (len(self.places(name)),)
                found["lists", name] = BufferSpec(name, tf.int32, shape)

    def places(self, body: str) -> list[int]:
        """The places of a body at which frames wait in lists: all but place 0."""
        return [place for name, place in self.layout.order if name == body and place]

    def listed(self, rows: Rows, key: Place, start: tf.Tensor) -> tf.Tensor:
        """A block of frames in the list of a place, int32 `[width]`."""
        body, place = key
        return rows.read_block(("lists", body), start)[:, self.places(body).index(place)]

    def specs_of_saves(self, section: Section) -> dict[Hashable, BufferSpec]:
        """Returns the specs of the buffers that a section for all tokens fills."""
        return {
            ("value", one.item): self.layout.buffer_spec(one.item, segment.body)
            for segment in section.segments
            for one in segment.instructions
            if isinstance(one, Save) and isinstance(one.item, Value)
        }

    def empty(self, specs: Mapping[Hashable, BufferSpec]) -> Buffers:
        """Buffers of zeros, or of results that are given beforehand."""
        found = {
            key: self.sizes.empty(spec.dtype, spec.shape, self._share_of.get(key, 1))
            for key, spec in specs.items()
        }
        for values in self.shared_results.values():
            rows = {
                key: tf.expand_dims(tensor_of(value, self.shared), 0)
                for key, value in values.items()
                if (self.packs.of(key) or key) in found
            }
            for key, row in self.packs.joined(rows).items():
                found[key] = tf.broadcast_to(row, tf.shape(found[key]))
        return found

    def empty_tables(self) -> dict[str, tf.Tensor]:
        """Tables of zeros by name, of at least one row, since TensorFlow adds to no empty table.

        Rows are summed in float32 if they are half-precision.
        """
        types = self.layout.graph.table_types
        return {
            name: tf.zeros(
                [tf.maximum(rows, 1), *(types[name].shape or ())], wide(types[name].dtype)
            )
            for name, rows in self.rows_of_tables.items()
        }

    def outputs(self, sweep: int) -> list[tf.Tensor]:
        """The results of a sweep for root tokens."""
        return [self.of_roots(tensor) for tensor in self._returned(sweep)]

    def of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """The rows of root tokens, which are the first frames."""
        return tensor[: self.num_roots]

    def _returned(self, sweep: int) -> list[tf.Tensor]:
        """The results of a sweep for all frames of the entry."""
        entry = self.layout.graph.entry
        nodes = present(self.layout.graph.bodies[entry].sweeps[sweep].outputs)
        keys = [self.layout.output(entry, sweep, number) for number in range(len(nodes))]
        rows = self.rows(self.sizes, {})
        return [rows.all(key) for key in keys]
