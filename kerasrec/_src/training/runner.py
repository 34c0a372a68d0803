"""Chooses how a model takes its steps, and checks that it can."""

from __future__ import annotations

from typing import TypeAlias

import keras

from kerasrec._src.training import replica
from kerasrec._src.training.batches import Batches
from kerasrec._src.training.in_step import InStep
from kerasrec._src.training.keras_step import KerasStep
from kerasrec._src.training.missing_labels import checked_batches
from kerasrec._src.training.parameter_server import Coordinated
from kerasrec._src.training.strategies import is_served

Runner: TypeAlias = InStep | Coordinated


def runner_of(model: keras.Model, batches: Batches) -> Runner:
    """Creates a model's variables, and the object that runs its steps under its strategy.

    Args:
        model: A compiled model that was made in the scope of its strategy.
        batches: The batches that the model will get.

    Raises:
        ValueError: If the strategy cannot train the model as it was made or compiled.
    """
    if not model.compiled:
        raise ValueError("The model is not compiled. Call model.compile(optimizer, loss) first.")
    for method in ("train_step", "test_step"):
        known = (getattr(of, method, None) for of in (keras.Model, KerasStep))
        if getattr(type(model), method) not in known:
            raise ValueError(
                f"{type(model).__name__} overrides {method}, which this loop never calls. "
                "Override compute_loss and compute_metrics instead."
            )
    strategy = model.distribute_strategy
    in_scope = strategy.extended.variable_created_in_scope
    if not all(in_scope(variable.value) for variable in replica.tracker(model).variables):
        raise ValueError(
            "The model was made in the scope of a strategy, but compiled outside of it, so that "
            "each replica would track a separate loss. Call `model.compile` within "
            "`strategy.scope()`."
        )
    batches = checked_batches(model, batches)
    return Coordinated(model, batches) if is_served(strategy) else InStep(model, batches)
