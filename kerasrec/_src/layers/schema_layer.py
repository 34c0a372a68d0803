"""The common part of layers that read batches of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.private import in_symbolic_scope
from kerasrec._src.public import Schema, SignatureError


class SchemaLayer(keras.layers.Layer):
    """Base class of layers that are called with a batch of a schema.

    Args:
        schema: A schema, given as itself, by its root or by its configuration.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.
    """

    def __init__(self, schema: Any, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        if isinstance(schema, dict):
            schema = Schema.from_config(schema)
        self.schema = schema if isinstance(schema, Schema) else Schema(schema)
        self.supports_jit = False  # Rows have any length.

    def __call__(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer: `layer(batch)`."""
        # Keras also refuses documents that are not encoded, but names only the first number in one.
        if not (isinstance(batch, Mapping) and all(hasattr(x, "dtype") for x in batch.values())):
            self._checked(batch)
        return super().__call__(batch, *args, **kwargs)

    def _checked(self, batch: Any) -> dict[str, tf.RaggedTensor]:
        """The tensors of a batch.

        Raises:
            SignatureError: If a tensor is missing or has another type. Keras' `ExportArchive.track`
                calls models with padded tensors and goes on after a TypeError, which this error is.
        """
        try:
            return self.schema._checked(batch)
        except ValueError as error:
            raise SignatureError(str(error)) from error

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, as Keras saves them."""
        return {**super().get_config(), "schema": self.schema.get_config()}


def is_stand_in(batch: dict[str, Any]) -> bool:
    """Whether floats were passed instead of a batch.

    Keras calls a subclass of `keras.Model` with floats when it loads it. If that fails, it only
    warns, and layers that are not reached keep their first weights.
    """
    are_ragged = (isinstance(tensor, tf.RaggedTensor) for tensor in batch.values())
    return in_symbolic_scope() and not any(are_ragged)
