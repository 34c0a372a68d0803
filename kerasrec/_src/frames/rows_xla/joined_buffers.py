"""Buffers that are always written together, as columns of one.

For each buffer that a turn of a loop writes, XLA makes a kernel. On a GPU a turn takes about as
long as it has kernels. On a CPU it takes longer to put columns together, so there only arguments
are. What a call passes is computed from what its caller was passed. If that were in two buffers,
XLA might compute a part of it once for each, so that one buffer is read after the other is written,
and would copy it in each turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.frames.layout import Layout
from kerasrec._src.frames.rows_tf.buffers import BufferSpec
from kerasrec._src.frames.rows_xla.rows import Buffers, Rows, Sizes
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.sections import Place

Specs = dict[Hashable, BufferSpec]


class Packs:
    """Packs of buffers.

    Args:
        groups: The specs of buffers that are written together. Those of one dtype are a pack.
    """

    def __init__(self, groups: Mapping[Hashable, Specs]):
        found: dict[Hashable, Specs] = {}
        for name, specs in groups.items():
            for key, spec in specs.items():
                if _width(spec):
                    found.setdefault(("pack", name, spec.dtype), {})[key] = spec
        self._buffers = {pack: specs for pack, specs in found.items() if len(specs) > 1}
        self._pack_of = {key: pack for pack, specs in self._buffers.items() for key in specs}

    def of(self, key: Hashable) -> Hashable | None:
        """The key of the pack that a buffer is in, or None."""
        return self._pack_of.get(key)

    def packed(self, specs: Specs) -> Specs:
        """Returns specs with one for each pack in place of those of its buffers."""
        found: Specs = {}
        for key, spec in specs.items():
            pack = self.of(key)
            if pack is None:
                found[key] = spec
            else:
                width = sum(map(_width, self._buffers[pack].values()))
                found[pack] = BufferSpec(spec.space, spec.dtype, (width,))
        return found

    def joined(self, rows: Mapping[Hashable, tf.Tensor]) -> dict[Hashable, tf.Tensor]:
        """Returns rows of buffers, `[n, ...]` each, with those of packs joined to `[n, columns]`.

        A pack is left out if not all of its buffers are given.
        """
        found = {key: item for key, item in rows.items() if self.of(key) is None}
        for pack, specs in self._buffers.items():
            if specs.keys() <= rows.keys():
                parts = [tf.reshape(rows[key], [-1, _width(spec)]) for key, spec in specs.items()]
                found[pack] = tf.concat(parts, 1)
        return found

    def columns(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Cuts the rows of a buffer, `[n, ...]`, out of those of its pack, `[n, columns]`."""
        specs = self._buffers[self._pack_of[key]]
        widths = {other: _width(spec) for other, spec in specs.items()}
        columns = tf.split(rows, list(widths.values()), 1)[list(widths).index(key)]
        return tf.reshape(columns, [-1, *(size or 0 for size in specs[key].shape)])


class PackedRows(Rows):
    """Buffers, some of them in packs, that a loop writes.

    What is written to a buffer of a pack is held back until all buffers of the pack are written, in
    the same rows.

    Args:
        sizes, written, read_only: As for `Rows`.
        packs: The packs.
    """

    def __init__(
        self, sizes: Sizes, written: Buffers, read_only: Mapping[Hashable, tf.Tensor], packs: Packs
    ):
        super().__init__(sizes, written, read_only)
        self._packs = packs
        self._held_back: dict[Hashable, dict[Hashable, tf.Tensor]] = {}

    def all(self, key: Hashable) -> tf.Tensor:
        """A whole buffer."""
        pack = self._packs.of(key)
        found = super().all(pack or key)
        return self._packs.columns(key, found) if pack else found

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows; see `Rows.read`."""
        pack = self._packs.of(key)
        found = super().read(pack or key, rows)
        return self._packs.columns(key, found) if pack else found

    def write(self, key: Hashable, rows: tf.Tensor, values: tf.Tensor, live: tf.Tensor) -> None:
        """Replaces live rows; see `Rows.write`."""
        whole = self._whole(key, values)
        if whole is not None:
            super().write(self._packs.of(key) or key, rows, whole, live)

    def read_block(
        self, key: Hashable, start: tf.Tensor, number: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The rows of a block; see `Rows.read_block`."""
        pack = self._packs.of(key)
        found = super().read_block(pack or key, start, number)
        return self._packs.columns(key, found) if pack else found

    def write_block(
        self,
        key: Hashable,
        start: tf.Tensor,
        values: tf.Tensor,
        live: tf.Tensor,
        number: tf.Tensor | None = None,
    ) -> None:
        """Replaces the live rows of a block; see `Rows.write_block`."""
        whole = self._whole(key, values)
        if whole is not None:
            super().write_block(self._packs.of(key) or key, start, whole, live, number)

    def finished(self) -> Buffers:
        """The buffers after all writes; see `Rows.finished`.

        Raises:
            GraphError: If some buffers of a pack were written, and not all.
        """
        if self._held_back:
            raise GraphError(f"Only some buffers of a pack were written: {self._held_back}.")
        return super().finished()

    def _whole(self, key: Hashable, values: tf.Tensor) -> tf.Tensor | None:
        """The rows of a buffer, or of its pack; None as long as those of others are missing."""
        pack = self._packs.of(key)
        if pack is None:
            return values
        rows = self._held_back.setdefault(pack, {})
        rows[key] = values
        found = self._packs.joined(rows).get(pack)
        if found is not None:
            del self._held_back[pack]
        return found


def written_together(
    layout: Layout, kept: Callable[[int], Mapping[Value, Sequence[Place]]]
) -> dict[Hashable, Specs]:
    """Returns the specs of groups of buffers that are written together.

    These are the results of a body, what a later sweep passes to it, and what blocks keep.

    Args:
        layout: The layout of the program.
        kept: Returns the values that the blocks of a sweep keep for themselves, with their places.
    """
    groups: dict[Hashable, Specs] = {}
    for sweep in layout.queues:
        for key, spec in layout.buffer_specs(sweep).items():
            if key[0] in ("input", "output"):
                groups.setdefault(key[:-1], {})[key] = spec
        for value, places in kept(sweep).items():
            groups.setdefault((sweep, *places), {})["value", value] = layout.block_spec(value)
    return groups


def _width(spec: BufferSpec) -> int:
    return math.prod(size or 0 for size in spec.shape)
