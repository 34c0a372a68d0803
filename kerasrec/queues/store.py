"""What a run in queues keeps."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import tensorflow as tf

from kerasrec.graph.values import Value
from kerasrec.queues.buffers import Key
from kerasrec.queues.layout import Layout


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
