"""The values that a compiled run keeps with `memo`, when all calls are known.

A block consists of calls in consecutive rows. If several root tokens make the same calls, a row has
a token for each of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.errors import GraphError
from kerasrec._src.frames.layout import BufferSpec, Layout, Specs
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.memo_order import Order
from kerasrec._src.frames.rows_xla.rows import Buffers, JoinedBuffers, MaskedRows, beside, put
from kerasrec._src.frames.rows_xla.sizes import Sizes
from kerasrec._src.frames.rows_xla.store import MaskedStore
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.values import Node
from kerasrec._src.memo.copies import by_copy, in_line
from kerasrec._src.private import rows_from
from kerasrec._src.schedule.instructions import Wait
from kerasrec._src.schedule.linkage import groups_of
from kerasrec._src.schedule.schedule import Schedule
from kerasrec._src.schedule.sections import Component, Place, Segment

_ROOTS = ("roots",)
_COPIES = ("copies",)


def called_key(sites: Sequence[CallSite]) -> Hashable:
    """Returns the key under which the calls that call sites make are kept."""
    return ("called", sites[0].label)


class RowsOfCalls(MaskedRows):
    """Buffers `[rows, copies, ...]`, from which `[n * copies, ...]` is read and written.

    Rows are moved as a whole, so XLA moves one piece for each call, not one for each token. A
    buffer keeps its shape inside a loop, since XLA would copy all of it to reshape it.
    """

    @property
    def copies(self) -> tf.Tensor:
        """The number of tokens in a row."""
        assert self.sizes.copies is not None
        return self.sizes.copies

    def pass_on(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Adds live values to rows, int32 `[n]`, since a call may have several callers."""
        values = tf.where(beside(live, values), values, tf.zeros_like(values))
        is_live = tf.reduce_any(self._rows_of(live), 1)
        self.add(key, tf.expand_dims(rows, 1), self._rows_of(values), is_live)

    def add(self, key: Hashable, places: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Adds live values to rows, int32 `[n, 1]`, or to tokens, int32 `[n, 2]` (row, copy)."""
        buffer = self.all(key)
        values = tf.cast(values, buffer.dtype)
        self.written[key] = put(buffer, places, values, live, tf.tensor_scatter_nd_add)

    def _tokens_of(self, rows: tf.Tensor) -> tf.Tensor:
        return in_line(rows)

    def _rows_of(self, tokens: tf.Tensor) -> tf.Tensor:
        return by_copy(tokens, tf.shape(tokens)[0] // self.copies, self.copies)


class MemoBlock(MaskedBlock):
    """The registers of a segment on a block; arguments as for `Block`."""

    rows: RowsOfCalls

    def called(self, sites: Sequence[CallSite], to_results: bool) -> Tensors:
        """For each call site, the numbers of the calls that it makes, int32 `[calls]`."""
        return tf.unstack(self.of_calls(called_key(sites)), len(sites), axis=1)

    def of_calls(self, key: Hashable) -> tf.Tensor:
        """Reads the block's rows of a buffer with one row for each call, `[calls, ...]`."""
        return rows_from(self.rows.all(key), self.start, self.rows.sizes.width)

    def arguments(self) -> Tensors:
        """The arguments of the calls, `[width, ...]` each."""
        copies, found = self.rows.copies, []
        for number, node in enumerate(self.graph.bodies[self.body].parameters):
            tensor = self.of_calls(("argument", self.body, number))
            if node.is_root:
                found.append(tf.reshape(tf.expand_dims(tensor, 1) + tf.range(copies), [-1]))
            else:
                times = tf.stack([1, copies, *([1] * (tensor.shape.rank - 1))])
                found.append(in_line(tf.tile(tf.expand_dims(tensor, 1), times)))
        return found

    def _passed(self, node: Node) -> tf.Tensor:
        """The value that a later sweep passes to the calls for a parameter, in its dtype."""
        return tf.cast(self.read_own(self.layout.inputs[node][1]), node.types[0].dtype)

    def wait(self, waits: Sequence[Wait]) -> None:
        """Records which calls wait for others."""
        masks = [self.mask(wait.region) for wait in waits]
        self.write_own(("waits", self.body), tf.reduce_any(masks, 0))


class MemoLayout(MaskedLayout):
    """The values that are kept for a program; arguments as for `MaskedLayout`.

    Calls are not written one by one, so arguments are kept like other values. No buffers are
    joined: some are added to, and others are replaced.

    Attributes:
        waiting: The bodies of which some calls wait for others, and go on at place 1.

    Raises:
        GraphError: If a body has other places than those before and after calls.
    """

    def __init__(self, schedule: Schedule):
        super().__init__(schedule)
        others = [key for key in self.order if key[1] > 1]
        if others:
            raise GraphError(f"With memo a body has places 0 and 1, and there are {others}.")
        self.arguments = {}
        self.waiting = [name for name in self.graph.bodies if (name, 1) in self.order]
        # Two groups of places: those that run in any order, and those that run by level.
        entrances = tuple((name, 0) for name in self.graph.bodies)
        self.components = (entrances, tuple((name, 1) for name in self.waiting))

    @cached_property
    def joined(self) -> JoinedBuffers:
        """No buffers."""
        return JoinedBuffers({})

    @cached_property
    def shares(self) -> dict[Place, int]:
        """One for each place, since blocks of place 1 stand among all other calls."""
        return dict.fromkeys(self.order, 1)

    def has_wide_blocks(self, component: Component) -> bool:
        """Whether blocks may be wide: not if levels wait for each other."""
        return not component[0][1]

    def buffer_specs(self, sweep: int) -> Specs:
        """Returns the specs of the buffers that a sweep fills."""
        specs = Layout.buffer_specs(self, sweep).items()
        found: Specs = {key: spec for key, spec in specs if key[0] in ("input", "output", "value")}
        for value in self.kept_by_block(sweep):
            found["value", value] = self.block_spec(value)
        if not sweep:
            found |= {("waits", name): BufferSpec(name, tf.bool, ()) for name in self.waiting}
        return found


@dataclass
class MemoStore(MaskedStore):
    """The values that one run of a program keeps; `done` has the tensors of the `Order`."""

    layout: MemoLayout

    def rows(self, sizes: Sizes, written: Buffers) -> RowsOfCalls:
        """The buffers, of which some may be written."""
        return RowsOfCalls(sizes, written, self.done, self.layout.joined)

    def block(
        self,
        segment: Segment,
        start: tf.Tensor,
        count: tf.Tensor,
        written: Buffers,
        sizes: Sizes,
    ) -> MemoBlock:
        """Makes a block of rows of a body; arguments as for `MaskedStore`."""
        rows = self.rows(sizes, written)
        is_call, is_copy = tf.range(sizes.width) < count, tf.range(rows.copies) < self.done[_COPIES]
        live = tf.reshape(tf.expand_dims(is_call, 1) & is_copy, [-1])
        if segment.place:
            live &= rows.read_block(("waits", segment.body), start)
        given = self.layout.graph, segment.body, self.shared, self.layout, self.sizes_of_tables
        frames = start + tf.range(sizes.width), live, start, segment.settled, True
        block = MemoBlock(*given, rows, *frames)
        if not segment.place:
            block.given = block.arguments()
        return block

    def take(self, order: Order) -> None:
        """Takes all calls of the run, which are known."""
        bodies = list(self.layout.graph.bodies)
        for name, tensors in zip(bodies, order.arguments, strict=True):
            self.done.update(
                (("argument", name, number), tensor) for number, tensor in enumerate(tensors)
            )
        for group, called in zip(groups_of(self.layout.graph), order.called, strict=True):
            self.done[called_key(group)] = called
        self.done |= {("trace", 0): order.entrance, ("trace", 1): order.levels}
        self.done |= {_ROOTS: order.roots, _COPIES: order.num_copies}
        self.steps = order.num_blocks
        self.counts = dict(zip(bodies, order.counts, strict=True))
        self.tails = {key: self.counts[key[0]] for key in self.layout.order}

    def of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """The rows of root tokens."""
        return tf.gather_nd(tensor, self.done[_ROOTS])

    def give(self, rows: MaskedRows, key: Hashable, tensor: tf.Tensor) -> None:
        """Adds up values that the outside passes, since root tokens may have made equal calls."""
        assert isinstance(rows, RowsOfCalls)
        rows.add(key, self.done[_ROOTS], tensor, self.is_root)
