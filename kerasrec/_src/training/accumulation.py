"""Accumulation of gradients where a batch is computed in parts.

Keras' optimizers accumulate in a conditional, in which replicas cannot exchange gradients. Here the
choice is made before the step, and each choice has its own function.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.training.strategies import is_served, splits_batches

_SUMS: weakref.WeakKeyDictionary[keras.optimizers.Optimizer, list[tf.Variable]]
_SUMS = weakref.WeakKeyDictionary()


class Accumulation:
    """Adds up gradients as an optimizer with `gradient_accumulation_steps` does.

    Each replica adds up its own gradients, and all-reduces them in the steps that move weights; or
    the coordinator adds up those of the whole batch.

    Args:
        model: A model that `_accumulates`; given in the scope of its strategy.

    Attributes:
        sums: The variables in which gradients are added up.
    """

    def __init__(self, model: keras.Model):
        self._optimizer = model.optimizer
        self._steps = model.optimizer.gradient_accumulation_steps
        with self._switched_off():
            # Counts all steps; without this, `iterations` counts those that move weights.
            self._counter = self._optimizer.iterations.value
        # Sums are kept from one training to the next, as is the optimizer's count of steps.
        if self._optimizer not in _SUMS:
            _SUMS[self._optimizer] = _sums(model)
        self.sums = _SUMS[self._optimizer]

    @classmethod
    def of(cls, model: keras.Model) -> Accumulation | None:
        """Returns what adds up the gradients of a model; None if its optimizer does, or none.

        Raises:
            ValueError: If the model's optimizer accumulates in a way that this class cannot follow.
        """
        return cls(model) if _accumulates(model) else None

    def moves_weights(self) -> bool:
        """Whether the next step moves weights."""
        return (int(self._counter.numpy()) + 1) % self._steps == 0

    def add(self, gradients: Sequence[Any]) -> None:
        """Counts a step that does not move weights."""
        for total, gradient in zip(self.sums, gradients, strict=True):
            if gradient is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        self._counter.assign_add(1)

    def mean(self, gradients: Sequence[Any]) -> list[tf.Tensor | None]:
        """The mean of the gradients added up, including these; resets the sums."""
        means = []
        for total, gradient in zip(self.sums, gradients, strict=True):
            means.append(gradient)
            if gradient is not None:
                means[-1] = (total + tf.convert_to_tensor(gradient)) / self._steps
                total.assign(tf.zeros_like(total))
        return means

    def apply(self, gradients: Sequence[Any], weights: Sequence[keras.Variable]) -> None:
        """Moves weights by the gradients."""
        taken = tf.identity(self._counter)
        self._counter.assign(taken // self._steps)
        with self._switched_off():
            self._optimizer.apply_gradients(zip(gradients, weights, strict=True))
        self._counter.assign(taken + 1)

    @contextlib.contextmanager
    def _switched_off(self) -> Iterator[None]:
        """Within it the optimizer does not accumulate by itself."""
        self._optimizer.gradient_accumulation_steps = None
        try:
            yield
        finally:
            self._optimizer.gradient_accumulation_steps = self._steps


def _sums(model: keras.Model) -> list[tf.Variable]:
    of_each_replica = {
        "synchronization": tf.VariableSynchronization.ON_READ,
        "aggregation": tf.VariableAggregation.SUM,
    }
    kind = {} if is_served(model.distribute_strategy) else of_each_replica
    return [
        tf.Variable(tf.zeros(weight.shape, weight.dtype), trainable=False, **kind)
        for weight in model.trainable_weights
    ]


def _accumulates(model: keras.Model) -> bool:
    if not splits_batches(model.distribute_strategy):
        return False
    optimizer = model.optimizer
    if any(_steps(inner) for inner in optimizers_in(optimizer) if inner is not optimizer):
        raise ValueError(
            f"An optimizer inside of {optimizer.name!r} has gradient_accumulation_steps, which "
            "several replicas support only in an optimizer that is not part of another."
        )
    if not _steps(optimizer):
        return False
    has_schedule = isinstance(optimizer.get_config()["learning_rate"], dict)
    if has_schedule or optimizer.use_ema:
        raise ValueError(
            f"The optimizer has gradient_accumulation_steps and "
            f"{'a schedule of learning rates' if has_schedule else 'use_ema'}, which several "
            "replicas do not support together. Leave out one, or make batches larger instead."
        )
    return True


def optimizers_in(optimizer: Any) -> Iterator[Any]:
    """An optimizer and those inside it."""
    yield optimizer
    for value in keras.tree.flatten(list(vars(optimizer).values())):
        if isinstance(value, keras.optimizers.Optimizer):
            yield from optimizers_in(value)


def _steps(optimizer: Any) -> int | None:
    return getattr(optimizer, "gradient_accumulation_steps", None)
