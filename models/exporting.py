"""Exports models with ragged inputs, or with an answer that differs from the result of a call.

Keras' `export` takes dense inputs, and exports the call.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

# The inputs of a model of trees in ragged batches: tokens and children.
RAGGED_TREES = (
    tf.RaggedTensorSpec([None, None], tf.int32),
    tf.RaggedTensorSpec([None, None, None], tf.int32),
)


def call(model: keras.Model, *inputs: Any) -> Any:
    """The result of a model for one input, or for several."""
    return model(inputs[0] if len(inputs) == 1 else list(inputs))


def export(
    model: keras.Model, signature: Sequence[Any], folder: Path, answer: Callable[..., Any] = call
) -> None:
    """Writes a SavedModel with an endpoint `serve`.

    Args:
        model: to export.
        signature: the types of the inputs.
        folder: of the export.
        answer: the function to serve, of the model and its inputs.
    """

    def serve(*inputs: Any) -> Any:
        return answer(model, *inputs)

    function = tf.function(serve, input_signature=list(signature))
    archive = keras.export.ExportArchive()
    if any(spec.dtype == tf.string for spec in signature):
        archive.track(model)  # Finds its tables of words, by a call with dense inputs.
    archive.add_endpoint("serve", function)
    archive.write_out(folder, verbose=False)
