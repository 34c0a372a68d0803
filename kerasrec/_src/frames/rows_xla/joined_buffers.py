"""Buffers that are always written together, as columns of one.

For each buffer that a turn of a loop writes, XLA makes a kernel. On a GPU a turn takes about as
long as it has kernels. On a CPU it takes longer to put columns together, so there only arguments
are. What a call passes is computed from what its caller was passed. If that were in two buffers,
XLA might compute a part of it once for each, so that one buffer is read after the other is written,
and would copy it in each turn.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import tensorflow as tf

from kerasrec._src.frames.layout import BufferSpec, Specs


class JoinedBuffers:
    """Buffers that are columns of others, the *wholes*.

    Args:
        groups: The specs of buffers that are written together. Those of one dtype are joined.
    """

    def __init__(self, groups: Mapping[Hashable, Specs]):
        found: dict[Hashable, Specs] = {}
        for name, specs in groups.items():
            for key, spec in specs.items():
                if _width(spec):
                    found.setdefault(("joined", name, spec.dtype), {})[key] = spec
        self._parts = {whole: specs for whole, specs in found.items() if len(specs) > 1}
        self._wholes = {key: whole for whole, specs in self._parts.items() for key in specs}

    def whole(self, key: Hashable) -> Hashable:
        """The key of the buffer that a buffer is a part of, or its own."""
        return self._wholes.get(key, key)

    def joined_specs(self, specs: Specs) -> Specs:
        """Returns specs with those of wholes in place of those of their parts."""
        found: Specs = {}
        for key, spec in specs.items():
            whole = self.whole(key)
            if whole in self._parts:
                width = sum(map(_width, self._parts[whole].values()))
                spec = BufferSpec(spec.space, spec.dtype, (width,))
            found[whole] = spec
        return found

    def joined(self, rows: Mapping[Hashable, tf.Tensor]) -> dict[Hashable, tf.Tensor]:
        """Returns rows of buffers, `[n, ...]` each, with parts joined to wholes, `[n, columns]`.

        A whole is left out if not all of its parts are given.
        """
        found = {key: item for key, item in rows.items() if key not in self._wholes}
        for whole, specs in self._parts.items():
            if specs.keys() <= rows.keys():
                parts = [tf.reshape(rows[key], [-1, _width(spec)]) for key, spec in specs.items()]
                found[whole] = tf.concat(parts, 1)
        return found

    def part(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Cuts the rows of a buffer, `[n, ...]`, out of those of its whole, `[n, columns]`."""
        if key not in self._wholes:
            return rows
        specs = self._parts[self._wholes[key]]
        widths = {other: _width(spec) for other, spec in specs.items()}
        columns = tf.split(rows, list(widths.values()), 1)[list(widths).index(key)]
        return tf.reshape(columns, [-1, *(size or 0 for size in specs[key].shape)])


def _width(spec: BufferSpec) -> int:
    return math.prod(size or 0 for size in spec.shape)
