"""The registers of a segment on a wave, or on the tokens of all waves."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.emit.arrays import num_rows
from kerasrec._src.emit.registers import Registers
from kerasrec._src.emit.results import Tensors
from kerasrec._src.schedule.instructions import Instruction, Load, Measure, Receive, Returned, Save
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

    def bring(self, instruction: Instruction) -> Tensors:
        """Returns a value that was passed to the wave, or saved for it."""
        if isinstance(instruction, Receive):
            counts = [num_rows(self.given[0])] if instruction.tokens else []
            return [*counts, *self.given]
        if isinstance(instruction, Returned):
            pairs = zip(instruction.values, self.returns[instruction], strict=True)
            return [tensor for value, tensor in pairs if value]
        if isinstance(instruction, Load):
            return [self.store.load(instruction.item, self.wave)]
        if isinstance(instruction, Measure):
            self.store.measure(instruction.tokens, instruction.item)
            return [num_rows(self.get(instruction.item))]
        return super().bring(instruction)

    def keep(self, save: Save) -> None:
        """Keeps a value that is known for all waves; loops keep the values of single waves."""
        if self.wave is None:
            self.store.put(save, self.get(save.item), self.body)
