"""A block: frames of one body that run one of its places together; some of its rows may be dead.

All branches are computed on all rows of the block; a *mask* selects the rows that are tokens of a
branch. So SWITCH costs nothing and MERGE is a choice. Sums over tokens read zeros in dead rows.
Values that are passed to several call sites in turns, or returned by them, are one tensor for each
call site.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.frames.block import Block
from kerasrec._src.frames.layout import Column
from kerasrec._src.frames.rows_xla.entries import (
    filled_like,
    is_of_entries,
    is_reduction,
    looks_up_ragged,
    num_rows_of_token,
)
from kerasrec._src.frames.rows_xla.entry_rows import EntryRows, entry_rows, look_up, num_fitting
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.ops import failing
from kerasrec._src.frames.rows_xla.rows import MaskedRows, beside, put
from kerasrec._src.graph.fire import branch_chosen, fire_in_xla
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.nodes import Collect, Leave
from kerasrec._src.graph.values import Each, Region, Value, each_of
from kerasrec._src.half_precision import in_float32
from kerasrec._src.ops.shapes import named_axes
from kerasrec._src.ops.table import Is, has
from kerasrec._src.schedule.instructions import (
    Fetch,
    Fire,
    Gather,
    Instruction,
    Interleave,
    Item,
    Measure,
    Pass,
    Return,
    RowOf,
    Save,
    Select,
    Send,
    Separate,
    Settled,
    Stitch,
)
from kerasrec._src.schedule.sections import Segment


@dataclass(eq=False)
class MaskedBlock(Block):
    """The registers of a segment on a block.

    Args:
        graph: The program.
        body: The body's name.
        shared: The tensors of SHARED values.
        layout: The layout of the program.
        sizes_of_tables: The number of rows of each SHARED value that has been padded.
        rows: The buffers.
        frames: The numbers of the frames, int32 `[width]`; that of the dead row if there is none.
        live: Which rows hold frames, bool `[width]`.
        start: The place where the block's own values begin, an int32 scalar.
        settled: The branches that all of the frames have taken.
        is_range: Whether the numbers are consecutive, beginning with `start`.
    """

    layout: MaskedLayout
    sizes_of_tables: Mapping[Value, tf.Tensor]
    rows: MaskedRows
    frames: tf.Tensor
    live: tf.Tensor
    start: tf.Tensor
    settled: Sequence[Region]
    is_range: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        self.in_turns: dict[Value, Tensors] = {}
        # Where ops have failed: among tokens, and among entries of ragged rows.
        self._failed: dict[bool, tf.Tensor] = {}
        self._entries: dict[Each, EntryRows] = {}
        self._first_entries: dict[Each, tf.Tensor] = {}
        # For values that are rows of entries and belong to no token.
        self._of_entries: dict[Value, EntryRows] = {}
        self._columns: dict[Column, tf.Tensor] = {}

    @property
    def count(self) -> tf.Tensor:
        """The number of rows of the block, an int32 scalar."""
        return self.rows.sizes.tokens_of_block

    @property
    def has_fault(self) -> tf.Tensor:
        """Whether an op has failed, a bool scalar."""
        return _any_of([tf.constant(False), *map(tf.reduce_any, self._failed.values())])

    def failed(self, size: tf.Tensor) -> tf.Tensor:
        """Which rows have failed, bool `[size]`; all rows if entries of ragged rows have."""
        found = tf.zeros([size], tf.bool)
        for of_entries, where in self._failed.items():
            if of_entries:
                found |= tf.reduce_any(where)
            else:
                found |= tf.pad(where, [[0, size - tf.shape(where)[0]]])
        return found

    def fail(self, where: tf.Tensor, region: Region | None, value: Value | None = None) -> None:
        """Notes where something fails.

        Args:
            where: For each token of the region, whether it fails, bool; of others, anything.
            region: The region.
            value: A value that has a row for each of those tokens; it may be rows of entries.
        """
        is_of_entries = value in self._of_entries or each_of(region) is not None
        found = where & self.mask_of(value, region)
        known = self._failed.get(is_of_entries)
        self._failed[is_of_entries] = found if known is None else known | found

    def mask(self, region: Region | None) -> tf.Tensor:
        """The rows that are tokens of a region, bool `[width]`; `[entries]` within ragged rows."""
        if region is None or region in self.settled:
            return self.live
        if isinstance(region, Each):
            rows = self._entries[region]
            return rows.live & rows.spread(self.mask(region.parent))
        return self.get(region)

    def mask_of(self, value: Value | None, region: Region | None) -> tf.Tensor:
        """The live rows of a value: entries, if it has a row for each, or tokens of a region."""
        if value not in self._of_entries:
            return self.mask(region)
        rows = self._of_entries[value]
        return rows.live & rows.spread(self.mask(region))

    def width_of(self, region: Region | None) -> tf.Tensor:
        """The number of rows of a region's values, an int32 scalar."""
        sizes = self.rows.sizes
        if each_of(region) is None:
            return sizes.tokens_of_block
        assert sizes.entries is not None
        return sizes.entries

    def spread(self, tensor: tf.Tensor, region: Region | None) -> tf.Tensor:
        """Spreads the values of frames, `[width, ...]`, to the tokens of a region."""
        each = each_of(region)
        return tensor if each is None else self._entries[each].spread(tensor)

    def num_called(self, region: Region | None) -> tf.Tensor:
        """For each frame, the number of its tokens in a region, int32 `[width]`."""
        each = each_of(region)
        found = tf.cast(self.mask(region), tf.int32)
        if each is None:
            return found
        places = tf.range(self.width_of(None))
        is_own = tf.equal(tf.expand_dims(places, 1), tf.expand_dims(self._entries[each].ids, 0))
        return tf.reduce_sum(tf.where(is_own, found, 0), 1)

    def called(self, sites: Sequence[CallSite], to_results: bool) -> Tensors:
        """For each call site, the frames that it has called, or rows of results, int32 `[width]`.

        Args:
            sites: Call sites that call for the same tokens.
            to_results: Whether to return the rows of the frames' results instead.
        """
        first = self.read_own(self.layout.link(sites, to_results), sites[0].region)
        return [first + place for place in range(len(sites))]

    def columns(self, region: Region | None = None) -> dict[Column, tf.Tensor]:
        """The integers kept for each frame, int32 `[width]` each.

        They are read once: those of a frame that has been made do not change.
        """
        if self._columns:
            return self._columns
        key = ("frame", self.body)
        # XLA gathers rows once, but cuts a block out for each reader. If one of them might come
        # after the frames of new calls are written, XLA copies the table in each turn.
        found = self.read(key, self.frames) if key in self.rows.written else self.read_own(key)
        columns = tf.unstack(found, axis=1)
        self._columns = dict(zip(self.layout.columns(self.body), columns, strict=True))
        return self._columns

    def read_arguments(self) -> Tensors:
        """Reads the arguments of the frames, again if the frames of new calls have been written.

        Arguments that are not passed on must not be computed from those read before: XLA would copy
        the buffer.
        """
        parameters = self.graph.bodies[self.body].parameters
        found = [self._argument(number) for number, _ in enumerate(parameters)]
        values = [Value(node, 0) for node in parameters]
        self._tensors.update(zip(values, found, strict=True))
        return found

    def _argument(self, number: int) -> tf.Tensor:
        """Reads an argument of the frames, by the number of the parameter."""
        known = self.columns()
        return known[number] if number in known else self.read_own(("input", self.body, 0, number))

    def read_own(self, key: Hashable, region: Region | None = None) -> tf.Tensor:
        """Reads the rows of the frames, or of the entries that are a region's tokens."""
        each = each_of(region)
        if each in self._first_entries:
            return self.rows.read_block(key, self._first_entries[each], self.width_of(each))
        if each is not None:
            return self.read(key, self.numbers(each))
        if self.is_range:
            return self.rows.read_block(key, self.start)
        return self.read(key, self.frames)

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows of a buffer."""
        return self.rows.read(key, rows)

    def write_own(self, key: Hashable, values: tf.Tensor, region: Region | None = None) -> None:
        """Replaces the rows of the tokens of a region."""
        self.write_where(key, values, self.mask(region), region)

    def write_where(
        self, key: Hashable, values: tf.Tensor, mask: tf.Tensor, region: Region | None = None
    ) -> None:
        """Replaces the rows of the frames, or entries, for which a mask is true."""
        each = each_of(region)
        if each in self._first_entries:
            first, number = self._first_entries[each], self.width_of(each)
            self.rows.write_block(key, first, values, mask, number)
        elif each is not None:
            self.rows.write(key, self.numbers(each), values, mask)
        elif self.is_range:
            self.rows.write_block(key, self.start, values, mask)
        else:
            self.rows.write(key, self.frames, values, mask)

    def numbers(self, region: Region | None = None) -> tf.Tensor:
        """The numbers of frames or entries, int32; that of the dead row if there is none."""
        each = each_of(region)
        if each is None:
            return self.frames
        rows = self._entries[each]
        first = rows.spread(self.read_own(("entries", each)))
        return tf.where(rows.live, first + rows.offsets, self.rows.sizes.dead)

    def _number(self, each: Each) -> None:
        """Numbers the entries of ragged rows."""
        assert self.counts is not None
        rows, first = self._entries[each], self.counts[each]
        self._first_entries[each] = first
        self.write_where(("entries", each), first + rows.starts, self.live)
        self.counts[each] = first + rows.total

    def passed(self, send: Send) -> list[Tensors]:
        """For each value that call sites pass, a tensor `[width, ...]` for each call site."""
        if len(send.sites) == 1:
            return [[self.get(value)] for value in send.values]
        return [self.in_turns[value] for value in send.values]

    def load(self, value: Value, by_frame: bool) -> tf.Tensor:
        """Reads a value that another segment keeps, or that was an argument of the frames."""
        if value in self.layout.arguments:
            return self._argument(self.layout.arguments[value])
        if by_frame:
            return self.read_own(("value", value), value.region)
        return self.rows.read_block(("value", value), self.start)

    def _run_save(self, save: Save) -> None:
        """Keeps a value."""
        if not isinstance(save.item, Value) or save.item in self.layout.arguments:
            return
        key, tensor = ("value", save.item), self.get(save.item)
        if save.by_frame:
            self.write_own(key, tensor, save.item.region)
        else:
            self.rows.write_block(key, self.start, tensor, self.live)

    def pass_on(self, sweep: int) -> None:
        """Passes values to the frames that were called, or gradients to those that returned."""
        for send in self.sent:
            called = self.called(send.sites, bool(sweep % 2))
            rows = tf.concat(called, 0)
            live = tf.tile(self.mask(send.region), [len(called)])
            for number, tensors in enumerate(self.passed(send)):
                key = self.layout.input(send.sites[0].callee, sweep, number)
                self.rows.pass_on(key, rows, tf.concat(tensors, 0), live)

    def give_back(self, returns: Sequence[Return], sweep: int) -> None:
        """Keeps the results of the frames in a sweep, from one or several branches."""
        branches = [branch for branch in returns if branch not in self.layout.shared_results]
        masks = [self.mask(branch.region) for branch in branches]
        for number, values in enumerate(zip(*(branch.values for branch in branches), strict=True)):
            *others, found = map(self.get, values)
            for own, tensor in zip(masks, others, strict=False):
                found = tf.where(beside(own, tensor), tensor, found)
            key, mask = self.layout.output(self.body, sweep, number), _any_of(masks)
            if sweep % 2 or not self.layout.has_tail_calls(self.body):
                self.write_where(key, found, mask)
            else:
                self.rows.write(key, self.rows_of_results(), found, mask)

    def returning(self, returns: Sequence[Return]) -> tf.Tensor:
        """Which frames return, bool `[width]`."""
        return _any_of([self.mask(branch.region) for branch in returns])

    def fill(self) -> None:
        """Adds the values of COLLECT nodes to rows of their tables; dead rows add to none."""
        for node in (reduce.node for reduce in self.reduced):
            if not isinstance(node, Collect):
                continue
            value, index = self.all(node.inputs)
            size = tf.cast(self.get(node.size), index.dtype)  # type: ignore[arg-type]
            mask, is_inside = self.mask(node.region), (index >= 0) & (index < size)
            self.fail(~is_inside, node.region)
            places = tf.expand_dims(tf.cast(index, tf.int32), 1)
            live, add = mask & is_inside, tf.tensor_scatter_nd_add
            key, written = ("table", node.name), self.rows.written
            written[key] = put(written[key], places, in_float32(value), live, add)

    def num_with_room(self, segment: Segment, from_end: bool = False) -> tf.Tensor | None:
        """Returns how many frames have room for their entries, int32; None without ragged rows.

        The segment itself may compute the lengths of rows, so the part of it that does runs here.
        The whole segment computes the same again, but XLA merges both. The block must not be used
        afterwards.

        Args:
            segment: The segment to run.
            from_end: Whether the last frames of the block run, and not the first.
        """
        regions = [select.regions[0] for select in segment.of(Select)]
        each = [region for region in regions if isinstance(region, Each)]
        if not each:
            return None
        needed: set[Instruction] = set()
        wanted: set[Item] = {region.selector for region in each}
        for instruction in reversed(segment.instructions):
            if not wanted.isdisjoint(instruction.writes):
                needed.add(instruction)
                wanted.update(instruction.reads)
        self.run(instruction for instruction in segment.instructions if instruction in needed)
        found = [
            num_fitting(self.get(region.selector), self.live, self.width_of(region), from_end)
            for region in each
        ]
        return tf.reduce_min(tf.stack(found))

    def _run_measure(self, measure: Measure) -> None:
        """To ops, every region seems to have as many tokens as the block has rows."""
        self._set(measure, [self.width_of(measure.tokens.region)])

    def _run_select(self, select: Select) -> None:
        (each, *_) = select.regions
        if isinstance(each, Each):
            self._select_entries(select, each)
            return
        count, around = len(select.regions), self.mask(each.parent)
        chosen = branch_chosen(self.get(each.selector), count)
        self._set(select, [around & tf.equal(chosen, place) for place in range(count)])

    def _run_settled(self, settled: Settled) -> None:
        every = self.mask(settled.taken.parent)
        none = tf.zeros_like(every)
        masks = [every if region == settled.taken else none for region in settled.regions]
        self._set(settled, masks)

    def _run_fetch(self, fetch: Fetch) -> None:
        key = self.layout.output(fetch.sites[0].callee, fetch.sweep, fetch.number)
        called = self.called(fetch.sites, to_results=not fetch.sweep % 2)
        found = [self.rows.read(key, numbers) for numbers in called]
        if len(found) == 1:
            self._set(fetch, found)
        else:
            self.in_turns[fetch.value] = found

    def _run_interleave(self, interleave: Interleave) -> None:
        self.in_turns[interleave.output] = self.all(interleave.inputs)

    def _run_separate(self, separate: Separate) -> None:
        pairs = zip(separate.outputs, self.in_turns[separate.value], strict=True)
        self._set(separate, [tensor for value, tensor in pairs if value])

    def _run_send(self, send: Send) -> None:
        """Only notes the instruction: steps read the values by `passed`."""
        self.sent[send] = []

    def _run_gather(self, gather: Gather) -> None:
        value, region = gather.inputs
        tensor = self.get(value)
        self._set(gather, [self.spread(tensor, region) if isinstance(region, Each) else tensor])

    def _run_rowof(self, rows: RowOf) -> None:
        (each,) = rows.inputs
        assert isinstance(each, Each)
        self._set(rows, [tf.cast(self.get(each), rows.output.type.dtype)])
        self._of_entries[rows.output] = self._entries[each]

    def _run_pass(self, passed: Pass) -> None:
        value, *lengths = self.all(passed.inputs)
        region = passed.output.region
        for other in lengths[1:]:
            self.fail(tf.not_equal(lengths[0], other), region.parent if region else None)
        self._set(passed, [value])
        each = each_of(passed.output.node.inputs[0].region)
        if isinstance(passed.output.node, Leave) and each:
            self._of_entries[passed.output] = self._entries[each]

    def _run_stitch(self, stitch: Stitch) -> None:
        count = len(stitch.inputs) // 2
        *others, found = self.all(stitch.inputs[:count])
        for tensor, mask in zip(others, self.all(stitch.inputs[count:]), strict=False):
            found = tf.where(beside(mask, tensor), tensor, found)
        self._set(stitch, [found])

    def _run_fire(self, fire: Fire) -> None:
        inputs = self.all(fire.inputs)
        is_sum = has(fire.node.op, Is.SUMMING)
        axes = named_axes(fire.node.operation.inputs[1]) if is_sum else None  # type: ignore[attr-defined]
        if axes is not None:  # A gradient that broadcasts computes them; XLA must know them.
            inputs[1] = tf.constant(axes, inputs[1].dtype)
        if is_reduction(fire.node):
            summed = fire.inputs[:1] if is_sum else fire.inputs
            for place, value in enumerate(summed):
                if not value.is_shared:
                    inputs[place] = self._without_dead(inputs[place], value)
        fails = failing(fire, inputs, self.sizes_of_tables)
        if fails is not None:
            of_rows = [value for value in fire.inputs if value in self._of_entries]
            self.fail(fails, fire.node.region, of_rows[0] if of_rows else None)
        if looks_up_ragged(fire.node):
            assert self.rows.sizes.entries is not None and fails is not None
            # Frames of other branches may look up a row in the table's padding, which is none.
            live, size = self.live & ~fails, self.rows.sizes.entries
            splits, values, index = inputs
            *tensors, rows = look_up(splits, values, index, live, size)
            self._of_entries[fire.outputs[1]] = rows
        else:
            tensors = self._fire(fire, inputs)
        for tensor, value in zip(tensors, fire.outputs, strict=True):
            tensor.set_shape(value.type.tensor_shape())
        self._set(fire, tensors)

    def _fire(self, fire: Fire, inputs: Tensors) -> Tensors:
        """The outputs of an op; records which of them are rows of entries."""
        if has(fire.node.op, Is.GATHERING) and not fire.inputs[0].is_shared:
            inputs[1] = tf.maximum(inputs[1], 0)  # Dead rows of entries have no frame: -1.
        for value in (*fire.inputs, filled_like(fire.node)):
            if value in self._of_entries:
                waves = filter(is_of_entries, fire.outputs)
                self._of_entries.update(dict.fromkeys(waves, self._of_entries[value]))
        return fire_in_xla(fire.node, inputs, may_merge=True)

    def _select_entries(self, select: Select, each: Each) -> None:
        rows = entry_rows(self.get(each.selector), self.live, self.width_of(each))
        self._entries[each] = rows
        self.fail(rows.total > self.width_of(each), None)
        self._set(select, [rows.ids])
        self.number_entries(select)

    def _without_dead(self, tensor: tf.Tensor, value: Value) -> tf.Tensor:
        """The tensor of a value, with zeros in its dead rows."""
        if not tensor.shape.rank or tensor.dtype == tf.bool:
            return tensor
        mask, count = self.mask_of(value, value.region), num_rows_of_token(value)
        mask = mask if count == 1 else tf.repeat(mask, count)
        return tf.where(beside(mask, tensor), tensor, tf.zeros_like(tensor))


def _any_of(masks: Sequence[tf.Tensor]) -> tf.Tensor:
    return functools.reduce(tf.logical_or, masks)
