"""How many frames, and entries of ragged rows, a compiled run has room for.

The number of frames is not known before a run. If there is no room for them, it begins again with
more; inside of a program that XLA compiles as a whole, it cannot, and bounds give the room.
"""

from __future__ import annotations

import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.emit.results import State
from kerasrec._src.emit.schedule_run import tensor_of
from kerasrec._src.errors import TraceError
from kerasrec._src.frames.rows_xla.layout import MaskedLayout
from kerasrec._src.frames.rows_xla.shared import SharedInputs
from kerasrec._src.frames.rows_xla.sizes import (
    bucket,
    known_num_rows,
    sizes_for,
    sizes_for_entries,
)
from kerasrec._src.options import Options

_MOST_FRAMES = 1 << 24


class Room:
    """The room of a run.

    Args:
        layout: The layout of the program.
        inputs: The SHARED values that it reads.
        limits: The bounds on width and memory.

    Attributes:
        most_tokens: The number of tokens of each body for which there is memory.
        most_frames: The number of frames of each body for which there may be room.
    """

    def __init__(self, layout: MaskedLayout, inputs: SharedInputs, limits: Limits):
        self._graph, self._inputs, self._shared = layout.graph, inputs, inputs.shared
        bytes_kept = sum(layout.bytes_kept.values())
        self.most_tokens = limits.max_memory // max(bytes_kept, 1)
        # The number of calls made at once is not known here. If there are at most max_width in all,
        # the bound holds; if there are more, waves run the program and check it.
        self.most_frames = min(self.most_tokens, limits.max_width, _MOST_FRAMES)
        splits = {splits for splits, _ in inputs.ragged}
        self._tables = [value for value in inputs.read_by_rows if value not in splits]

    def first_capacity(self, num_roots: tf.Tensor) -> tf.Tensor:
        """The room for frames at first, int32: for one call for each row of the largest table."""
        sizes = self._inputs.sizes
        rows = [sizes[value] for value in self._tables if value in sizes]
        rows = [bucket(size) for size in [*rows, *self._rows_of_integers()]]
        wanted = tf.reduce_max([64, 8 * bucket(num_roots), *rows])
        return tf.minimum(wanted, self.most_frames)

    def capacity_within(self, num_roots: tf.Tensor, options: Options) -> tf.Tensor:
        """The room for frames, and for entries of rows, within bounds: an int32 scalar.

        Raises:
            TraceError: If the number of calls has no bound, and there is no table of integers.
        """
        calls = options.max_xla_calls if self._graph.inner_sites else 1
        frames = self._frames_by_tables(num_roots) if calls is None else num_roots * calls
        if not self._inputs.ragged:
            return tf.maximum(frames, 1)
        if options.max_xla_entries is not None:
            entries = num_roots * options.max_xla_entries
        elif calls is None:
            entries = self._most_entries()
        else:
            entries = frames * self._row_length(options)
        return tf.reduce_max([1, frames, entries])

    def sizes(
        self, num_roots: tf.Tensor, capacity: tf.Tensor, options: Options | None
    ) -> tuple[State, tf.Tensor]:
        """Returns the sizes of a run, see `Sizes`, and whether all rows have room in a block.

        Args:
            num_roots: The number of root tokens, an int32 scalar.
            capacity: The room for frames, an int32 scalar.
            options: The options, which bound it inside of XLA; None outside.
        """
        sizes = {**sizes_for(capacity), "roots": bucket(num_roots)}
        if not self._inputs.ragged:
            return sizes, tf.constant(True)
        widest = self._widest_row()
        entries = sizes_for_entries(sizes, self._row_length(options) if options else widest)
        return sizes | entries, widest <= entries["entries"]

    def _frames_by_tables(self, num_roots: tf.Tensor) -> tf.Tensor:
        """The room for one call for each row of the largest table of integers, int32."""
        rows = self._rows_of_integers()
        rows += [
            known_num_rows(self._shared[splits]) - 1
            for splits, entries in self._inputs.ragged
            if entries.type.dtype.is_integer and splits in self._inputs.read_by_rows
        ]
        if not rows:
            raise TraceError(
                f"{self._graph.entry} is called inside a larger program that XLA compiles, such as "
                "tf.function(jit_compile=True), which needs to know how many calls there will be. "
                "Set the largest number of calls per outside call, counting itself: "
                "@kerasrec.recursive(max_xla_calls=...)."
            )
        return tf.reduce_max([num_roots, *rows])

    def _rows_of_integers(self) -> list[tf.Tensor]:
        """The numbers of rows of tables of integers, which determine the calls.

        Other tables, such as vectors of words, may be larger.
        """
        tables = [value for value in self._tables if value.type.dtype.is_integer]
        return [known_num_rows(self._shared[value]) for value in tables]

    def _row_length(self, options: Options) -> tf.Tensor:
        """The room for the entries of a row within bounds, an int32 scalar that XLA knows."""
        longest = tf.maximum(1, self._most_entries())
        most = options.max_xla_row_length
        return longest if most is None else tf.minimum(longest, most)

    def _most_entries(self) -> tf.Tensor:
        """The number of all entries of a table of ragged rows, the largest one, int32."""
        tables = [tensor_of(entries, self._shared) for _, entries in self._inputs.ragged]
        return tf.reduce_max(list(map(known_num_rows, tables)))

    def _widest_row(self) -> tf.Tensor:
        """The number of entries in the longest row of all tables of ragged rows, int32."""
        found = []
        for value in dict.fromkeys(splits for splits, _ in self._inputs.ragged):
            splits = tensor_of(value, self._shared)
            lengths = tf.concat([tf.zeros([1], splits.dtype), splits[1:] - splits[:-1]], 0)
            found.append(tf.cast(tf.reduce_max(lengths), tf.int32))
        return tf.reduce_max(found)
