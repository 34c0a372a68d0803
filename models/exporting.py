"""Export of models whose inputs are ragged: Keras' own `export` takes dense ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

# The inputs of a model of trees in ragged batches: tokens and children.
RAGGED_TREES = (
    tf.RaggedTensorSpec([None, None], tf.int32),
    tf.RaggedTensorSpec([None, None, None], tf.int32),
)


def export(model: keras.Model, signature: Sequence[Any], folder: Path) -> None:
    """Writes a SavedModel.

    Args:
        model: of inputs that are ragged.
        signature: the type of the inputs: of one, or of several.
        folder: where it goes.
    """

    def serve(*inputs: Any) -> Any:
        return model(inputs[0] if len(inputs) == 1 else list(inputs))

    function = tf.function(serve, input_signature=list(signature))
    archive = keras.export.ExportArchive()
    archive.add_endpoint("serve", function)
    archive.write_out(folder, verbose=False)
