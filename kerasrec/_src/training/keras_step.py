"""The training step that Keras' own `fit` runs."""

from __future__ import annotations

from typing import Any

import keras

from kerasrec._src.training import replica
from kerasrec._src.training.missing_labels import with_checked_labels


class KerasStep:
    """A mixin whose `train_step` precedes Keras' `train_step` in the order of base classes."""

    def train_step(self: keras.Model, data: Any) -> dict[str, Any]:
        """Runs `keras.Model.train_step`, but with each row only once in the gradients of tables.

        Raises:
            tf.errors.InvalidArgumentError: As for `with_checked_labels`.
        """
        data = with_checked_labels(self, data)
        replica.train_step(self, data, lambda gradients: replica.move(self, gradients, None))
        return self.get_metrics_result()
