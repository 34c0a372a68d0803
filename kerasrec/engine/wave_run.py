"""The base class of the engines that run by waves, one sweep after the other."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence

import tensorflow as tf

from kerasrec.engine.barriers import with_open_tokens
from kerasrec.engine.limits import Limits
from kerasrec.engine.plan import Plan
from kerasrec.engine.results import Outcome, Tensors
from kerasrec.engine.store import WaveStore
from kerasrec.engine.sums import Sums
from kerasrec.graph.graph import order_of
from kerasrec.graph.values import Region, Value


class WaveRun(ABC):
    """One run of a program; what it keeps serves all of its derivatives.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth, width and memory.
    """

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits):
        self.plan = plan
        self.graph = plan.graph
        self.bodies = plan.graph.bodies
        self.limits = limits
        self.store = WaveStore(plan, shared)

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs sweep 0 on flat arguments, `[tokens, ...]` each."""
        sums = Sums()
        outputs = self._first_sweep(with_open_tokens(arguments), sums)
        return Outcome({0: with_open_tokens(outputs)}, sums.tables())

    def backward(
        self, given: Sequence[Sequence[tf.Tensor | None]], shared: dict[Value, tf.Tensor]
    ) -> Outcome:
        """Runs all sweeps after the first; may be called several times after `forward`.

        Args:
            given: for each of these sweeps, what comes in from outside: cotangents of flat outputs
              of an earlier sweep; anything for those without a gradient.
            shared: tensors of SHARED values, including the cotangents of sums over all tokens.
        """
        run = self._with(shared)
        found = {}
        for index, tensors in enumerate(given, start=1):
            if order_of(index) != order_of(index - 1):
                sums = Sums()
            outputs = iter(
                with_open_tokens(run._later_sweep(index, with_open_tokens(tensors), sums))
            )
            exits = run.bodies[run.graph.entry].sweeps[index].outputs
            found[index] = [None if node is None else next(outputs) for node in exits]
        return Outcome(found, sums.gradients(shared))

    def _with(self, shared: dict[Value, tf.Tensor]) -> WaveRun:
        """A run that goes on from this one, with other tensors of SHARED values."""
        run = copy.copy(self)
        run.store = self.store.copy(shared)
        return run

    def sizes(self) -> dict[Region | str, tf.Tensor]:
        """How many tokens each wave has, int32 `[waves]` by the name of a body and by regions."""
        return self.store.sizes()

    @abstractmethod
    def notes(self) -> tf.Tensor:
        """What `forward` ran, in order: int32 `[steps, 3]`, each (what, wave, depth)."""

    @abstractmethod
    def _first_sweep(self, arguments: Tensors, sums: Sums) -> Tensors:
        """Runs sweep 0; returns its outputs for the outside."""

    @abstractmethod
    def _later_sweep(self, index: int, given: Sequence[tf.Tensor | None], sums: Sums) -> Tensors:
        """Runs another sweep; returns its outputs for the outside."""
