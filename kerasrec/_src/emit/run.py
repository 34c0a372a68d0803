"""One run of a program, by whichever engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import tensorflow as tf

from kerasrec._src.emit.results import Given, Outcome, Tensors
from kerasrec._src.graph.values import Value


class Run:
    """One run of a program: its values, and then the sweeps of its derivatives."""

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0 on flat arguments, `[tokens, ...]` each."""
        raise NotImplementedError

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs all sweeps after the first; may be called several times after `forward`.

        Args:
            given: The values that come from outside for these sweeps.
            shared: The tensors of SHARED values, including the cotangents of sums over all tokens.
        """
        raise NotImplementedError

    def whole(self, arguments: Tensors, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs all sweeps; returns the outcome of those after the first."""
        self.forward(arguments)
        return self.backward(given, shared)


@dataclass(eq=False)
class RunAgain(Run):
    """A run that keeps nothing for its gradient: the gradient runs the program again.

    Args:
        values: The run of the values.
        again: Makes a run that has the gradient.
    """

    values: Run
    again: Callable[[], Run]
    arguments: Tensors = field(init=False)

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs the values."""
        self.arguments = arguments
        return self.values.forward(arguments)

    def backward(self, given: Given, shared: dict[Value, tf.Tensor]) -> Outcome:
        """Runs the program again, forward and backward."""
        return self.again().whole(self.arguments, given, shared)
