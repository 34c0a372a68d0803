"""What a run returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

Tensors = list[tf.Tensor]
Given: TypeAlias = Sequence[Sequence[tf.Tensor | None]]
"""For each sweep after the first what comes in from outside: cotangents of flat outputs of an
earlier sweep; anything for those without a gradient."""

State = dict[str, Any]
"""What a loop carries from one iteration to the next, by name."""


@dataclass
class Outcome:
    """What a run gives: the program's own results, or those of one of its derivatives.

    Args:
        sweeps: for each sweep of the derivative, by its index, what it returns to the outside:
          flat outputs of the entry, or their gradients, None for what has none.
        sums: what was summed over all tokens: tables by name, or gradients by SHARED value.
    """

    sweeps: dict[int, list[tf.Tensor | None]]
    sums: dict[Any, tf.Tensor | tf.IndexedSlices]

    @property
    def outputs(self) -> Tensors:
        """Flat outputs of the program itself."""
        return self.sweeps[0]

    @property
    def tables(self) -> dict[str, tf.Tensor]:
        """Collected tables of the program itself, by name."""
        return self.sums
