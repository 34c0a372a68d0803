"""The schema and batch of layers that follow a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from kerasrec._src.private import in_symbolic_scope
from kerasrec._src.public import Schema, SignatureError


def schema_of(given: Any) -> Schema:
    """Returns a schema, given as itself, by its root or by its configuration."""
    if isinstance(given, dict):
        return Schema.from_config(given)
    return given if isinstance(given, Schema) else Schema(given)


def batch_of(schema: Schema, batch: dict[str, Any]) -> dict[str, tf.RaggedTensor]:
    """Returns the tensors of a batch.

    Raises:
        SignatureError: If a tensor is missing or has another type. Keras' `ExportArchive.track`
            calls models with padded tensors and goes on after a TypeError, which this error is.
    """
    try:
        return schema._checked(batch)
    except ValueError as error:
        raise SignatureError(str(error)) from error


def refuse_python_values(schema: Schema, batch: Any) -> None:
    """Raises the SignatureError of `batch_of` for documents that have not been encoded.

    Keras refuses them, too, but names only the first number in them.
    """
    if not (isinstance(batch, Mapping) and all(hasattr(item, "dtype") for item in batch.values())):
        batch_of(schema, batch)


def is_stand_in(batch: dict[str, Any]) -> bool:
    """Whether there are floats in place of a batch.

    Keras calls a subclass of `keras.Model` with floats when it loads it. If that fails, it only
    warns, and layers that are not reached keep their first weights.
    """
    return in_symbolic_scope() and not any(
        isinstance(item, tf.RaggedTensor) for item in batch.values()
    )
