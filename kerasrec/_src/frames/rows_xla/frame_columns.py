"""The values that are kept for each call when it is made.

The integers among them are columns of one buffer, so that a call writes them at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import tensorflow as tf

from kerasrec._src.frames.layout import Layout
from kerasrec._src.frames.rows_tf.buffers import BufferSpec
from kerasrec._src.frames.rows_xla.rows import Rows
from kerasrec._src.frames.rows_xla.walked_places import Walks
from kerasrec._src.graph.types import Type

# The frame that made a call, and the call site.
CALLS = ("caller", "label")
# The frame and call site to which a frame returns (not its caller, after a tail call), and the row
# of its results.
RETURNS = ("returns_to", "return_label", "result")

Column = str | int
"""A column of the table of frames: a name, or the number of a parameter."""


class Frames:
    """The values that are kept for the calls of each body.

    Args:
        layout: The layout of the program.
        walks: The program's walked places.
    """

    def __init__(self, layout: Layout, walks: Walks):
        self._layout = layout
        self._walks = walks

    def columns(self, body: str) -> list[Column]:
        """Returns the columns of a body's buffer of integers.

        The first is the number of calls in which a frame is nested. If a frame has to resume its
        caller, the frame that called it and the call site follow. In a body with tail calls, these
        are the frame and the call site to return to, and the row of results follows in any case. If
        frames wait for each other at a walked place of the body, the number of frames that were
        listed at the time of the call follows. The last are the parameters that are integers.
        """
        columns: list[Column] = ["depth"]
        resumes = bool(self._walks.resumed(body))
        if self._layout.has_tail_calls(body):
            columns += RETURNS if resumes else RETURNS[-1:]
        elif resumes:
            columns += CALLS
        if self._walks.own(body):
            columns.append("listed")
        columns += (at for at, kind in enumerate(self._parameters(body)) if _is_integer(kind))
        return columns

    def buffer_specs(self, body: str) -> dict[Hashable, BufferSpec]:
        """Returns the specs of a body's buffers."""
        columns = self.columns(body)
        found: dict[Hashable, BufferSpec] = {
            ("frame", body): BufferSpec(body, tf.int32, (len(columns),))
        }
        for number, kind in enumerate(self._parameters(body)):
            if number not in columns:
                found["input", body, 0, number] = BufferSpec(body, kind.dtype, kind.shape or ())
        return found

    def specs_of_arguments(self) -> dict[Hashable, dict[Hashable, BufferSpec]]:
        """Returns the specs of the buffers of arguments, by body; a call writes them together."""
        found: dict[Hashable, dict[Hashable, BufferSpec]] = {}
        for name in self._layout.graph.bodies:
            specs = self.buffer_specs(name)
            del specs["frame", name]
            found["input", name, 0] = specs
        return found

    def write(
        self,
        rows: Rows,
        body: str,
        numbers: tf.Tensor,
        known: Mapping[Column, tf.Tensor],
        live: tf.Tensor,
    ) -> None:
        """Writes the values of calls.

        Args:
            rows: The buffers.
            body: The body that is called.
            numbers: The numbers of the frames, int32 `[n]` or `[n, m]`.
            known: All columns and parameters. Columns have the shape of `numbers`, or one that
                broadcasts to it; other parameters have the axes of `numbers` and then their own.
            live: Which of the frames are called, bool, in the shape of `numbers`.
        """
        flat, is_live = tf.reshape(numbers, [-1]), tf.reshape(live, [-1])
        columns = self.columns(body)
        shape = tf.shape(numbers)
        table = tf.stack([tf.broadcast_to(known[name], shape) for name in columns], -1)
        rows.write(("frame", body), flat, tf.reshape(table, [-1, len(columns)]), is_live)
        for number, kind in enumerate(self._parameters(body)):
            if number not in columns:
                values = tf.reshape(known[number], [-1, *(kind.shape or ())])
                rows.write(("input", body, 0, number), flat, values, is_live)

    def _parameters(self, body: str) -> list[Type]:
        return [node.types[0] for node in self._layout.graph.bodies[body].parameters]


def _is_integer(kind: Type) -> bool:
    return kind.dtype == tf.int32 and kind.shape == ()
