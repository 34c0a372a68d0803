"""The registers of a segment on a wave, or on the tokens of all waves."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.arrays import num_rows
from kerasrec._src.emit.registers import Registers
from kerasrec._src.emit.results import Tensors
from kerasrec._src.graph.values import Region
from kerasrec._src.schedule.instructions import Load, Measure, Receive, Returned, Save
from kerasrec._src.waves.store import WaveStore


@dataclass(eq=False)
class WaveRegisters(Registers):
    """The values that a segment has computed so far.

    Args:
        graph: The program.
        body: The body of the segment.
        shared: The tensors of SHARED values.
        store: The values that other segments have saved.
        wave: The number of the wave, an int32 scalar; None for the tokens of all waves.
    """

    store: WaveStore
    wave: tf.Tensor | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.returns: dict[Returned, Tensors] = {}

    def keep(self, save: Save) -> None:
        """Keeps a value that is known for all waves; loops keep the values of single waves."""
        if self.wave is None:
            self.store.put(save, self.get(save.item), self.body)

    def _run_receive(self, receive: Receive) -> None:
        counts = [num_rows(self.given[0])] if receive.tokens else []
        self._set(receive, [*counts, *self.given])

    def _run_returned(self, returned: Returned) -> None:
        pairs = zip(returned.values, self.returns[returned], strict=True)
        self._set(returned, [tensor for value, tensor in pairs if value])

    def _run_load(self, load: Load) -> None:
        self._set(load, [self.store.load(load.item, self.wave)])

    def _run_measure(self, measure: Measure) -> None:
        if isinstance(measure.item, Region):
            super()._run_measure(measure)
            return
        self.store.measure(measure.tokens, measure.item)
        self._set(measure, [num_rows(self.get(measure.item))])
