"""A program in a compiled run with `memo`: what all parts of the run know of it."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.frames.layout import Layout
from kerasrec._src.frames.rows_tf.buffers import BufferSpec
from kerasrec._src.frames.rows_xla.joined_buffers import Packs
from kerasrec._src.frames.rows_xla.program import Program
from kerasrec._src.frames.rows_xla.rows import Sizes
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.values import Value
from kerasrec._src.half_precision import wide
from kerasrec._src.schedule.sections import Component, Place

ROOTS = ("roots",)
COPIES = ("copies",)


def waiting_of(layout: Layout) -> list[str]:
    """Returns the bodies of which some calls wait for others, and go on at place 1.

    Raises:
        GraphError: If a body has other places than those before and after calls.
    """
    order = layout.queues[0].order
    others = [key for key in order if key[1] > 1]
    if others:
        raise GraphError(f"With memo a body has places 0 and 1, and there are {others}.")
    return [name for name in layout.graph.bodies if (name, 1) in order]


def called_key(sites: Sequence[CallSite]) -> Hashable:
    """Returns the key under which the calls that call sites make are kept."""
    return ("called", sites[0].label)


@dataclass
class MemoProgram(Program):
    """A program in one run; arguments as for `Program`. `done` has the tensors of the `Order`."""

    @functools.cached_property
    def waiting(self) -> list[str]:
        """The bodies of which some calls wait for others."""
        return waiting_of(self.layout)

    @property
    def arguments(self) -> dict[Value, int]:
        """None: calls are not written one by one."""
        return {}

    @property
    def packs(self) -> Packs:
        """None: some of its buffers are added to, and others are replaced."""
        return Packs({})

    @property
    def shares(self) -> dict[Place, int]:
        """One for each place, since blocks of place 1 stand among all other calls."""
        return dict.fromkeys(self.layout.order, 1)

    @functools.cached_property
    def components(self) -> tuple[Component, ...]:
        """Two groups of places: those that run in any order, and those that run by level."""
        entrances = tuple((name, 0) for name in self.layout.graph.bodies)
        return entrances, tuple((name, 1) for name in self.waiting)

    def sizes_for(self, component: Component) -> Sizes:
        """The sizes of a component's blocks; they are narrow if levels wait for each other."""
        return self.sizes if component[0][1] else self.sizes.wide

    def of_roots(self, tensor: tf.Tensor) -> tf.Tensor:
        """The rows of root tokens."""
        return tf.gather_nd(tensor, self.roots)

    def buffer_specs(self, sweep: int) -> dict[Hashable, BufferSpec]:
        """Returns the specs of the buffers that a sweep fills.

        Buffers that sum the cotangents from several callers are float32 in half precision.
        """
        layout = self.layout
        kinds = ("input", "output", "value")
        found: dict[Hashable, BufferSpec] = {
            key: replace(spec, dtype=wide(spec.dtype)) if key[0] == "input" else spec
            for key, spec in layout.buffer_specs(sweep).items()
            if key[0] in kinds
        }
        for value in layout.kept_by_block(sweep):
            found["value", value] = layout.block_spec(value)
        if not sweep:
            found |= {("waits", name): BufferSpec(name, tf.bool, ()) for name in self.waiting}
        return found

    @property
    def roots(self) -> tf.Tensor:
        """The calls and copies of root tokens, int32 `[tokens, 2]`."""
        return self.done[ROOTS]
