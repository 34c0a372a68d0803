"""What a machine of queues does with the blocks of a program, in any sweep."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import tensorflow as tf

from kerasrec.engine.block import Block
from kerasrec.engine.buffers import Buffers, empty
from kerasrec.engine.frame import Frame
from kerasrec.engine.layout import Key, Layout
from kerasrec.engine.places import QueuePlan
from kerasrec.engine.plan import Plan
from kerasrec.graph.nodes import Accumulate, Collect
from kerasrec.graph.values import Node, Value
from kerasrec.waves.results import State
from kerasrec.waves.sums import Sums


class Blocks:
    """Makes blocks, fires places of bodies on them, and keeps what others read.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
    """

    def __init__(self, plan: QueuePlan, shared: dict[Value, tf.Tensor]):
        self.plan = plan
        self.layout = Layout(plan)
        self.rooms = self.layout.rooms(0)
        spaces = [room.space for room in self.rooms.values()]
        entries = [each for found in self.layout.entries.values() for each in found]
        self.spaces = list(dict.fromkeys([*spaces, *entries]))
        self.done: dict[Key, tf.Tensor] = {}
        self.arrays: dict[Value, tf.TensorArray] = {}
        self.counts: dict[Hashable, tf.Tensor] = {}
        self._shared = shared
        self._prepared = _prepared_for(plan, shared)

    def copy(self, shared: dict[Value, tf.Tensor]) -> Blocks:
        """The same, with what is kept so far, and other tensors of SHARED values."""
        other = Blocks(self.plan, shared)
        other.done, other.arrays, other.counts = dict(self.done), dict(self.arrays), self.counts
        return other

    def block(
        self,
        name: str,
        numbers: tf.Tensor,
        buffers: Buffers,
        kept: Callable[[Value], tf.Tensor],
        place: int | None = None,
    ) -> Block:
        """A block of frames of a body at a place, or all frames; arguments as for `Block`."""
        return Block(
            self.layout, name, numbers, self._shared, self._prepared, buffers, self.done, kept,
            place,
        )  # fmt: skip

    def kept(self, sweep: int) -> list[Value]:
        """Values that the blocks of a sweep keep."""
        return [
            value
            for name in self.plan.graph.bodies
            for place in range(len(self.plan.groups[name]) + 1)
            for part in self.plan.part(name, sweep, place)
            for value in self.plan.blocks.get((name, part), ())
        ]

    def fire(self, block: Block, sweep: int, place: int) -> None:
        """Fires the nodes of a place."""
        block.frame.run(self.plan.computed(block.body, sweep, place))

    def save(
        self,
        block: Block,
        sweep: int,
        place: int,
        at: tf.Tensor,
        arrays: dict[Value, tf.TensorArray],
    ) -> dict[Value, tf.TensorArray]:
        """Keeps what other parts read; returns the arrays with what the block keeps."""
        parts = self.plan.part(block.body, sweep, place)
        for value in self.plan.rows[block.body]:
            if self.plan.parts[value.node] in parts:
                tensor = block.frame.get(value)
                block.buffers.write(("value", value), block.numbers(value.region), tensor)
        written = dict(arrays)
        for part in parts:
            for value in self.plan.blocks.get((block.body, part), ()):
                written[value] = arrays[value].write(at, block.frame.get(value))
        return written

    def keep(self, end: State) -> None:
        """Takes over what the first sweep has kept."""
        self.counts = dict(zip(self.spaces, end["counts"], strict=True))
        self.done = dict(zip(self.rooms, end["buffers"], strict=True))
        self.arrays = dict(zip(self.kept(0), end["kept"], strict=True))

    def fire_hoisted(self, sweep: int, sums: Sums) -> None:
        """Fires what nothing waited for in a sweep, on all frames at once."""
        part = self.plan.hoisted(sweep)
        for name in self.plan.graph.bodies:
            nodes = self.plan.nodes.get((name, part), [])
            if not nodes:
                continue
            numbers = tf.range(self.counts[name])
            block = self.block(name, numbers, Buffers({}, []), self.arrays.__getitem__)
            block.frame.run(nodes)
            for value in self.plan.rows[name]:
                if self.plan.parts[value.node] == part:
                    self.done[("value", value)] = self._row_of_each(value, block)
            for node in nodes:
                _reduce(node, block.frame, sums)

    def _row_of_each(self, value: Value, block: Block) -> tf.Tensor:
        """A value in the rows of its frames or entries."""
        room = self.layout.room(value, block.body)
        buffers = Buffers({value: room}, [empty(room, self.counts[room.space])])
        buffers.write(value, block.numbers(value.region), block.frame.get(value))
        return buffers.all(value)


def _reduce(node: Node, frame: Frame, sums: Sums) -> None:
    """Notes what a COLLECT or ACCUMULATE node gives for the tokens of a frame."""
    tensors = [frame.get(value) for value in node.inputs]
    if isinstance(node, Collect):
        sums.collect(node, tensors, frame.get(node.size) if node.size else None)
    elif isinstance(node, Accumulate):
        sums.accumulate(node, *tensors)


def _prepared_for(plan: Plan, shared: dict[Value, tf.Tensor]) -> dict[Node, Sequence[tf.Tensor]]:
    """What rewrites prepare from the SHARED values known so far, for all of their firings."""
    return {
        node: rewrite.prepare(*(shared[value] for value in rewrite.shared))
        for node, rewrite in plan.changes.rewrites.items()
        if all(value in shared for value in rewrite.shared)
    }
