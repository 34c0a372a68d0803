"""What a run in queues keeps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import tensorflow as tf

from kerasrec.errors import GraphError
from kerasrec.graph.values import Value
from kerasrec.queues.block import Block
from kerasrec.queues.buffers import Buffers, Key, empty
from kerasrec.queues.layout import Layout
from kerasrec.schedule.instructions import Save


@dataclass(frozen=True)
class Trace:
    """The blocks of a run.

    Args:
        num_steps: int32 scalar, how many there are.
        places: a TensorArray of which place each ran, in the order of their turns.
        numbers: a TensorArray of the numbers of its frames.
    """

    num_steps: tf.Tensor
    places: tf.TensorArray
    numbers: tf.TensorArray


@dataclass
class FrameStore:
    """What frames and blocks keep.

    Args:
        layout: of the program.
        done: by key, buffers that are complete.
        arrays: by value, what blocks keep for themselves.
        counts: by space, int32 scalars, how many frames or entries there are.
        trace: the blocks that have run.
    """

    layout: Layout
    done: dict[Key, tf.Tensor] = field(default_factory=dict)
    arrays: dict[Value, tf.TensorArray] = field(default_factory=dict)
    counts: dict[Hashable, tf.Tensor] = field(default_factory=dict)
    trace: Trace | None = None

    def copy(self) -> FrameStore:
        """A store that begins with what this one has."""
        return replace(self, done=dict(self.done), arrays=dict(self.arrays))

    def block(
        self,
        name: str,
        numbers: tf.Tensor,
        shared: dict[Value, tf.Tensor],
        buffers: Buffers,
        kept: Callable[[Value], tf.Tensor],
    ) -> Block:
        """A block of frames; arguments as for `Block`."""
        return Block(self.layout, name, numbers, shared, buffers, self.done, kept)


class AllFrames(Block):
    """Registers for all frames of a body, when a loop is over.

    Args:
        store: of the run; takes what is kept.
        body: its name.
        shared: tensors of SHARED values.
    """

    def __init__(self, store: FrameStore, body: str, shared: dict[Value, tf.Tensor]):
        numbers = tf.range(store.counts[body])
        kept = store.arrays.__getitem__
        super().__init__(store.layout, body, numbers, shared, Buffers({}, []), store.done, kept)
        self._store = store

    def keep(self, save: Save) -> None:
        """Keeps a value in the rows of its frames or entries."""
        value, key = save.item, ("value", save.item)
        if not isinstance(value, Value):
            raise GraphError(f"{self.body} keeps {value} by frame.")
        room = self.layout.room(value, self.body)
        buffers = Buffers({key: room}, [empty(room, self._store.counts[room.space])])
        buffers.write(key, self.numbers(value.region), self.get(value))
        self._store.done[key] = buffers.all(key)
