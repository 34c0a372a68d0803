"""What the finder of kinds knows of a tensor."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import tensorflow as tf

from kerasrec.graph.types import Kind
from kerasrec.trace.powers import NONE, Power, depends


@dataclass(frozen=True)
class Known:
    """What is known of a tensor.

    Args:
        kind: see `Kind`.
        rows: how many rows each token has, if the leading axis is open.
        axis: where the token axis is, of tensors in which it is not the first.
        is_mixed: whether it was computed across tokens.
        power: how its numbers depend on how many tokens run together; they may also depend on which
          do.
        is_size: whether it was computed from shapes alone.
        entry: of what a loop over tokens reads in an iteration, the number of that iteration.
        is_list: whether it is a list with an entry a token.
        is_cut: whether rows of tokens were cut anew, as by `tf.reshape(x, [3, -1])`.
        by: the op that mixed tokens, or that depends on how many there are.
    """

    kind: Kind
    rows: Fraction = Fraction(1)
    axis: int | None = None
    is_mixed: bool = False
    power: Power = field(default_factory=lambda: NONE)
    is_size: bool = False
    entry: Hashable = None
    is_list: bool = False
    is_cut: bool = False
    by: tf.Operation | None = None

    @property
    def place(self) -> int | None:
        """Where the token axis is, if there is one."""
        return 0 if self.kind is Kind.TOKEN else self.axis

    @property
    def depends(self) -> bool:
        """Whether it depends on how many tokens, or on which, run together."""
        return self.is_mixed or depends(self.power)

    def is_as(self, other: Known) -> bool:
        """Whether the same is known of another tensor, whichever op made it so."""
        mine = (self.kind, self.rows, self.axis, self.is_mixed, self.entry, self.is_list)
        return (
            mine == (other.kind, other.rows, other.axis, other.is_mixed, other.entry, other.is_list)
            and self.is_size == other.is_size
            and np.array_equal(self.power, other.power, equal_nan=True)
        )


SHARED = Known(Kind.SHARED)
