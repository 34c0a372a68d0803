"""What engines have in common that keep nothing for a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kerasrec.engine.results import Gradients, Outcome, Tensors
from kerasrec.graph.graph import Value


class ForwardOnly(ABC):
    """One run of a program; its gradient, if it is asked for, runs the program again by waves.

    Args:
        waves: makes a run of the same program by an engine that has a gradient.
    """

    def __init__(self, waves: Callable[[], Any]):
        self._waves = waves
        self._arguments: Tensors

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs the program."""
        self._arguments = arguments
        return self.run(arguments)

    def backward(self, cotangents: Tensors, shared: dict[Value, tf.Tensor]) -> Gradients:
        """Runs the program again, and back; arguments as in `LevelRun.backward`."""
        waves = self._waves()
        waves.forward(self._arguments)
        return waves.backward(cotangents, shared)

    @abstractmethod
    def run(self, arguments: Tensors) -> Outcome:
        """The forward run."""
