"""The values that a run in queues keeps."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import tensorflow as tf

from kerasrec._src.frames.layout import Layout
from kerasrec._src.graph.values import Value


@dataclass(frozen=True)
class Trace:
    """The blocks of a run.

    Args:
        num_steps: The number of blocks, an int32 scalar.
        places: A TensorArray of the place of each block, in the order of their turns.
        numbers: A TensorArray of the numbers of its frames.
    """

    num_steps: tf.Tensor
    places: tf.TensorArray
    numbers: tf.TensorArray


@dataclass
class FrameStore:
    """The values that frames and blocks keep.

    Args:
        layout: The layout of the program.
        done: The complete buffers, by key.
        arrays: The arrays that blocks keep for themselves, by value.
        counts: For each space, its number of rows, int32 scalars.
        trace: The blocks that have run.
    """

    layout: Layout
    done: dict[Hashable, tf.Tensor] = field(default_factory=dict)
    arrays: dict[Value, tf.TensorArray] = field(default_factory=dict)
    counts: dict[Hashable, tf.Tensor] = field(default_factory=dict)
    trace: Trace | None = None

    def copy(self) -> FrameStore:
        """Returns a store that begins with the content of this one."""
        return replace(self, done=dict(self.done), arrays=dict(self.arrays))
