"""The step that Keras' own `fit` takes with a model."""

from __future__ import annotations

from typing import Any

import keras

from kerasrec.training import replica


class KerasStep:
    """A model's `train_step`, before that of Keras in the order of classes."""

    def train_step(self: keras.Model, data: Any) -> dict[str, Any]:
        """`keras.Model.train_step`, by gradients of tables that have each row once."""
        replica.train_step(self, data, lambda gradients: replica.move(self, gradients, None))
        return self.get_metrics_result()
