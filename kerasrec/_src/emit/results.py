"""The results of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

Tensors = list[tf.Tensor]
Given: TypeAlias = Sequence[Sequence[tf.Tensor | None]]
"""The tensors that the caller passes to each sweep after the first: a cotangent for each flat
output of an earlier sweep. The entries for outputs without a gradient are not read."""

State = dict[str, Any]
"""The variables of a loop, by name."""


@dataclass
class Outcome:
    """The results of a run: those of the program itself, or of one of its derivatives.

    Args:
        sweeps: For each sweep of the derivative, by its index, its results for the outside: flat
          outputs of the entry, or their gradients, None if there is none.
        sums: The sums over all tokens: tables by name, or gradients by SHARED value.
    """

    sweeps: dict[int, list[tf.Tensor | None]]
    sums: dict[Any, tf.Tensor | tf.IndexedSlices]

    def map(self, function: Callable[[tf.Tensor | tf.IndexedSlices], Any]) -> Outcome:
        """Returns an outcome with a function applied to each tensor, in the order of `flat`."""
        sweeps = {
            index: [None if item is None else function(item) for item in sweep]
            for index, sweep in self.sweeps.items()
        }
        return Outcome(sweeps, {key: function(item) for key, item in self.sums.items()})

    def flat(self) -> Tensors:
        """All tensors that there are, a sparse gradient as its parts.

        TensorFlow would make a sparse gradient dense. A table of integers has no cotangent.
        """
        results = [tensor for sweep in self.sweeps.values() for tensor in sweep]
        tensors = [tensor for tensor in (*results, *self.sums.values()) if tensor is not None]
        return tf.nest.flatten(tensors, expand_composites=True)

    @property
    def outputs(self) -> Tensors:
        """The flat outputs of the program itself."""
        return self.sweeps[0]

    @property
    def tables(self) -> dict[str, tf.Tensor]:
        """The collected tables of the program itself, by name."""
        return self.sums
